"""Figures by interval of time, the latest of them in memory of a fixed size.

Intervals are numbered from 1970, so those of all workers begin at the same moments. A column exists once it has a
value: most connectors have no errors, and so no columns for them.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

__all__ = ["Figure", "FigureRing", "Resolution"]

_NOTHING = -1


class Figure(Enum):
    RECORDS = "records"
    LAG = "lag"
    FAILURES = "failures"
    SKIPPED_RECORDS = "skipped_records"
    DEAD_LETTERS = "dead_letters"

    def combined(self, values: Sequence[int]) -> int:
        """Return the figure of several intervals: the highest lag, the sum of everything else."""
        return max(values) if self is Figure.LAG else sum(values)


@dataclass(frozen=True, slots=True)
class Resolution:
    interval_ms: int
    intervals_max: int

    @property
    def span_ms(self) -> int:
        return self.interval_ms * self.intervals_max


class FigureRing:
    def __init__(self, resolution: Resolution) -> None:
        self._resolution = resolution
        self._columns: dict[Figure, array[int]] = {}
        self._newest = -1
        """The number of the latest interval with a value."""

    def note(self, figure: Figure, value: int, at_ms: int) -> None:
        """Add a value that is not negative to the interval of this time, in milliseconds since 1970."""
        number = at_ms // self._resolution.interval_ms
        self._advance(number)
        column = self._columns.get(figure)
        if column is None:
            column = self._columns[figure] = array("q", [_NOTHING]) * self._resolution.intervals_max
        slot = number % self._resolution.intervals_max
        column[slot] = value if column[slot] == _NOTHING else figure.combined((column[slot], value))

    def values(self, figure: Figure, begin_ms: int, count: int) -> list[int | None]:
        """Return the values of ``count`` intervals from this time on; None where nothing is known."""
        first, column = begin_ms // self._resolution.interval_ms, self._columns.get(figure)
        if column is None:
            return [None] * count
        oldest = self._newest - self._resolution.intervals_max + 1
        return [
            _known(column[number % len(column)]) if oldest <= number <= self._newest else None
            for number in range(first, first + count)
        ]

    def _advance(self, number: int) -> None:
        """Forget what is too old, or everything if the clock was set back by more than the ring covers."""
        passed = number - self._newest
        if passed <= -self._resolution.intervals_max or passed >= self._resolution.intervals_max:
            self._columns.clear()
            self._newest = number
        while self._newest < number:
            self._newest += 1
            for column in self._columns.values():
                column[self._newest % len(column)] = _NOTHING


def _known(value: int) -> int | None:
    return None if value == _NOTHING else value
