"""Connects this node's controller to the metadata log and to the clock.

Decisions of one turn of the event loop are appended together, so that many callers share a flush.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from barnabas.raft.errors import NotLeaderException
from barnabas.server.process.event_loop_turns import TurnTimes

if TYPE_CHECKING:
    from barnabas.common.clock import Clock
    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.server.quorum.raft_driver import RaftDriver

__all__ = ["ControllerService"]

log = logging.getLogger(__name__)

_IDLE_POLL_S = 0.5
_STANDSTILL_MS = 500
"""A timer that fires later than this was not delayed by work: the process was stopped."""


class ControllerService:
    def __init__(self, *, clock: Clock, turn_times: TurnTimes | None = None) -> None:
        self._clock = clock
        self._turn_times = turn_times or TurnTimes()
        self._driver: RaftDriver | None = None
        self._controller: QuorumController | None = None
        self._is_scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._due_ms = 0
        self._is_closed = False

    def connect(self, driver: RaftDriver, controller: QuorumController) -> None:
        """Connect the driver and the controller, which was created with ``wake`` as its ``on_appends``."""
        self._driver = driver
        self._controller = controller
        self._schedule_tick()

    def wake(self) -> None:
        """Schedule an append: the controller has records."""
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._append)

    def close(self) -> None:
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _append(self) -> None:
        self._is_scheduled = False
        driver, controller = self._driver, self._controller
        if driver is None or controller is None or not controller.is_active:
            return
        for append in controller.take_appends():
            try:
                with self._turn_times.of("append"):
                    pending = driver.append(append.records, is_atomic=append.is_atomic, values=append.values)
            except NotLeaderException as error:
                log.warning("this node no longer leads the metadata quorum: %s", error)
                controller.deactivate()
                return
            controller.handle_appended([append], pending.base_offset)
        self._schedule_tick()

    def _schedule_tick(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._is_closed or self._controller is None:
            return
        due, now_ms = self._controller.next_tick_ms(), self._clock.monotonic_ms()
        self._due_ms = now_ms + int(_IDLE_POLL_S * 1000) if due is None else max(due, now_ms)
        self._timer = asyncio.get_running_loop().call_later((self._due_ms - now_ms) / 1000, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self._controller is not None:
            now_ms = self._clock.monotonic_ms()
            if now_ms - self._due_ms >= _STANDSTILL_MS:
                self._controller.stood_still(now_ms - self._due_ms, now_ms)
            with self._turn_times.of("tick"):
                self._controller.tick(now_ms)
        self._schedule_tick()
