"""Sends the writes of one share-partition to the persister, in order and one at a time.

Writes that have to wait are sent together. Batches of one request do not overlap, because a coordinator may sort them.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left
from typing import TYPE_CHECKING

from barnabas.common.errors import ApiException, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from barnabas.coordinator.share.persister import StateBatch, StateOutcome
    from barnabas.coordinator.share_partition.state_write import StateWrite

__all__ = ["StateWriter", "persister_error"]

log = logging.getLogger(__name__)

_COORDINATOR_ERRORS = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)
_FENCED = frozenset({ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH})
_PASSED_ON = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})


def persister_error(code: int, message: str | None) -> ApiException:
    """Return the error for the member. Another leader, or a deleted group, must not look like a failed write."""
    try:
        error = ErrorCode(code)
    except ValueError:
        error = ErrorCode.UNKNOWN_SERVER_ERROR
    if error in _COORDINATOR_ERRORS:
        return ApiException(ErrorCode.COORDINATOR_NOT_AVAILABLE, message)
    if error in _FENCED:
        return ApiException(ErrorCode.NOT_LEADER_OR_FOLLOWER, message)
    if error in _PASSED_ON:
        return ApiException(error, message)
    return ApiException(ErrorCode.UNKNOWN_SERVER_ERROR, message)


class StateWriter:
    """``send`` returns the persister's (error code, message); ``on_answer`` ends the transitions of a write with it."""

    def __init__(
        self,
        send: Callable[[Sequence[StateBatch]], Awaitable[StateOutcome]],
        on_answer: Callable[[Sequence[StateWrite], ApiException | None], None],
    ) -> None:
        self._send = send
        self._on_answer = on_answer
        self._queue: list[tuple[StateWrite, asyncio.Future[ApiException | None]]] = []
        self._task: asyncio.Task[None] | None = None

    def write(self, write: StateWrite) -> asyncio.Future[ApiException | None]:
        """Return a future of the error, None if the write was stored. The transitions have ended before."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[ApiException | None] = loop.create_future()
        self._queue.append((write, done))
        if self._task is None:
            self._task = loop.create_task(self._run())
        return done

    @property
    def task(self) -> asyncio.Task[None] | None:
        """The task that ends when all writes are answered; None if none is under way."""
        return self._task

    async def _run(self) -> None:
        while self._queue:
            taken = self._take()
            error = await self._stored([batch for write, _ in taken for batch in write.batches])
            self._on_answer([write for write, _ in taken], error)
            for _, done in taken:
                if not done.done():
                    done.set_result(error)
        self._task = None

    async def _stored(self, batches: Sequence[StateBatch]) -> ApiException | None:
        try:
            code, message = await self._send(batches)
        except Exception:
            log.exception("the persister failed unexpectedly")
            code, message = ErrorCode.UNKNOWN_SERVER_ERROR, None
        return persister_error(code, message) if code else None

    def _take(self) -> list[tuple[StateWrite, asyncio.Future[ApiException | None]]]:
        """Remove the first writes of the queue, up to one that overlaps another."""
        offsets = _Offsets()
        count = 0
        for write, _ in self._queue:
            if count and any(offsets.overlap(batch) for batch in write.batches):
                break
            for batch in write.batches:
                offsets.add(batch)
            count += 1
        taken = self._queue[:count]
        del self._queue[:count]
        return taken


class _Offsets:
    """Ranges of offsets that do not overlap, by their first offset."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    def overlap(self, batch: StateBatch) -> bool:
        index = bisect_left(self._lasts, batch.first_offset)
        return index < len(self._firsts) and self._firsts[index] <= batch.last_offset

    def add(self, batch: StateBatch) -> None:
        index = bisect_left(self._firsts, batch.first_offset)
        self._firsts.insert(index, batch.first_offset)
        self._lasts.insert(index, batch.last_offset)
