"""The growth of counters between samples. A counter begins at 0, and begins again when its task starts again."""

from __future__ import annotations

from collections.abc import Collection, Hashable

__all__ = ["CounterGrowth"]


class CounterGrowth:
    def __init__(self) -> None:
        self._totals: dict[Hashable, int] = {}

    def since_last(self, counter: Hashable, total: int) -> int:
        """Return the growth since the last sample; the total if the counter is new or went back."""
        before = self._totals.get(counter, 0)
        self._totals[counter] = total
        return total - before if total >= before else total

    def keep_only(self, counters: Collection[Hashable]) -> None:
        for counter in self._totals.keys() - set(counters):
            del self._totals[counter]
