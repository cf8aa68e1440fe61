"""Hostile inputs to the REST API of a Connect worker: large, deep, slow and odd bodies, and odd heads. The worker's
listener is plain and without authentication, as by default. Only requests between workers are signed.
"""

from __future__ import annotations

import base64
import json
from random import Random

from tests.siege.before_login import always
from tests.siege.entry import Entry, Way
from tests.siege.frames import MIB
from tests.siege.stage import REST, Scene

__all__ = ["REST_ENTRIES"]

_JSON = "Content-Type: application/json"
_TASKS = "/connectors/mallory/tasks"
_VALIDATE = "/connector-plugins/Mallory/config/validate"
_SIGNED = (
    f"X-Connect-Authorization: {base64.b64encode(bytes(32)).decode()}",
    "X-Connect-Request-Signature-Algorithm: HmacSHA256",
)


def _head(method: str, path: str, *fields: str) -> bytes:
    return "\r\n".join((f"{method} {path} HTTP/1.1", "Host: localhost", *fields, "", "")).encode()


def _closing(method: str, path: str, body: bytes = b"", *fields: str) -> bytes:
    """A request whose connection ends with the answer."""
    length = (f"Content-Length: {len(body)}",) if body else ()
    return _head(method, path, _JSON, "Connection: close", *length, *fields) + body


def _settings(count: int, size: int = 1) -> bytes:
    return json.dumps({f"setting.{number}": "x" * size for number in range(count)}).encode()


def _create(config: bytes) -> bytes:
    return b'{"name": "mallory", "config": ' + config + b"}"


def _deep(size: int) -> bytes:
    return b'{"config": {"a": ' + b"[" * size


def _tasks(size: int) -> bytes:
    return b"[" + b'{"a": "b"},' * (size // 11) + b"{}]"


def _chunked(chunks: int) -> bytes:
    head = _head("POST", "/connectors", _JSON, "Connection: close", "Transfer-Encoding: chunked")
    return head + b"1\r\nx\r\n" * chunks + b"0\r\n\r\n"


def _garbage(scene: Scene, rng: Random) -> list[bytes]:
    return [rng.randbytes(rng.randrange(1, 2000)) for _ in range(100)]


def _loggers(scene: Scene, rng: Random) -> list[bytes]:
    level = b'{"level": "NOT A LEVEL"}'
    return [_closing("PUT", f"/admin/loggers/a{rng.randrange(10**9)}.b", level) for _ in range(500)]


def _unfinished(scene: Scene, rng: Random) -> list[bytes]:
    """Return half of the announced body."""
    return [_head("POST", "/connectors", _JSON, f"Content-Length: {MIB}") + b" " * (MIB // 2)]


def _many_fields(count: int) -> bytes:
    return _head("GET", "/", "Connection: close", *(f"X-{number}: y" for number in range(count)))


REST_ENTRIES = (
    Entry("tasks of 16 MB without a signature", REST, always(lambda: _closing("POST", _TASKS, _tasks(16 * MIB - 64)))),
    Entry("tasks of 16 MB with a wrong signature", REST,
          always(lambda: _closing("POST", _TASKS, _tasks(16 * MIB - 64), *_SIGNED))),
    Entry("tasks of 16 MB with a wrong signature on 20 connections", REST,
          always(lambda: _closing("POST", _TASKS, _tasks(16 * MIB - 64), *_SIGNED)), connections=20),
    Entry("tasks of 60 KB with a wrong signature", REST,
          always(lambda: _closing("POST", _TASKS, _tasks(60_000), *_SIGNED)), connections=16),
    Entry("signature of an algorithm that does not exist", REST,
          always(lambda: _closing("POST", _TASKS, b"[]", _SIGNED[0],
                                  "X-Connect-Request-Signature-Algorithm: HmacOfMine"))),
    Entry("signature of 30 KB", REST,
          always(lambda: _closing("POST", _TASKS, b"[]", f"X-Connect-Authorization: {'A' * 30_000}", _SIGNED[1]))),
    Entry("body of 100 MB", REST, always(lambda: _closing("POST", "/connectors", b" " * (100 * MIB))), connections=2),
    Entry("connector with 40,000 settings", REST,
          always(lambda: _closing("POST", "/connectors", _create(_settings(40_000))))),
    Entry("connector with 9,000 settings of an unknown class", REST,
          always(lambda: _closing("POST", "/connectors", _create(_settings(9_000, 50))))),
    Entry("connector with a setting of 900 KB", REST,
          always(lambda: _closing("POST", "/connectors", _create(_settings(1, 900_000))))),
    Entry("validation of 9,000 settings", REST, always(lambda: _closing("PUT", _VALIDATE, _settings(9_000, 50)))),
    Entry("JSON of 900 KB that is nested", REST, always(lambda: _closing("POST", "/connectors", _deep(900_000)))),
    Entry("JSON of 60 KB that is nested", REST, always(lambda: _closing("POST", "/connectors", _deep(60_000))),
          connections=16),
    Entry("JSON of 900 KB of numbers", REST,
          always(lambda: _closing("POST", "/connectors", _create(b'{"a": [' + b"1," * 450_000 + b"1]}")))),
    Entry("JSON of 900 KB of escapes", REST,
          always(lambda: _closing("POST", "/connectors", _create(b'{"a": "' + b"\\u0061" * 150_000 + b'"}')))),
    Entry("offsets of 900 KB", REST,
          always(lambda: _closing("PATCH", "/connectors/mallory/offsets", b'{"offsets": ['
                                  + b'{"partition": {}, "offset": {}},' * 28_000 + b"{}]}"))),
    Entry("body in chunks of one byte", REST, always(lambda: _chunked(100_000))),
    Entry("bodies one byte at a time on 50 connections", REST,
          always(lambda: _closing("POST", "/connectors", _settings(10_000))), way=Way.DRIP, connections=50),
    Entry("heads one byte at a time on 50 connections", REST, always(lambda: _many_fields(500)), way=Way.DRIP,
          connections=50),
    Entry("100 bodies of 1 MB of which only half is sent", REST, _unfinished, way=Way.HOLD, connections=100),
    Entry("100 connections without a request, REST", REST, always(lambda: b"G"), way=Way.HOLD, connections=100),
    Entry("head of 60 KB", REST, always(lambda: _head("GET", "/", "Connection: close", f"X: {'y' * 60_000}"))),
    Entry("head of 10 MB", REST, always(lambda: _head("GET", "/", f"X: {'y' * 10 * MIB}"))),
    Entry("4,000 fields in a head", REST, always(lambda: _many_fields(4_000))),
    Entry("path of 60 KB", REST, always(lambda: _closing("GET", "/connectors/" + "a%2F" * 15_000))),
    Entry("query of 15,000 fields", REST, always(lambda: _closing("GET", "/connectors?" + "a=b&" * 15_000))),
    Entry("random bytes in place of HTTP", REST, _garbage),
    Entry("GET without end, pipelined", REST, always(lambda: _head("GET", "/") * 500), way=Way.PIPELINE),
    Entry("GET without end whose answers are never read", REST, always(lambda: _head("GET", "/openapi.json") * 500),
          way=Way.NEVER_READ, connections=8),
    Entry("levels of loggers that do not exist", REST, _loggers, connections=8),
)  # fmt: skip
