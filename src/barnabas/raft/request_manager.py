"""One request in flight to each replica, a pause after each failure, and a turn for each bootstrap server."""

from __future__ import annotations

from enum import Enum

from barnabas.raft.ports import RandomBelow
from barnabas.raft.states.epoch_state import FOREVER_MS
from barnabas.raft.voter_set import Endpoint

__all__ = ["BOOTSTRAP_ID_FIRST", "Destination", "RequestManager"]

BOOTSTRAP_ID_FIRST = -2
"""Bootstrap servers have no node id yet; they count down from here."""


class _Connection(Enum):
    READY = "ready"
    AWAITING_RESPONSE = "awaiting response"
    BACKING_OFF = "backing off"


class Destination:
    """What is known of the way to one replica."""

    __slots__ = ("correlation_id", "state", "until_ms")

    def __init__(self) -> None:
        self.state = _Connection.READY
        self.correlation_id: int | None = None
        self.until_ms = FOREVER_MS

    def refresh(self, now_ms: int) -> None:
        if self.state is not _Connection.READY and now_ms >= self.until_ms:
            self.state = _Connection.READY
            self.correlation_id = None
            self.until_ms = FOREVER_MS


class RequestManager:
    def __init__(
        self,
        *,
        bootstrap_servers: tuple[Endpoint, ...],
        request_timeout_ms: int,
        retry_backoff_ms: int,
        random_below: RandomBelow,
    ) -> None:
        self._bootstrap = {BOOTSTRAP_ID_FIRST - index: server for index, server in enumerate(bootstrap_servers)}
        self._request_timeout_ms = request_timeout_ms
        self._retry_backoff_ms = retry_backoff_ms
        self._random_below = random_below
        self._destinations: dict[int, Destination] = {}
        self._next_correlation_id = 1

    @property
    def deadline_ms(self) -> int:
        """When the next destination becomes usable again."""
        return min((d.until_ms for d in self._destinations.values()), default=FOREVER_MS)

    def reset(self) -> None:
        """A new state starts with a clean slate: answers to what was sent before are no longer waited for."""
        self._destinations.clear()

    def new_correlation_id(self) -> int:
        correlation_id = self._next_correlation_id
        self._next_correlation_id += 1
        return correlation_id

    def _destination(self, id_: int, now_ms: int) -> Destination | None:
        destination = self._destinations.get(id_)
        if destination is not None:
            destination.refresh(now_ms)
        return destination

    def is_ready(self, id_: int, now_ms: int) -> bool:
        destination = self._destination(id_, now_ms)
        return destination is None or destination.state is _Connection.READY

    def is_backing_off(self, id_: int, now_ms: int) -> bool:
        destination = self._destination(id_, now_ms)
        return destination is not None and destination.state is _Connection.BACKING_OFF

    def has_any_in_flight(self, now_ms: int) -> bool:
        for destination in self._destinations.values():
            destination.refresh(now_ms)
        return any(d.state is _Connection.AWAITING_RESPONSE for d in self._destinations.values())

    def ready_bootstrap_server(self, now_ms: int) -> tuple[int, Endpoint] | None:
        """One of the servers that can be asked now, by chance; None while any request is in flight."""
        if self.has_any_in_flight(now_ms):
            return None
        ready = [id_ for id_ in self._bootstrap if self.is_ready(id_, now_ms)]
        if not ready:
            return None
        chosen = ready[self._random_below(len(ready))]
        return chosen, self._bootstrap[chosen]

    def sent(self, id_: int, correlation_id: int, now_ms: int) -> None:
        destination = self._destinations.setdefault(id_, Destination())
        destination.state = _Connection.AWAITING_RESPONSE
        destination.correlation_id = correlation_id
        destination.until_ms = now_ms + self._request_timeout_ms

    def is_expected(self, id_: int, correlation_id: int) -> bool:
        destination = self._destinations.get(id_)
        return destination is not None and destination.correlation_id == correlation_id

    def succeeded(self, id_: int, correlation_id: int) -> None:
        if self.is_expected(id_, correlation_id):
            del self._destinations[id_]

    def failed(self, id_: int, correlation_id: int, now_ms: int) -> None:
        if self.is_expected(id_, correlation_id):
            destination = self._destinations[id_]
            destination.state = _Connection.BACKING_OFF
            destination.correlation_id = None
            destination.until_ms = now_ms + self._retry_backoff_ms
