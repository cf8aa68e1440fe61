"""Virtual time, randomness, and who can reach whom."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from itertools import count

__all__ = ["World"]

WALL_MS = 1_800_000_000_000
"""The wall clock at the beginning."""


class World:
    """Everything that happens is an entry in one queue; of the same time, in the order of their making."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.now_ms = 1_000.0
        self._order = count()
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self.cut: set[frozenset[str]] = set()
        """Pairs of names that can't reach each other; "brokers" is one of them."""

    def after(self, delay_ms: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (self.now_ms + max(0.0, delay_ms), next(self._order), what))

    def run(self, duration_ms: float) -> None:
        end_ms = self.now_ms + duration_ms
        while self._queue and self._queue[0][0] <= end_ms:
            self.now_ms, _, what = heapq.heappop(self._queue)
            what()
        self.now_ms = end_ms

    def reaches(self, one: str, other: str) -> bool:
        return frozenset((one, other)) not in self.cut

    def delay_ms(self) -> float:
        """Of a message: mostly short, sometimes long."""
        return self.random.uniform(0.2, 5) if self.random.random() < 0.95 else self.random.uniform(5, 400)
