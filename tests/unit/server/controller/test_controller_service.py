"""The controller's timers, and the report of a timer that is very late."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from barnabas.server.controller.service import ControllerService


class Clock:
    ms = 0

    def now_ms(self) -> int:
        return self.ms

    monotonic_ms = now_ms


class Controller:
    is_active = True

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.events: list[tuple[str, int]] = []

    def next_tick_ms(self) -> int:
        return self.clock.ms + 100

    def stood_still(self, for_ms: int, now_ms: int) -> None:
        self.events.append(("stood still", for_ms))

    def tick(self, now_ms: int) -> None:
        self.events.append(("tick", now_ms))


def ticks(*moments_ms: int) -> list[tuple[str, int]]:
    """Return the calls of the controller when its timer runs at these times."""

    async def run() -> list[tuple[str, int]]:
        clock = Clock()
        controller, service = Controller(clock), ControllerService(clock=clock)
        service.connect(cast("Any", None), cast("Any", controller))
        for clock.ms in moments_ms:
            service._tick()
        service.close()
        return controller.events

    return asyncio.run(run())


def test_a_slightly_late_timer_is_normal() -> None:
    assert ticks(100, 250) == [("tick", 100), ("tick", 250)]


def test_a_paused_process_reports_the_pause_before_sessions_are_checked() -> None:
    assert ticks(100, 20_200) == [("tick", 100), ("stood still", 20_000), ("tick", 20_200)]
