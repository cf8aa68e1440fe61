"""A hostile HTTP request as a few numbers, and the processor time of a Connect worker for it."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from barnabas.connect.rest.application import ListenerKind
from barnabas.connect.rest.http_connection import HttpConnection
from barnabas.connect.rest.loop_sharing import LoopSharing
from tests.peers.rest_workers import RestWorkers

__all__ = ["ROUTES", "RestGenome", "cost_s", "random_rest_genome"]

ROUTES = (
    "GET /connectors",
    "POST /connectors",
    "PUT /connectors/mallory/config",
    "PATCH /connectors/mallory/config",
    "PATCH /connectors/mallory/offsets",
    "PUT /connector-plugins/Mallory/config/validate",
    "POST /connectors/mallory/tasks",
    "PUT /connectors/mallory/fence",
    "PUT /admin/loggers/root",
    "POST /connectors/mallory/offsets/preview",
)
_INTERNAL = (ROUTES.index("POST /connectors/mallory/tasks"), ROUTES.index("PUT /connectors/mallory/fence"))
_SIGNATURE = (
    f"X-Connect-Authorization: {base64.b64encode(bytes(32)).decode()}",
    "X-Connect-Request-Signature-Algorithm: HmacSHA256",
)
_SHAPES: tuple[Callable[[int, str], str], ...] = (
    lambda count, text: "",
    lambda count, text: json.dumps({f"k{number}": text for number in range(count)}),
    lambda count, text: json.dumps({"name": text, "config": {f"k{number}": text for number in range(count)}}),
    lambda count, text: '{"config": ' + "[" * count,
    lambda count, text: '{"a": ' + '{"a": ' * count + "1" + "}" * (count + 1),
    lambda count, text: "[" + "1e5," * count + "1]",
    lambda count, text: '{"name": "' + "\\u0061" * count + '"}',
    lambda count, text: '{"offsets": [' + f'{{"partition": {{"{text}": 1}}, "offset": {{}}}},' * count + "{}]}",
    lambda count, text: "[" + f'{{"a": "{text}"}},' * count + "{}]",
    lambda count, text: '{"level": "' + text * count + '"}',
)
"""The bodies, by the number of elements and the text size in each."""
_DONE_WITHIN_S = 20.0


@dataclass(frozen=True)
class RestGenome:
    route: int
    shape: int = 0
    count: int = 1
    text: int = 1
    fields: int = 0
    field_size: int = 1
    segments: int = 0
    query: int = 0
    chunk: int = 0
    """Bytes in each chunk of the body; 0: the head contains the length."""

    def request(self) -> bytes:
        """The whole request. Its connection ends with the answer."""
        method, path = ROUTES[self.route].split()
        path += "/a%2F" * self.segments + ("?" + "a=b&" * self.query if self.query else "")
        body = _SHAPES[self.shape](self.count, "x" * self.text).encode()
        head = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close", "Content-Type: application/json"]
        head += [f"X-{number}: {'y' * self.field_size}" for number in range(self.fields)]
        if self.route in _INTERNAL:
            head += _SIGNATURE
        if self.chunk:
            pieces = (body[start : start + self.chunk] for start in range(0, len(body), self.chunk))
            body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
            head.append("Transfer-Encoding: chunked")
        else:
            head.append(f"Content-Length: {len(body)}")
        return "\r\n".join((*head, "", "")).encode() + body

    def size(self) -> int:
        """The approximate size in bytes."""
        overhead = 1 if not self.chunk else 1 + 6 // self.chunk
        head = self.fields * (8 + self.field_size) + 5 * self.segments + 4 * self.query
        return head + self.count * (self.text + 8) * overhead

    def mutated(self, rng: Random) -> RestGenome:
        name = rng.choice(("shape", "count", "text", "fields", "field_size", "segments", "query", "chunk"))
        if name == "shape":
            return replace(self, shape=rng.randrange(len(_SHAPES)))
        most = {"count": 200_000, "text": 100_000}.get(name, 20_000)
        value: int = getattr(self, name)
        changed = rng.choice((value * 4, value * 2, value + 1, value - 1, value // 2, rng.randint(0, most)))
        return replace(self, **{name: min(max(changed, 0), most)})


def random_rest_genome(rng: Random, route: int) -> RestGenome:
    return RestGenome(route, rng.randrange(len(_SHAPES)), count=rng.choice((1, 10, 1000)), chunk=rng.choice((0, 0, 1)))


def cost_s(data: bytes) -> float:
    """Return the processor time of all threads from the first byte to the end of the answer."""
    began = time.process_time()
    asyncio.run(_answered(data))
    return time.process_time() - began


@cache
def _config() -> uvicorn.Config:
    application = RestWorkers().applications["A"].on_listener(ListenerKind())
    config = uvicorn.Config(
        application, interface="asgi3", http=HttpConnection, ws="none", lifespan="off", log_config=None,
        access_log=False,
    )  # fmt: skip
    config.load()
    return config


async def _answered(data: bytes) -> None:
    now_s = 1000.0

    def wait(seconds: float, then: Callable[[], None]) -> None:
        nonlocal now_s
        now_s += max(seconds, 0.0)
        asyncio.get_running_loop().call_soon(then)

    transport = _Transport()
    loop_sharing = LoopSharing(lambda: now_s, lambda: 0.0, wait)
    connection = HttpConnection(_config(), ServerState(), {}, loop_sharing=loop_sharing)
    connection.connection_made(transport)
    for start in range(0, len(data), 65536):
        await transport.may_be_read.wait()
        if transport.is_closing():
            break
        connection.data_received(data[start : start + 65536])
        await asyncio.sleep(0)
    async with asyncio.timeout(_DONE_WITHIN_S):
        await transport.closed.wait()
    connection.connection_lost(None)


class _Transport(asyncio.Transport):
    """Receives the answer, and sends nothing while the worker does not read."""

    def __init__(self) -> None:
        super().__init__()
        self.closed, self.may_be_read = asyncio.Event(), asyncio.Event()
        self.may_be_read.set()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("10.0.0.1", 5), "sockname": ("127.0.0.1", 8083)}.get(name, default)

    def write(self, data: Any) -> None:
        pass

    def pause_reading(self) -> None:
        self.may_be_read.clear()

    def resume_reading(self) -> None:
        self.may_be_read.set()

    def is_closing(self) -> bool:
        return self.closed.is_set()

    def close(self) -> None:
        self.closed.set()
        self.may_be_read.set()

    abort = close
