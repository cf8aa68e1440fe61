"""Send requests with several concurrent clients, each with its own connections and one request at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar, overload

from barnabas.cli.bench.measurements import latency_document, rate
from barnabas.cli.bench.options import until_stopped
from barnabas.cli.bench.progress import Progress, live
from barnabas.clients.latency_histogram import LatencyHistogram
from barnabas.clients.network_client import NetworkClient

if TYPE_CHECKING:
    from barnabas.clients.client_config import Address
    from barnabas.clients.leader_tracker import ThrottleStatistics
    from barnabas.clients.node_connection import NodeConnection, ResponseReader, SupportedVersions
    from barnabas.protocol.schema import Message, Request

__all__ = ["RequestLatencies", "WatchedNetwork", "measure_requests"]

R = TypeVar("R", bound="Message")
T = TypeVar("T")
_GRACE_S = 10.0


@dataclass(slots=True)
class RequestLatencies:
    """Results of one kind of request. ``failure`` is the error that ended the run."""

    what: str
    requests: int = 0
    items: int = 0
    elapsed_s: float = 0.0
    latencies: LatencyHistogram = field(default_factory=LatencyHistogram)
    failure: Exception | None = None

    def document(self) -> dict[str, object]:
        return {
            "operation": self.what,
            "requests": self.requests,
            "items": self.items,
            "elapsed_s": round(self.elapsed_s, 3),
            "requests_per_s": round(rate(self.requests, self.elapsed_s), 1),
            "items_per_s": round(rate(self.items, self.elapsed_s), 1),
            "latency_ms": latency_document(self.latencies),
        }


async def measure_requests(
    what: str, count: int, clients: Sequence[T], send: Callable[[T, int], Awaitable[int]], stop: asyncio.Event
) -> RequestLatencies:
    """Measure requests. ``send`` sends the request with a number (from 0) and returns its number of items.

    The first error ends the run. After a stop, each client still waits for its response, because a request in flight
    could take effect later than all other requests.
    """
    loop = asyncio.get_running_loop()
    figures = RequestLatencies(what)
    numbers = iter(range(count))

    async def work(client: T) -> None:
        for number in numbers:
            if figures.failure is not None or stop.is_set():
                return
            began_at = loop.time()
            try:
                items = await send(client, number)
            except Exception as error:
                figures.failure = figures.failure or error
                return
            figures.latencies.record(loop.time() - began_at)
            figures.requests += 1
            figures.items += items

    began_at = loop.time()
    async with live(what, count, lambda: Progress(figures.requests), "requests"):
        await until_stopped(asyncio.gather(*map(work, clients[:count])), stop, grace_s=_GRACE_S)
    figures.elapsed_s = loop.time() - began_at
    return figures


class WatchedConnection:
    """A connection that obeys and reports the throttle times of a node (KIP-219)."""

    def __init__(self, connection: NodeConnection, throttle: ThrottleStatistics) -> None:
        self.connection = connection
        self.address: Address = connection.address
        self.versions: Mapping[int, SupportedVersions] = connection.versions
        self._throttle = throttle
        self._rests_until = 0.0

    @property
    def is_open(self) -> bool:
        return self.connection.is_open

    @property
    def in_flight(self) -> int:
        return self.connection.in_flight

    def version_of(self, api_key: int) -> int:
        return self.connection.version_of(api_key)

    @overload
    async def request(
        self, message: Request[R], *, version: int | None = None, timeout_s: float | None = None, read: None = None
    ) -> R: ...

    @overload
    async def request(
        self,
        message: Request[Message],
        *,
        version: int | None = None,
        timeout_s: float | None = None,
        read: ResponseReader[T],
    ) -> T: ...

    async def request(
        self,
        message: Request[Message],
        *,
        version: int | None = None,
        timeout_s: float | None = None,
        read: ResponseReader[object] | None = None,
    ) -> object:
        loop = asyncio.get_running_loop()
        if (rest := self._rests_until - loop.time()) > 0:
            await asyncio.sleep(rest)
        read = read or message.response_type().decode
        response = await self.connection.request(message, version=version, timeout_s=timeout_s, read=read)
        for_s = getattr(response, "throttle_time_ms", 0) / 1000
        if for_s:
            self._throttle.throttled(for_s)
            self._rests_until = loop.time() + for_s
        return response


class WatchedNetwork:
    """A ``NetworkClient`` that records the throttle times of its connections."""

    def __init__(self, network: NetworkClient, throttle: ThrottleStatistics) -> None:
        self._network = network
        self._throttle = throttle
        self._watched: dict[Address, WatchedConnection] = {}

    async def connect(self) -> WatchedConnection:
        return self._watch(await self._network.connect())

    async def connection_to(self, address: Address) -> WatchedConnection:
        return self._watch(await self._network.connection_to(address))

    async def close(self) -> None:
        await self._network.close()

    def _watch(self, connection: NodeConnection) -> WatchedConnection:
        known = self._watched.get(connection.address)
        if known is None or known.connection is not connection:
            known = self._watched[connection.address] = WatchedConnection(connection, self._throttle)
        return known
