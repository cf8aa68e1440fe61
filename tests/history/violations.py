"""The violations that the checks find."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Broken", "Violation"]


class Broken(StrEnum):
    """The guarantee that was violated."""

    LOST = "acknowledged or seen, and missing in the end"
    CHANGED = "one offset, two records"
    MOVED = "acknowledged at an offset that does not hold it"
    DOUBLED = "one record of an idempotent producer, two offsets"
    REPEATED = "a batch that a partition accepted again or too early, within one epoch of its producer"
    REORDERED = "a producer's records in another order than it sent them"
    NEVER_SENT = "a record that no producer sent"
    SPOILT = "a value that differs from what was sent"
    GAP = "offsets without a record"
    SEEN_TWICE = "a reader went back without a new start"
    NO_SUCH_OFFSET = "a reader's existing offset was reported as out of range"
    WENT_BACK = "a committed offset that is older than an acknowledged one"
    UNKNOWN_VALUE = "a value that no client wrote"
    SKIPPED = "committed by a group, and never delivered to any of its members"
    STALE = "the final state is not the last acknowledged one"
    UNEQUAL = "two replicas differ below the high watermark"
    FENCED = "a broker was fenced that no fault affected"
    STALLED = "a partition accepted no record for longer than a session, while at most one node was disturbed"
    ENDLESS = "a partition accepted no record for minutes"
    ABORTED_READ = "a reader of committed records received a record of an aborted or open transaction"
    SKIPPED_READ = "a reader of committed records passed a committed record without receiving it"
    PARTIAL = "a transaction that is committed in part"
    COMMITTED_ANYWAY = "a transaction that is committed although it was aborted, or its commit never requested"
    ZOMBIE = "an older producer of a transactional id wrote or committed after a newer one had begun"
    MERGED = "records of several transactions under one marker"
    HANGING = "a transaction that is still open after the end"
    SUM = "transfers that do not add up to zero in a prefix of what a reader received"
    CYCLE = "transactions that depend on each other in a circle"
    WITHOUT_RECORDS = "offsets and the records of the same transaction that were not committed together"
    HELD_BY_TWO = "a record that two members of a share group held at once"
    SETTLED_TWICE = "a record that a share group accepted or rejected twice"
    SETTLED_AND_DELIVERED = "a record that a share group delivered after it was accepted or rejected"
    DELIVERY_COUNT = "a delivery count beyond the limit, or not greater than one that was released"
    NOT_DELIVERED = "a record that a share group finished without a delivery"
    NOT_SETTLED = "a record that a share group finished although it was neither accepted nor rejected, below the limit"
    TWO_OWNERS = "a partition or a task that two members of a group owned at once"
    EPOCH_WENT_BACK = "an epoch of a group or a member that is older than one that was seen"
    MISCOUNTED = "a state of a streams application that does not match the records before it"
    STUCK = "not healthy again in time after the last fault"
    BLIND = "the harness itself stood still, so that the run proves little"


@dataclass(frozen=True, slots=True)
class Violation:
    broken: Broken
    what: str
    places: tuple[tuple[int, int], ...] = ()
    """Partitions of the topic and offsets whose batches may show more."""
    producer: str = ""
    """The producer of the record, where that is relevant."""

    def __str__(self) -> str:
        return f"{self.broken.name} ({self.broken.value}): {self.what}"
