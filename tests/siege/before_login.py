"""Inputs of a client without a login: to SASL listeners, and through TLS."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from struct import pack

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.siege.entry import Entry, Payloads, Way
from tests.siege.frames import framed, request, sized, tags, varint
from tests.siege.stage import CONTROLLER, Scene

__all__ = ["BEFORE_LOGIN"]

_LARGEST = 500 * 1024
"""Kafka accepts 512 KB before a login (``sasl.server.max.receive.size``)."""
_HANDSHAKE = request(SaslHandshakeRequest(mechanism="PLAIN"), 1)


def always(make: Callable[[], bytes]) -> Payloads:
    return lambda scene, rng: [make()]


def _api_versions(total: int, size: int = 0) -> bytes:
    return sized(ApiKey.API_VERSIONS, 4, b"\x05java\x044.3" + tags(total, size))


def _token(mechanism: str, token: bytes) -> bytes:
    return request(SaslHandshakeRequest(mechanism=mechanism), 1) + request(SaslAuthenticateRequest(auth_bytes=token), 2)


def _garbage(scene: Scene, rng: Random) -> list[bytes]:
    return [rng.randbytes(rng.randrange(1, 400)) for _ in range(200)]


def _random_scram(scene: Scene, rng: Random) -> list[bytes]:
    names = [f"user-{rng.randrange(10**9)}" for _ in range(200)]
    return [_token("SCRAM-SHA-512", f"n,,n={name},r={rng.randbytes(16).hex()}".encode()) for name in names]


_SASL = ("SASL_PLAINTEXT", "SASL_SSL", CONTROLLER)

BEFORE_LOGIN = (
    *(
        Entry(f"ApiVersions with 500 KB of empty tagged fields, before login, {listener}", listener,
              always(lambda: _api_versions(_LARGEST)))
        for listener in _SASL
    ),
    *(
        Entry(f"SaslAuthenticate with 500 KB of tagged fields, before login, {listener}", listener,
              always(lambda: _HANDSHAKE + sized(ApiKey.SASL_AUTHENTICATE, 2, b"\x02\0" + tags(_LARGEST))))
        for listener in _SASL
    ),
    *(
        Entry(f"header with 500 KB of tagged fields, before login, {listener}", listener,
              always(lambda: sized(ApiKey.API_VERSIONS, 4, b"\x05java\x044.3\0", header_tags=tags(_LARGEST))))
        for listener in _SASL
    ),
    Entry("SaslHandshake with a mechanism of 32 KB, before login", "SASL_PLAINTEXT",
          always(lambda: request(SaslHandshakeRequest(mechanism="P" * 32_000), 1))),
    Entry("Metadata of all topics, before login", "SASL_PLAINTEXT",
          always(lambda: request(MetadataRequest(topics=None)))),
    Entry("PLAIN token of 500 KB", "SASL_PLAINTEXT", always(lambda: _token("PLAIN", b"\0u\0" + b"p" * _LARGEST))),
    Entry("PLAIN token of 500 KB of zeros", "SASL_PLAINTEXT", always(lambda: _token("PLAIN", bytes(_LARGEST)))),
    Entry("SCRAM first message of 500 KB of commas", "SASL_PLAINTEXT",
          always(lambda: _token("SCRAM-SHA-512", b"n,," + b"n=u,r=" + b",a=b" * (_LARGEST // 4)))),
    Entry("SCRAM name of 500 KB of escapes", "SASL_PLAINTEXT",
          always(lambda: _token("SCRAM-SHA-512", b"n,,n=" + b"=2C" * (_LARGEST // 3) + b",r=x"))),
    Entry("SCRAM logins of unknown users", "SASL_PLAINTEXT", _random_scram),
    Entry("OAUTHBEARER token of 500 KB", "SASL_PLAINTEXT",
          always(lambda: _token("OAUTHBEARER", b"n,,\x01auth=Bearer " + b"a" * _LARGEST + b"\x01\x01"))),
    Entry("OAUTHBEARER token of 300 KB of nested JSON", "SASL_PLAINTEXT",
          always(lambda: _token("OAUTHBEARER", b"n,,\x01auth=Bearer " + b"W1tb" * 75_000 + b".e30.AAAA\x01\x01"))),
    Entry("wrong passwords, PLAIN", "SASL_PLAINTEXT", always(lambda: _token("PLAIN", b"\0alice\0wrong"))),
    Entry("random bytes, before login", "SASL_PLAINTEXT", _garbage),
    Entry("random bytes, before login, controller", CONTROLLER, _garbage),
    Entry("negative frame size", "SASL_PLAINTEXT", always(lambda: pack(">i", -1) + bytes(100))),
    Entry("frame size of 2 GB", "SASL_PLAINTEXT", always(lambda: pack(">i", 2**31 - 1) + bytes(100_000))),
    Entry("client id that is longer than the frame", "SASL_PLAINTEXT",
          always(lambda: framed(pack(">hhih", 18, 4, 1, 32767) + b"x"))),
    Entry("tag count of 2^31, before login", "SASL_PLAINTEXT",
          always(lambda: sized(ApiKey.API_VERSIONS, 4, b"\x05java\x044.3" + varint(2**31 - 1) + bytes(3000)))),
    Entry("frames of no bytes, before login", "SASL_PLAINTEXT", always(lambda: bytes(4) * 16_000), way=Way.PIPELINE),
    Entry("ApiVersions without end, before login", "SASL_PLAINTEXT", always(lambda: _api_versions(1) * 500),
          way=Way.PIPELINE),
)  # fmt: skip
