"""Virtual time, randomness, and the connections between workers and brokers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextvars import Context

from tests.simulation.cluster.virtual_loop import Owner, VirtualLoop

__all__ = ["World"]

WALL_MS = 1_800_000_000_000
"""The initial time of the wall clock."""


class World:
    """The environment of a run. All events run on one virtual loop; those of the same time in order of scheduling."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.loop = VirtualLoop()
        self.loop.now_s = 1.0
        self.cut: set[frozenset[str]] = set()
        """Pairs of names that cannot reach each other. The name "brokers" stands for all brokers."""
        self.failures: list[BaseException] = []
        """Errors of background tasks, which no caller receives."""

    @property
    def now_ms(self) -> float:
        return self.loop.now_s * 1000

    def after(self, delay_ms: float, what: Callable[[], object]) -> None:
        """Schedule an event, which occurs even if the worker that schedules it dies before."""
        self.loop.call_later(max(0.0, delay_ms) / 1000, what, context=Context())

    async def pause(self, delay_ms: float) -> None:
        await asyncio.sleep(max(0.0, delay_ms) / 1000)

    def run(self, duration_ms: float, at_rest: Callable[[], None]) -> None:
        """Run the loop for this time; call ``at_rest`` whenever all events of the current time have run."""

        def look(_: Owner | None) -> None:
            if self.failures:
                raise self.failures[0]
            if self.loop.is_at_rest:
                at_rest()

        self.loop.run_until(self.loop.now_s + duration_ms / 1000, look)

    def reaches(self, source: str, target: str) -> bool:
        return frozenset((source, target)) not in self.cut

    def delay_ms(self) -> float:
        """Draw the delay of a message: usually short, sometimes long."""
        return self.random.uniform(0.2, 5) if self.random.random() < 0.95 else self.random.uniform(5, 400)
