"""Odd exchanges with a SASL listener: every order of a few frames, and malformed frames. ``observe`` runs them against
a port and records what a client sees, so that two kinds of nodes can be compared. ``python -m
tests.peers.sasl_exchanges FILE`` records the behaviour of the real Kafka.
"""

from __future__ import annotations

import json
import socket
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from struct import Struct

from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from barnabas.protocol.schema import Message

__all__ = ["AGAIN", "AGAIN_SETTINGS", "ALPHABET", "EXCHANGES", "FILE", "SETTINGS", "observe", "observe_all"]

FILE = Path(__file__).resolve().parents[1] / "vectors" / "sasl_exchanges.json"
SETTINGS = {"connection.failed.authentication.delay.ms": "20", "sasl.server.max.receive.size": "20000"}
"""The settings of the observed node; it offers PLAIN and SCRAM-SHA-256."""

_SIZE = Struct(">i")
_ANSWER_TIMEOUT_S = 1.5
_CORRELATION_ID = 77


def frame(key: int, version: int, body: bytes, *, client_id: bytes | None = b"odd", flexible: bool = False) -> bytes:
    header = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True)
    header += _CORRELATION_ID.to_bytes(4, "big")
    header += b"\xff\xff" if client_id is None else len(client_id).to_bytes(2, "big") + client_id
    return sized(header + (b"\0" if flexible else b"") + body)


def sized(content: bytes) -> bytes:
    return _SIZE.pack(len(content)) + content


def request(message: Message, version: int) -> bytes:
    key = ApiKey(message.API_KEY)
    return frame(key, version, message.encode(version), flexible=version >= API_TABLE[key].request_flexible_since)


def _authenticate(token: bytes, version: int = 2) -> bytes:
    return request(SaslAuthenticateRequest(auth_bytes=token), version)


def _handshake(mechanism: str, version: int = 1) -> bytes:
    return request(SaslHandshakeRequest(mechanism=mechanism), version)


_SOFTWARE = ApiVersionsRequest(client_software_name="odd", client_software_version="1")
_GOOD = b"\0alice\0alice-secret"
_WRONG = b"\0alice\0wrong"

ALPHABET: dict[str, bytes] = {
    "versions": request(_SOFTWARE, 3),
    "handshake0": _handshake("PLAIN", 0),
    "handshake1": _handshake("PLAIN", 1),
    "unknown-mechanism": _handshake("NOPE", 1),
    "good": _authenticate(_GOOD),
    "wrong": _authenticate(_WRONG),
    "metadata": request(MetadataRequest(topics=[]), 9),
    "raw-good": sized(_GOOD),
}
"""Frames that are tested in every order of up to three."""

