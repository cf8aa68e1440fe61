"""Work on a group that is too long for one turn of the event loop: it runs in steps, between requests.

A step is the action of a timer that is due immediately. So the work needs neither a task nor a thread, it ends with the
shard, and it runs in virtual time too.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Hashable
from typing import TypeAlias, TypeVar

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.coordinator.coordinator_result import CoordinatorResult, TimerAction
from barnabas.coordinator.timer_queue import Timer, TimerQueue

__all__ = ["SteppedWork", "Work", "in_work"]

log = logging.getLogger(__name__)

T = TypeVar("T")

Work: TypeAlias = Generator[CoordinatorResult[None] | None, int, None]
"""It yields what to append, or None; what was appended ahead is replayed before its next step. It receives the time."""

_PAUSE_MS = 1
_DONE = object()


class SteppedWork:
    def __init__(self, timers: TimerQueue[TimerAction]) -> None:
        self._timers = timers
        self._running: dict[Hashable, Work] = {}

    def is_running(self, key: Hashable) -> bool:
        return key in self._running

    def start(self, key: Hashable, work: Work, now_ms: int) -> None:
        """Run work, in place of earlier one under this key; its first step follows the present decision.

        It ends early if one of its steps raises, or what it yields cannot be appended.
        """
        self._running[key] = work
        timer: Timer[TimerAction] = Timer(lambda now_ms: self._step(key, work, timer, None, now_ms))
        self._timers.schedule(timer, now_ms)

    def run(self, key: Hashable, steps: Generator[None, None, None], now_ms: int) -> None:
        """Take the first of some steps that write nothing now, and the others as work."""
        if next(steps, _DONE) is not _DONE:
            self.start(key, in_work(steps), now_ms)

    def clear(self) -> None:
        """End all work before its next step."""
        self._running.clear()

    def _step(
        self, key: Hashable, work: Work, timer: Timer[TimerAction], sent_ms: int | None, now_ms: int
    ) -> CoordinatorResult[None]:
        if self._running.get(key) is not work:
            return CoordinatorResult()
        del self._running[key]  # An error ends the work.
        try:
            result = next(work) if sent_ms is None else work.send(sent_ms)
        except StopIteration:
            return CoordinatorResult()
        except ApiException as error:
            log.warning("The work on %s has failed: %s", key, error)
            return CoordinatorResult()
        self._running[key] = work
        timer.action = lambda now_ms: self._step(key, work, timer, now_ms, now_ms)
        self._timers.schedule(timer, now_ms + _PAUSE_MS)
        if result is None:
            return CoordinatorResult()
        undo = result.on_error

        def failed(code: ErrorCode, now_ms: int) -> CoordinatorResult[None] | None:
            if self._running.get(key) is work:
                del self._running[key]
            return None if undo is None else undo(code, now_ms)

        result.on_error = failed
        return result


def in_work(steps: Generator[None, None, T]) -> Generator[CoordinatorResult[None] | None, int, T]:
    """Run steps that write nothing as a part of work; return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        yield None
