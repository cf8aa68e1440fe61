"""A partition belongs to one member of a group at a time.

A member may have lost a partition without knowing it, or may learn late that it has it. A confirmed commit proves more:
the coordinator knew the member in its epoch (or generation) when the commit was requested, and the member had not
given the partition up since it was assigned. So it owned the partition from its assignment until that moment. Two such
spans of different members never overlap. No epoch has to be known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter

from tests.history.violations import Broken, Violation

__all__ = ["OwnersCheck", "Ownership"]


@dataclass(slots=True)
class Ownership:
    """``proven_s``: until when the member provably owned the partition."""

    member: str
    from_s: float
    proven_s: float

    @property
    def is_proven(self) -> bool:
        return self.proven_s > self.from_s

    def commits(self, asked_s: float) -> None:
        """Record that a commit was confirmed that was requested at this time, before the member gave the partition
        up."""
        self.proven_s = max(self.proven_s, asked_s)

    def __str__(self) -> str:
        return f"{self.member} from {self.from_s:.3f} to {self.proven_s:.3f} s"


class OwnersCheck:
    def __init__(self) -> None:
        self._owned: dict[tuple[str, int], list[Ownership]] = defaultdict(list)

    def assigned(self, group: str, partition: int, member: str, at_s: float) -> Ownership:
        ownership = Ownership(member, at_s, at_s)
        self._owned[group, partition].append(ownership)
        return ownership

    @property
    def count_proven(self) -> int:
        return sum(ownership.is_proven for owned in self._owned.values() for ownership in owned)

    def violations(self) -> list[Violation]:
        return [
            Violation(Broken.TWO_OWNERS, f"partition {partition} of {group}: {first}, and {second}")
            for (group, partition), owned in sorted(self._owned.items())
            for first, second in _overlapping(owned)
        ]


def _overlapping(owned: list[Ownership]) -> Iterator[tuple[Ownership, Ownership]]:
    """Yield each span that begins before the furthest earlier one has ended, with that one."""
    furthest: Ownership | None = None
    for ownership in sorted(filter(attrgetter("is_proven"), owned), key=attrgetter("from_s")):
        if furthest is not None and ownership.from_s < furthest.proven_s and ownership.member != furthest.member:
            yield furthest, ownership
        if furthest is None or ownership.proven_s > furthest.proven_s:
            furthest = ownership
