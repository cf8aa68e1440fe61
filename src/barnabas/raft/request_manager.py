"""One request in flight to each replica, a pause after each failure, and a turn for each bootstrap server."""

from __future__ import annotations

from enum import Enum

from barnabas.raft.ports import RandomBelow
from barnabas.raft.states.epoch_state import FOREVER_MS
from barnabas.raft.voter_set import Endpoint

__all__ = ["BOOTSTRAP_ID_FIRST", "Destination", "RequestManager"]

BOOTSTRAP_ID_FIRST = -2
"""Bootstrap servers do not have node ids yet; their ids count down from here."""


class _Connection(Enum):
    READY = "ready"
    AWAITING_RESPONSE = "awaiting response"
    BACKING_OFF = "backing off"


class Destination:
    """The state of the connection to one replica."""

    __slots__ = ("correlation_id", "endpoint", "state", "until_ms")

    def __init__(self) -> None:
        self.state = _Connection.READY
        self.correlation_id: int | None = None
        self.endpoint: Endpoint | None = None
        self.until_ms = FOREVER_MS

    def refresh(self, now_ms: int) -> bool:
        """Whether a request has just run out of time."""
        if self.state is _Connection.READY or now_ms < self.until_ms:
            return False
        is_lost = self.state is _Connection.AWAITING_RESPONSE
        self.state = _Connection.READY
        self.correlation_id = None
        self.until_ms = FOREVER_MS
        return is_lost


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
        self._silent_until_ms: dict[Endpoint, int] = {}
        """Servers that recently lost a request: other bootstrap servers are contacted first."""
        self._next_correlation_id = 1

    @property
    def deadline_ms(self) -> int:
        """When the next destination becomes usable again."""
        return min((d.until_ms for d in self._destinations.values()), default=FOREVER_MS)

    def reset(self) -> None:
        """Reset for a new state: responses to earlier requests are ignored."""
        self._destinations.clear()

    def new_correlation_id(self) -> int:
        correlation_id = self._next_correlation_id
        self._next_correlation_id += 1
        return correlation_id

    def _destination(self, id_: int, now_ms: int) -> Destination | None:
        destination = self._destinations.get(id_)
        if destination is not None:
            self._refresh(destination, now_ms)
        return destination

    def _refresh(self, destination: Destination, now_ms: int) -> None:
        if destination.refresh(now_ms):
            self._note_silence(destination, now_ms)

    def _note_silence(self, destination: Destination, now_ms: int) -> None:
        if destination.endpoint is not None:
            self._silent_until_ms[destination.endpoint] = now_ms + self._request_timeout_ms // 2

    def is_ready(self, id_: int, now_ms: int) -> bool:
        destination = self._destination(id_, now_ms)
        return destination is None or destination.state is _Connection.READY

    def is_backing_off(self, id_: int, now_ms: int) -> bool:
        destination = self._destination(id_, now_ms)
        return destination is not None and destination.state is _Connection.BACKING_OFF

    def has_any_in_flight(self, now_ms: int) -> bool:
        for destination in self._destinations.values():
            self._refresh(destination, now_ms)
        return any(d.state is _Connection.AWAITING_RESPONSE for d in self._destinations.values())

    def ready_bootstrap_server(self, now_ms: int) -> tuple[int, Endpoint] | None:
        """Return a random server of those that can be contacted now; None while any request is in flight.

        A server that recently left a request unanswered is skipped while another responds: a leader that hangs is a
        bootstrap server too, and would delay the discovery of its successor.
        """
        if self.has_any_in_flight(now_ms):
            return None
        self._silent_until_ms = {end: until for end, until in self._silent_until_ms.items() if now_ms < until}
        answering = [id_ for id_, server in self._bootstrap.items() if server not in self._silent_until_ms]
        ready = [id_ for id_ in answering or self._bootstrap if self.is_ready(id_, now_ms)]
        if not ready:
            return None
        chosen = ready[self._random_below(len(ready))]
        return chosen, self._bootstrap[chosen]

    def sent(self, id_: int, correlation_id: int, now_ms: int, endpoint: Endpoint | None = None) -> None:
        destination = self._destinations.setdefault(id_, Destination())
        destination.endpoint = endpoint
        destination.state = _Connection.AWAITING_RESPONSE
        destination.correlation_id = correlation_id
        destination.until_ms = now_ms + self._request_timeout_ms

    def is_expected(self, id_: int, correlation_id: int) -> bool:
        destination = self._destinations.get(id_)
        return destination is not None and destination.correlation_id == correlation_id

    def succeeded(self, id_: int, correlation_id: int) -> None:
        if self.is_expected(id_, correlation_id):
            destination = self._destinations.pop(id_)
            if destination.endpoint is not None:
                self._silent_until_ms.pop(destination.endpoint, None)

    def failed(self, id_: int, correlation_id: int, now_ms: int, *, is_lost: bool = False) -> None:
        """``is_lost``: no response was received."""
        if self.is_expected(id_, correlation_id):
            destination = self._destinations[id_]
            if is_lost:
                self._note_silence(destination, now_ms)
            destination.state = _Connection.BACKING_OFF
            destination.correlation_id = None
            destination.until_ms = now_ms + self._retry_backoff_ms