_ODD: dict[str, list[bytes]] = {
    "versions too new": [frame(18, 99, b"", flexible=True), ALPHABET["versions"], ALPHABET["handshake1"]],
    "versions too new, twice": [
        frame(18, 99, b"", flexible=True), frame(18, 99, b"", flexible=True), ALPHABET["handshake1"], ALPHABET["good"],
    ],
    "versions with bad software": [
        request(ApiVersionsRequest(client_software_name="-", client_software_version="-"), 3), ALPHABET["handshake1"],
    ],
    "versions 0": [request(ApiVersionsRequest(), 0), ALPHABET["handshake1"], ALPHABET["good"]],
    "versions cut short": [frame(18, 3, b"\x10abc", flexible=True)],
    "handshake version 2": [frame(17, 2, b"\x00\x05PLAIN")],
    "handshake version -1": [frame(17, -1, b"\x00\x05PLAIN")],
    "handshake cut short": [frame(17, 1, b"\x00\x09PLAIN")],
    "handshake with more behind it": [frame(17, 1, b"\x00\x05PLAINmore"), ALPHABET["good"]],
    "handshake without mechanism": [frame(17, 1, b"\x00\x00")],
    "handshake in lower case": [_handshake("plain")],
    "handshake for GSSAPI": [_handshake("GSSAPI")],
    "handshake without client id": [frame(17, 1, b"\x00\x05PLAIN", client_id=None), ALPHABET["good"]],
    "authenticate version 0": [ALPHABET["handshake1"], _authenticate(_GOOD, 0), ALPHABET["metadata"]],
    "authenticate version 1": [ALPHABET["handshake1"], _authenticate(_GOOD, 1), ALPHABET["metadata"]],
    "authenticate version 3": [ALPHABET["handshake1"], frame(36, 3, b"\x01\x00", flexible=True)],
    "authenticate cut short": [ALPHABET["handshake1"], frame(36, 1, b"\x00\x00\x00\x40abc")],
    "authenticate with a null token": [ALPHABET["handshake1"], frame(36, 1, b"\xff\xff\xff\xff")],
    "an empty token": [ALPHABET["handshake1"], _authenticate(b"")],
    "an empty raw token": [ALPHABET["handshake0"], sized(b"")],
    "a raw token of one byte": [ALPHABET["handshake0"], sized(b"\0")],
    "an empty user": [ALPHABET["handshake1"], _authenticate(b"\0\0secret")],
    "an empty password": [ALPHABET["handshake1"], _authenticate(b"\0alice\0")],
    "two parts": [ALPHABET["handshake1"], _authenticate(b"alice\0secret")],
    "four parts": [ALPHABET["handshake1"], _authenticate(b"\0alice\0alice-secret\0")],
    "six parts": [ALPHABET["handshake1"], _authenticate(b"\0\0\0\0\0")],
    "an unknown user": [ALPHABET["handshake1"], _authenticate(b"\0nobody\0nothing")],
    "the same authorization id": [ALPHABET["handshake1"], _authenticate(b"alice\0alice\0alice-secret")],
    "another authorization id": [ALPHABET["handshake1"], _authenticate(b"admin\0alice\0alice-secret")],
    "another authorization id, wrong password": [ALPHABET["handshake1"], _authenticate(b"admin\0alice\0wrong")],
    "no UTF-8": [ALPHABET["handshake1"], _authenticate(b"\0\xff\xfe\0\xff")],
    "no SCRAM": [_handshake("SCRAM-SHA-256"), _authenticate(b"nonsense")],
    "SCRAM with a wrong authorization id": [
        _handshake("SCRAM-SHA-256"), _authenticate(b"n,a=admin,n=alice,r=abc"),
    ],
    "SCRAM raw nonsense": [_handshake("SCRAM-SHA-256", 0), sized(b"nonsense")],
    "an unknown API key": [frame(999, 0, b"")],
    "an unknown API key during the exchange": [ALPHABET["handshake1"], frame(999, 0, b"")],
    "a header cut short": [sized(b"\x00\x11\x00")],
    "a header cut short during the exchange": [ALPHABET["handshake1"], sized(b"\x00\x24\x00")],
    "a client id longer than the frame": [sized(b"\x00\x11\x00\x01\x00\x00\x00\x01\x7f\xffab")],
    "an empty frame": [sized(b"")],
    "a negative size": [b"\xff\xff\xff\xff"],
    "a frame that is too large": [_SIZE.pack(20001)],
    "a token that is too large": [ALPHABET["handshake1"], _SIZE.pack(20001)],
    "HTTP": [b"GET / HTTP/1.1\r\n\r\n"],
    "a Kerberos token": [sized(b"\x60\x82\x02\x00" + bytes(60))],
    "a second login": [ALPHABET["handshake1"], ALPHABET["good"], ALPHABET["handshake1"], ALPHABET["good"]],
    "a login in two halves": [ALPHABET["handshake1"][:9], ALPHABET["handshake1"][9:], ALPHABET["good"]],
    "raw login, then requests": [
        ALPHABET["handshake0"], ALPHABET["raw-good"], ALPHABET["versions"], ALPHABET["metadata"], ALPHABET["good"],
    ],
}  # fmt: skip

_LOGIN = [ALPHABET["handshake1"], ALPHABET["good"]]
_RAW_LOGIN = [ALPHABET["handshake0"], ALPHABET["raw-good"]]
_EXPIRED = 1.4
AGAIN: dict[str, list[bytes | float]] = {
    "again": [*_LOGIN, *_LOGIN, ALPHABET["metadata"]],
    "again with version 0": [*_LOGIN, ALPHABET["handshake1"], _authenticate(_GOOD, 0), ALPHABET["metadata"]],
    "again as it was": [*_LOGIN, *_RAW_LOGIN, ALPHABET["metadata"]],
    "again after a raw login": [*_RAW_LOGIN, *_LOGIN, ALPHABET["metadata"]],
    "again as somebody else": [*_LOGIN, ALPHABET["handshake1"], _authenticate(b"\0bob\0bob-secret")],
    "again with a wrong password": [*_LOGIN, ALPHABET["handshake1"], ALPHABET["wrong"]],
    "again with SCRAM": [*_LOGIN, _handshake("SCRAM-SHA-256"), _authenticate(b"n,,n=alice,r=abc")],
    "again with SCRAM, then a request": [*_LOGIN, _handshake("SCRAM-SHA-256"), ALPHABET["metadata"]],
    "again with an unknown mechanism": [*_LOGIN, ALPHABET["unknown-mechanism"]],
    "again with nonsense": [*_LOGIN, ALPHABET["handshake1"], _authenticate(b"nonsense")],
    "again and versions": [*_LOGIN, ALPHABET["handshake1"], ALPHABET["versions"]],
    "again and again at once": [*_LOGIN, *_LOGIN, ALPHABET["handshake1"], ALPHABET["metadata"]],
    "again with a handshake that can't be read": [*_LOGIN, frame(17, 1, b"\x00\x09PLAIN"), ALPHABET["metadata"]],
    "again with a handshake of a later version": [*_LOGIN, frame(17, 2, b"\x00\x05PLAIN"), ALPHABET["metadata"]],
    "again without a handshake": [*_LOGIN, ALPHABET["good"], ALPHABET["metadata"]],
    "a request after the end": [*_LOGIN, _EXPIRED, ALPHABET["metadata"]],
    "versions after the end": [*_LOGIN, _EXPIRED, ALPHABET["versions"]],
    "a token after the end": [*_LOGIN, _EXPIRED, ALPHABET["good"]],
    "again after the end": [*_LOGIN, _EXPIRED, *_LOGIN, ALPHABET["metadata"]],
    "a request after the end of a raw login": [*_RAW_LOGIN, _EXPIRED, ALPHABET["metadata"]],
    "again twice": [*_LOGIN, *_LOGIN, 1.1, *_LOGIN, ALPHABET["metadata"]],
}
"""Exchanges for a node whose session lifetime is in ``AGAIN_SETTINGS``; a number is a pause in seconds."""
AGAIN_SETTINGS = {**SETTINGS, "connections.max.reauth.ms": "1200"}

