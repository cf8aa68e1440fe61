"""Checks a value that many clients write and read while calls are lost: a committed offset, a topic's config, its
existence.

An acknowledged write took effect between its begin and its end. A write without an answer, or with an error, may have
taken effect at any time after its begin, or never; for instance when its request was delayed on the way. A read must
return the value of the newest write, or of a write that overlapped it. So value v is legal for a read if some write of
v began before the read ended, and no acknowledged write lies completely between that write's end and the read's begin.
Successive reads must not go from a write to one that had ended before it began.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from math import inf

from tests.history.violations import Broken, Violation

__all__ = ["Read", "RegisterCheck", "Write"]


@dataclass(frozen=True, slots=True)
class Write:
    value: int
    began: float
    ended: float = inf
    """Infinite: whether or when the write takes effect is unknown."""


@dataclass(frozen=True, slots=True)
class Read:
    value: int
    began: float
    ended: float
    who: str = "a read"


class RegisterCheck:
    """One register. ``initial`` is its value before the first write."""

    def __init__(self, name: str, *, initial: int) -> None:
        self._name = name
        self._writes = [Write(initial, -inf, -inf)]
        self._reads: list[Read] = []

    def wrote(self, write: Write) -> int:
        """Record a write. Return its number, for ``answered``."""
        self._writes.append(write)
        return len(self._writes) - 1

    def answered(self, number: int, ended: float) -> None:
        """A pending write ended without an error."""
        self._writes[number] = replace(self._writes[number], ended=ended)

    def read(self, read: Read) -> None:
        self._reads.append(read)

    @property
    def count_writes(self) -> int:
        return len(self._writes) - 1

    @property
    def count_reads(self) -> int:
        return len(self._reads)

    def violations(self) -> list[Violation]:
        """Return the reads that no write explains, in the order of their begins."""
        found: list[Violation] = []
        by_value: dict[int, list[Write]] = {}
        for write in self._writes:
            by_value.setdefault(write.value, []).append(write)
        newest = _Newest([write for write in self._writes if write.ended < inf])
        seen = _Newest([])
        for read in sorted(self._reads, key=lambda read: read.began):
            candidates = [write for write in by_value.get(read.value, []) if write.began <= read.ended]
            if not candidates:
                found.append(Violation(Broken.UNKNOWN_VALUE, f"{self._name}: {read.who} returned {read.value}"))
                continue
            bound = max(newest.began_before(read.began), seen.began_before(read.began))
            explained = [write for write in candidates if write.ended >= bound]
            if not explained:
                what = (
                    f"{self._name}: {read.who} returned {read.value}, although a newer one was written before the read,"
                    f" at {read.began:.1f} s of the clock"
                )
                found.append(Violation(Broken.WENT_BACK, what))
                continue
            # The read proves that one of these took effect; only the oldest begin of them is certain.
            seen.add(Write(read.value, min(write.began for write in explained), read.ended))
        return found


class _Newest:
    """Finds the latest begin of the writes that ended before a moment."""

    def __init__(self, writes: list[Write]) -> None:
        self._ends: list[float] = []
        self._begins: list[float] = []
        for write in sorted(writes, key=lambda write: write.ended):
            self.add(write)

    def add(self, write: Write) -> None:
        """A write that ended before the newest end counts from that end on."""
        end = max(write.ended, self._ends[-1]) if self._ends else write.ended
        begin = max(write.began, self._begins[-1]) if self._begins else write.began
        self._ends.append(end)
        self._begins.append(begin)

    def began_before(self, moment: float) -> float:
        place = bisect_right(self._ends, moment)
        # A write that ended exactly at this moment overlaps it.
        while place and self._ends[place - 1] == moment:
            place -= 1
        return self._begins[place - 1] if place else -inf
