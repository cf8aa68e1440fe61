"""The raft node's view of its log: positions and epochs, never the bytes.

Its owner fills it at the start from disk. After that it follows every append, truncation and snapshot that the node
itself decides, so that both agree without reading the disk.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from barnabas.common.errors import invariant
from barnabas.raft.leader_epochs import LeaderEpochs
from barnabas.raft.ready import AppendedBatch
from barnabas.raft.replica_key import OffsetAndEpoch

__all__ = ["BOOTSTRAP_SNAPSHOT_ID", "LogState", "OffsetCheck", "OffsetVerdict"]

BOOTSTRAP_SNAPSHOT_ID = OffsetAndEpoch(0, 0)
"""The checkpoint written by formatting: it holds voters only and is never sent to another replica."""


class OffsetVerdict(Enum):
    VALID = "valid"
    DIVERGING = "diverging"
    SNAPSHOT = "snapshot"


class OffsetCheck(NamedTuple):
    verdict: OffsetVerdict
    where: OffsetAndEpoch


class LogState:
    def __init__(
        self,
        *,
        start_offset: int = 0,
        end_offset: int = 0,
        epochs: LeaderEpochs | None = None,
        snapshots: dict[OffsetAndEpoch, int] | None = None,
    ) -> None:
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.durable_end_offset = end_offset
        """Everything below is durable."""
        self.epochs = epochs or LeaderEpochs()
        self.snapshots: dict[OffsetAndEpoch, int] = dict(sorted((snapshots or {}).items()))
        """Size in bytes of each complete snapshot."""
        self.high_watermark: int | None = None
        self.told_high_watermark: int | None = None
        """The high watermark as leaders reported it, this replica among them; it may be beyond the end of this log.

        None until a leader has reported one: the end of a snapshot is committed, and the log of the quorum continues.
        """

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, or of the snapshot that the log starts after; 0 without either."""
        latest = self.epochs.latest
        if latest is not None:
            return latest
        snapshot = self.latest_snapshot_id
        return snapshot.epoch if snapshot is not None and snapshot.offset == self.start_offset else 0

    @property
    def end_offset_and_epoch(self) -> OffsetAndEpoch:
        return OffsetAndEpoch(self.end_offset, self.last_epoch)

    @property
    def latest_snapshot_id(self) -> OffsetAndEpoch | None:
        return next(reversed(self.snapshots), None)

    @property
    def earliest_snapshot_id(self) -> OffsetAndEpoch | None:
        return next(iter(self.snapshots), None)

    def leader_reports(self, high_watermark: int) -> None:
        if self.told_high_watermark is None or high_watermark > self.told_high_watermark:
            self.told_high_watermark = high_watermark

    def add_snapshot(self, snapshot_id: OffsetAndEpoch, size: int) -> None:
        self.snapshots[snapshot_id] = size
        self.snapshots = dict(sorted(self.snapshots.items()))

    def append(self, batch: AppendedBatch) -> None:
        invariant(batch.base_offset == self.end_offset, f"{batch!r} does not follow the log end {self.end_offset}")
        self.epochs.assign(batch.epoch, batch.base_offset)
        self.end_offset = batch.last_offset + 1

    def flushed(self, end_offset: int) -> None:
        self.durable_end_offset = max(self.durable_end_offset, min(end_offset, self.end_offset))

    def truncate_to(self, end_offset: int) -> None:
        invariant(
            end_offset >= (self.high_watermark or 0),
            f"truncation to {end_offset} would lose committed records, the high watermark is {self.high_watermark}",
        )
        self.epochs.truncate_from_end(end_offset)
        self.end_offset = end_offset
        self.durable_end_offset = min(self.durable_end_offset, end_offset)

    def restart_at(self, snapshot_id: OffsetAndEpoch) -> None:
        """Forget the whole log and older snapshots: the log continues after this one."""
        self.epochs.clear()
        self.start_offset = self.end_offset = self.durable_end_offset = snapshot_id.offset
        self.snapshots = {id_: size for id_, size in self.snapshots.items() if id_ >= snapshot_id}

    def truncate_start(self, start_offset: int, snapshot_id: OffsetAndEpoch) -> None:
        """The log now starts where ``snapshot_id`` ends; older snapshots were deleted."""
        self.start_offset = start_offset
        self.epochs.truncate_from_start(start_offset)
        self.snapshots = {id_: size for id_, size in self.snapshots.items() if id_ >= snapshot_id}

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """Return where records of this epoch, or else of the largest smaller one, end in this log."""
        found = self.epochs.end_offset_for_epoch(epoch, self.end_offset)
        if found is None:
            return self.end_offset_and_epoch
        earliest = self.earliest_snapshot_id
        if earliest is not None and found == (earliest.offset, epoch):
            return earliest
        return found

    def check(self, offset: int, epoch: int) -> OffsetCheck:
        """Check whether a log that ends at (offset, epoch) is a prefix of this one; if not, return how it can catch up.

        An empty log is sent to the newest snapshot even when ours still starts at 0: that is faster than replaying.
        """
        latest, earliest = self.latest_snapshot_id, self.earliest_snapshot_id
        if offset == 0 and latest is not None and latest != BOOTSTRAP_SNAPSHOT_ID:
            return OffsetCheck(OffsetVerdict.SNAPSHOT, latest)
        if offset == 0 and self.start_offset == 0:
            return OffsetCheck(OffsetVerdict.VALID, OffsetAndEpoch(0, 0))
        if (
            latest is not None
            and earliest is not None
            and (
                offset < self.start_offset
                or (offset == self.start_offset and epoch != earliest.epoch)
                or epoch < earliest.epoch
            )
        ):
            return OffsetCheck(OffsetVerdict.SNAPSHOT, latest)
        ends = self.end_offset_for_epoch(epoch)
        if ends.epoch != epoch or ends.offset < offset:
            return OffsetCheck(OffsetVerdict.DIVERGING, ends)
        return OffsetCheck(OffsetVerdict.VALID, OffsetAndEpoch(offset, epoch))
