"""Read from all workers of the group at once: histories and loads, which each worker knows only of its own work.

Only the leader knows the workers, so another worker forwards the request to it. The leader asks each of the others
with ``scope=worker`` for a few seconds. A worker that does not answer in time, or that has no such path because it is
one of Kafka's, is named in the answer with the reason: the other parts are returned nevertheless.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeVar
from urllib.parse import urlsplit

import msgspec

from barnabas.connect.decide.herder.herder import Herder
from barnabas.connect.decide.history.merged_history import merged_history
from barnabas.connect.entities import History, MissingWorker, WorkerLoad, WorkerLoads
from barnabas.connect.errors import ConnectError, NotFound, RequestFailed
from barnabas.connect.rest.forwarding import Forwardable, Forwarder
from barnabas.connect.rest.internal_client import Answer, encoded_segment

__all__ = ["GroupReads", "OwnFigures", "Sender"]

T = TypeVar("T")

_NO_HISTORY = "This worker keeps no history: barnabas.connect.history.enable is false."
_UNKNOWN_PATH = "HTTP 404"
_TOO_OLD = "It has no such path: it is a worker of Kafka's, or of an earlier version."
_LEADER_TOO_OLD = (
    "The leader of the group is a worker of Kafka's, or of an earlier version, and can't answer for the whole group; "
    "with scope=worker each worker answers for itself."
)


class Sender(Protocol):
    """The user of a request, for requests to other workers in this user's name."""

    def forwardable(
        self, method: str, path: str, body: bytes | None = None, query: Mapping[str, str] | None = None
    ) -> Forwardable: ...


class OwnFigures(Protocol):
    """The figures of this worker."""

    def history(self, connector: str, hours: int) -> History | None:
        """None if this worker keeps no history."""

    def load(self) -> WorkerLoad: ...


class GroupReads:
    def __init__(self, herder: Herder, forwarder: Forwarder, own: OwnFigures) -> None:
        self._herder = herder
        self._forwarder = forwarder
        self._own = own

    def own_history(self, connector: str, hours: int) -> History:
        """Return the part of this worker. Raise NotFound."""
        found = self._own.history(connector, hours)
        if found is None:
            raise NotFound(_NO_HISTORY)
        return found

    def own_load(self) -> WorkerLoad:
        return self._own.load()

    async def history(self, sender: Sender, connector: str, hours: int) -> History:
        """Return the history of all workers. Raise ConnectError."""
        path = f"/connectors/{encoded_segment(connector)}/history"
        request = sender.forwardable("GET", path, query={"hours": str(hours)})

        async def merged() -> History:
            urls = await self._herder.other_workers()
            if connector not in self._herder.connectors.names():
                raise NotFound(f"Connector {connector} not found")
            own = self.own_history(connector, hours)
            parts, missing = await self._parts(request, urls, History)
            return merged_history(own, parts, missing)

        return await self._answered(request, merged, History)

    async def loads(self, sender: Sender) -> WorkerLoads:
        """Return the loads of all workers, the leader first. Raise ConnectError."""
        request = sender.forwardable("GET", "/workers")

        async def gathered() -> WorkerLoads:
            urls = await self._herder.other_workers()
            parts, missing = await self._parts(request, urls, WorkerLoads)
            return WorkerLoads([self._own.load(), *(load for part in parts for load in part.workers)], missing)

        return await self._answered(request, gathered, WorkerLoads)

    async def _answered(self, request: Forwardable, operation: Callable[[], Awaitable[T]], kind: type[T]) -> T:
        """Return the result of the leader: this worker, or another."""
        try:
            return _decoded(await self._forwarder.complete(request, operation), kind)
        except RequestFailed as error:
            if _is_unknown_path(error):
                raise NotFound(_LEADER_TOO_OLD) from error
            raise

    async def _parts(
        self, request: Forwardable, urls: Sequence[str], kind: type[T]
    ) -> tuple[list[T], list[MissingWorker]]:
        answers = await asyncio.gather(*(self._part(request, url, kind) for url in urls))
        missing = [answer for answer in answers if isinstance(answer, MissingWorker)]
        return [answer for answer in answers if not isinstance(answer, MissingWorker)], missing

    async def _part(self, request: Forwardable, url: str, kind: type[T]) -> T | MissingWorker:
        worker_id = urlsplit(url).netloc
        try:
            return _decoded(await self._forwarder.ask_worker(request, url), kind)
        except RequestFailed as error:
            return MissingWorker(worker_id, _TOO_OLD if _is_unknown_path(error) else str(error))
        except ConnectError as error:
            return MissingWorker(worker_id, str(error))


def _is_unknown_path(error: RequestFailed) -> bool:
    return error.http_status == 404 and str(error).startswith(_UNKNOWN_PATH)


def _decoded(outcome: T | Answer, kind: type[T]) -> T:
    """Return the local result, or the decoded answer of another worker. Raise ConnectError."""
    if not isinstance(outcome, Answer):
        return outcome
    try:
        return msgspec.json.decode(outcome.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConnectError(f"The answer of another worker can't be read: {error}") from error
