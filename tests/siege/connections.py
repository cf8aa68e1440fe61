"""Attacks with connections alone: many, half open, slow or unused ones."""

from __future__ import annotations

from random import Random

from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.siege.before_login import always
from tests.siege.entry import Entry, Way
from tests.siege.frames import request
from tests.siege.stage import CONTROLLER, Scene

__all__ = ["CONNECTIONS"]

_CLIENT_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(range(32)) + b"\0"
"""The beginning of a TLS handshake that never continues."""


def _broken_tls(scene: Scene, rng: Random) -> list[bytes]:
    return [b"\x16\x03\x01" + rng.randbytes(rng.randrange(2, 600)) for _ in range(100)]


CONNECTIONS = (
    *(
        Entry(f"100 idle connections, {listener}", listener, always(lambda: b"\0"), way=Way.HOLD, connections=100,
              is_below_tls=True)
        for listener in ("PLAINTEXT", "SASL_SSL", CONTROLLER)
    ),
    *(
        Entry(f"one byte at a time on 50 connections, {listener}", listener,
              always(lambda: request(SaslHandshakeRequest(mechanism="PLAIN"), 1)), way=Way.DRIP, connections=50,
              is_below_tls=True)
        for listener in ("SASL_PLAINTEXT", "SSL")
    ),
    Entry("TLS handshakes that end half way", "SSL", always(lambda: _CLIENT_HELLO), way=Way.HOLD, connections=60,
          is_below_tls=True),
    Entry("garbage in place of a TLS handshake", "SSL", _broken_tls, is_below_tls=True),
    Entry("TLS handshakes without end", "SSL", always(lambda: b"\x7f\xff\xff\xff"), connections=2),
    Entry("TLS records of one byte", "SSL", always(lambda: request(MetadataRequest(topics=[]), 12)), way=Way.DRIP,
          connections=10),
    Entry("connections that are closed immediately", "PLAINTEXT", always(lambda: b"\x7f\xff\xff\xff"), connections=2),
    Entry("plain requests on a TLS listener", "SSL", always(lambda: request(MetadataRequest(topics=[]), 12)),
          is_below_tls=True),
)  # fmt: skip
