"""What a check finds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Broken", "Violation"]


class Broken(StrEnum):
    """The promise that was broken."""

    LOST = "acknowledged or seen, and not there in the end"
    CHANGED = "one offset, two records"
    MOVED = "acknowledged at an offset where it is not"
    DOUBLED = "one record of an idempotent producer, two offsets"
    REPEATED = "a batch that a partition took again or too early, within one epoch of its producer"
    REORDERED = "a producer's records in another order than it sent them"
    NEVER_SENT = "a record that nobody sent"
    SPOILT = "a value that is not as it was sent"
    GAP = "offsets that nobody fills"
    SEEN_TWICE = "a reader went back without being told to"
    NO_SUCH_OFFSET = "a reader was told that its place is not there"
    WENT_BACK = "a committed offset that is older than an acknowledged one"
    UNKNOWN_VALUE = "a value that nobody wrote"
    SKIPPED = "committed by a group, and never given to one of its members"
    STALE = "the state in the end is not what was acknowledged last"
    UNEQUAL = "two replicas differ below the high watermark"
    FENCED = "a broker was fenced that nothing was done to"
    STALLED = "a partition took no record for longer than a session, while one node at most was disturbed"
    ENDLESS = "a partition took no record for minutes"
    STUCK = "not healthy again in time after the last fault"
    BLIND = "the harness itself stood still, so that the run proves little"


@dataclass(frozen=True, slots=True)
class Violation:
    broken: Broken
    what: str
    places: tuple[tuple[int, int], ...] = ()
    """Partitions of the topic and offsets, where a look at the batches may tell more."""
    producer: str = ""
    """Whose record it is, where that says something."""

    def __str__(self) -> str:
        return f"{self.broken.name} ({self.broken.value}): {self.what}"
