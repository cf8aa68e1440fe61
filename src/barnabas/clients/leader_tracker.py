"""The common part of producer and fetcher: they follow the leaders of a topic's partitions, and obey throttling."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from barnabas.clients.admin.errors import AdminError
from barnabas.clients.errors import ClientError
from barnabas.common.errors import Transient

if TYPE_CHECKING:
    from barnabas.common.error_code import ErrorCode

__all__ = ["UNKNOWN_TOPIC_FOR_S", "ThrottleStatistics", "TopicFollower", "start_guarded"]

M = TypeVar("M")

UNKNOWN_TOPIC_FOR_S = 10.0


@dataclass(slots=True)
class ThrottleStatistics:
    throttled_responses: int = 0
    throttle_s: float = 0.0
    throttle_max_s: float = 0.0

    def throttled(self, for_s: float) -> None:
        self.throttled_responses += 1
        self.throttle_s += for_s
        self.throttle_max_s = max(self.throttle_max_s, for_s)


def start_guarded(work: Coroutine[object, object, None], fail: Callable[[Exception], None]) -> asyncio.Task[None]:
    """Start a task whose unexpected failure is reported."""

    def ended(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            fail(error if isinstance(error, Exception) else RuntimeError(str(error)))

    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(ended)
    return task


class TopicFollower(Generic[M]):
    """Requests the leaders when ``is_stale`` is set, and again with growing pauses until they are known.

    ``load`` requests them, ``take`` receives them. ``retriable`` are the errors to retry, for ``unknown_for_s``; any
    other is passed to ``fail`` and ends the requests.
    """

    def __init__(
        self,
        load: Callable[[], Awaitable[M]],
        *,
        take: Callable[[M], None],
        fail: Callable[[Exception], None],
        retriable: AbstractSet[ErrorCode],
        backoff_s: float,
        backoff_max_s: float,
        unknown_for_s: float = UNKNOWN_TOPIC_FOR_S,
    ) -> None:
        self.is_stale = asyncio.Event()
        self._load = load
        self._take = take
        self._fail = fail
        self._retriable = retriable
        self._backoff_s = backoff_s
        self._backoff_max_s = backoff_max_s
        self._unknown_for_s = unknown_for_s

    async def follow(self) -> None:
        now_s = asyncio.get_running_loop().time
        unknown_since: float | None = None
        pause = self._backoff_s
        while True:
            await self.is_stale.wait()
            self.is_stale.clear()
            try:
                self._take(await self._load())
                unknown_since = None
            except AdminError as error:
                unknown_since = now_s() if unknown_since is None else unknown_since
                if error.code not in self._retriable or now_s() - unknown_since > self._unknown_for_s:
                    self._fail(error)
                    return
                self.is_stale.set()
            except ClientError as error:
                if not isinstance(error, Transient):
                    self._fail(error)
                    return
                self.is_stale.set()
            await asyncio.sleep(pause)
            pause = min(pause * 2, self._backoff_max_s) if self.is_stale.is_set() else self._backoff_s
