"""A value that is written and read by many while calls get lost: committed offsets, a topic's config, its existence.

A write that was answered took effect between its begin and its end. One that was not answered, or with an error, may
have taken effect at any time after its begin, or never; for instance when its request was held up on the way. A read
must give what the newest write left, or what a write left that overlapped it. So value v is legal for a read if some
write of v began before the read ended, and no answered write lies wholly between that write's end and the read's begin.
Reads in turn must not go from a write to one that had ended before it began.
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
    """Infinite: nobody knows whether or when it takes effect."""


@dataclass(frozen=True, slots=True)
class Read:
    value: int
    began: float
    ended: float
    who: str = "a read"


class RegisterCheck:
    """One register. ``initial`` is what it held before the first write."""

    def __init__(self, name: str, *, initial: int) -> None:
        self._name = name
        self._writes = [Write(initial, -inf, -inf)]
        self._reads: list[Read] = []

    def wrote(self, write: Write) -> int:
        """Its number, for ``answered``."""
        self._writes.append(write)
        return len(self._writes) - 1

    def answered(self, number: int, ended: float) -> None:
        """A write that had not ended has, without an error."""
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
        """In the order of the reads' begins; the reads that can't be explained."""
        found: list[Violation] = []
        by_value: dict[int, list[Write]] = {}
        for write in self._writes:
            by_value.setdefault(write.value, []).append(write)
        newest = _Newest([write for write in self._writes if write.ended < inf])
        seen = _Newest([])
        for read in sorted(self._reads, key=lambda each: each.began):
            candidates = [write for write in by_value.get(read.value, []) if write.began <= read.ended]
            if not candidates:
                found.append(Violation(Broken.UNKNOWN_VALUE, f"{self._name}: {read.who} gave {read.value}"))
                continue
            bound = max(newest.began_before(read.began), seen.began_before(read.began))
            explained = [write for write in candidates if write.ended >= bound]
            if not explained:
                what = (
                    f"{self._name}: {read.who} gave {read.value}, although a newer one was written before it was asked,"
                    f" at {read.began:.1f} s of the clock"
                )
                found.append(Violation(Broken.WENT_BACK, what))
                continue
            # The reading proves that one of these took effect; only the oldest begin of them is certain.
            seen.add(Write(read.value, min(write.began for write in explained), read.ended))
        return found


class _Newest:
    """Of the writes that ended before a moment: the latest begin."""

    def __init__(self, writes: list[Write]) -> None:
        self._ends: list[float] = []
        self._begins: list[float] = []
        for write in sorted(writes, key=lambda each: each.ended):
            self.add(write)

    def add(self, write: Write) -> None:
        """One that ended before the newest end counts from that end on."""
        end = max(write.ended, self._ends[-1]) if self._ends else write.ended
        begin = max(write.began, self._begins[-1]) if self._begins else write.began
        self._ends.append(end)
        self._begins.append(begin)

    def began_before(self, moment: float) -> float:
        place = bisect_right(self._ends, moment)
        # What ended at this very moment overlaps it.
        while place and self._ends[place - 1] == moment:
            place -= 1
        return self._begins[place - 1] if place else -inf
