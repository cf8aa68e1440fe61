"""Virtual time, randomness, and who can reach whom."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextvars import Context

from tests.simulation.cluster.virtual_loop import Owner, VirtualLoop

__all__ = ["World"]

WALL_MS = 1_800_000_000_000
"""The wall clock at the beginning."""


class World:
    """Everything happens on one virtual loop; of the same time, in the order of its scheduling."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.loop = VirtualLoop()
        self.loop.now_s = 1.0
        self.cut: set[frozenset[str]] = set()
        """Pairs of names that can't reach each other; "brokers" is one of them."""
        self.failures: list[BaseException] = []
        """Errors of background tasks, which no caller receives."""

    @property
    def now_ms(self) -> float:
        return self.loop.now_s * 1000

    def after(self, delay_ms: float, what: Callable[[], object]) -> None:
        """It happens even if the worker that asks for it dies before."""
        self.loop.call_later(max(0.0, delay_ms) / 1000, what, context=Context())

    async def pause(self, delay_ms: float) -> None:
        await asyncio.sleep(max(0.0, delay_ms) / 1000)

    def run(self, duration_ms: float, at_rest: Callable[[], None]) -> None:
        """``at_rest`` is called whenever nothing more happens before time goes on."""

        def look(_: Owner | None) -> None:
            if self.failures:
                raise self.failures[0]
            if self.loop.is_at_rest:
                at_rest()

        self.loop.run_until(self.loop.now_s + duration_ms / 1000, look)

    def reaches(self, one: str, other: str) -> bool:
        return frozenset((one, other)) not in self.cut

    def delay_ms(self) -> float:
        """Of a message: mostly short, sometimes long."""
        return self.random.uniform(0.2, 5) if self.random.random() < 0.95 else self.random.uniform(5, 400)