EXCHANGES: dict[str, list[bytes]] = {
    **{
        " ".join(names): [ALPHABET[name] for name in names]
        for length in (1, 2, 3)
        for names in product(ALPHABET, repeat=length)
    },
    **_ODD,
}


class _Closed(Exception):
    pass


def observe(port: int, steps: Iterable[bytes | float]) -> list[str]:
    """Return what a client sees after each step: an answer, "silence" or "closed" (which ends the exchange)."""
    seen: list[str] = []
    is_raw = False
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.settimeout(_ANSWER_TIMEOUT_S)
        for step in steps:
            if isinstance(step, float):
                time.sleep(step)
                continue
            try:
                connection.sendall(step)
                answer = _read_frame(connection)
            except TimeoutError:
                seen.append("silence")
            except (_Closed, ConnectionError):
                seen.append("closed")
                return seen
            else:
                seen.append(_describe(step, answer, is_raw=is_raw))
                is_raw = step == ALPHABET["handshake0"] and seen[-1].startswith("SaslHandshake 0")
        try:
            connection.settimeout(0.15)
            _read_frame(connection)
        except TimeoutError:
            seen.append("open")
        except (_Closed, ConnectionError):
            seen.append("closed")
    return seen


def _read_frame(connection: socket.socket) -> bytes:
    (size,) = _SIZE.unpack(_read(connection, 4))
    return _read(connection, size)


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            raise _Closed
        data += chunk
    return data


def _describe(step: bytes, answer: bytes, *, is_raw: bool) -> str:
    """Return the answer without values that differ between nodes: the served APIs, topics, nonces."""
    if is_raw:
        return f"raw {answer.hex()}"
    key, version = int.from_bytes(step[4:6], "big"), int.from_bytes(step[6:8], "big")
    if int.from_bytes(answer[:4], "big") != _CORRELATION_ID:
        return f"unexpected {answer.hex()[:40]}"
    if key == ApiKey.SASL_HANDSHAKE:
        handshake = SaslHandshakeResponse.decode(answer, version, 4)
        return f"SaslHandshake {handshake.error_code} {','.join(handshake.mechanisms)}"
    if key == ApiKey.SASL_AUTHENTICATE:
        login = SaslAuthenticateResponse.decode(answer, version, 5 if version >= 2 else 4)
        lifetime = f" for {login.session_lifetime_ms} ms" if login.session_lifetime_ms else ""
        return f"SaslAuthenticate {login.error_code} {login.error_message} {bytes(login.auth_bytes).hex()}{lifetime}"
    if key == ApiKey.API_VERSIONS:
        return f"ApiVersions {int.from_bytes(answer[4:6], 'big')}"
    return f"API {key}"


def observe_all(port: int, exchanges: Mapping[str, Sequence[bytes | float]]) -> dict[str, list[str]]:
    with ThreadPoolExecutor(8) as pool:
        return dict(zip(exchanges, pool.map(lambda steps: observe(port, steps), exchanges.values()), strict=True))


def main(path: str) -> None:
    from tests.peers.secure import running_secure_kafka

    seen: dict[str, list[str]] = {}
    for exchanges, settings in ((EXCHANGES, SETTINGS), (AGAIN, AGAIN_SETTINGS)):
        with (
            tempfile.TemporaryDirectory() as folder,
            running_secure_kafka(
                Path(folder),
                protocols=("PLAINTEXT", "SASL_PLAINTEXT"),
                mechanisms=("PLAIN", "SCRAM-SHA-256"),
                settings=settings,
            ) as node,
        ):
            seen |= observe_all(node.ports["SASL_PLAINTEXT"], exchanges)
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(observed)}" for name, observed in seen.items())
    Path(path).write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1])
