"""Work on a group that is too long for one turn of the event loop: it runs in steps, between requests.

A step is the action of a timer that is due immediately, so it needs neither a task nor a thread, ends with the shard, and
runs in virtual time too.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from typing import TypeAlias, TypeVar

from barnabas.common.errors import ApiException
from barnabas.coordinator.coordinator_result import CoordinatorResult, TimerAction
from barnabas.coordinator.timer_queue import Timer, TimerQueue

__all__ = ["SteppedWork", "Work", "in_work"]

log = logging.getLogger(__name__)

T = TypeVar("T")

Work: TypeAlias = Generator[CoordinatorResult[None] | None, int, None]
"""It yields what to append, or None; what was appended ahead is replayed before its next step. It receives the time."""

_PAUSE_MS = 1


class SteppedWork:
    def __init__(self, timers: TimerQueue[TimerAction]) -> None:
        self._timers = timers
        self._running: dict[str, Work] = {}

    def is_running(self, group_id: str) -> bool:
        return group_id in self._running

    def start(self, group_id: str, work: Work, now_ms: int) -> None:
        """Run the work of a group, which has no other; its first step follows the present decision."""
        self._running[group_id] = work
        timer: Timer[TimerAction] = Timer(lambda now_ms: self._step(group_id, work, timer, None, now_ms))
        self._timers.schedule(timer, now_ms)

    def clear(self) -> None:
        """End all work before its next step."""
        self._running.clear()

    def _step(
        self, group_id: str, work: Work, timer: Timer[TimerAction], sent_ms: int | None, now_ms: int
    ) -> CoordinatorResult[None]:
        if self._running.get(group_id) is not work:
            return CoordinatorResult()
        del self._running[group_id]  # An error ends the work.
        try:
            result = next(work) if sent_ms is None else work.send(sent_ms)
        except StopIteration:
            return CoordinatorResult()
        except ApiException as error:
            log.warning("The work on group %s has failed: %s", group_id, error)
            return CoordinatorResult()
        self._running[group_id] = work
        timer.action = lambda now_ms: self._step(group_id, work, timer, now_ms, now_ms)
        self._timers.schedule(timer, now_ms + _PAUSE_MS)
        return result or CoordinatorResult()


def in_work(steps: Generator[None, None, T]) -> Generator[CoordinatorResult[None] | None, int, T]:
    """Run steps that write nothing as a part of work; return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        yield None
