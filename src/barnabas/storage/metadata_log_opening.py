"""Opens the files of a metadata log: chooses the newest valid snapshot, checks the segments, truncates a torn tail.

Damage that the newest valid snapshot covers, or a damaged snapshot that an older one and the log cover, is reported in
the log of the node and moved aside (``damaged_files``). Any other damage raises ``DamagedLogError``, and no byte of the
log is removed.
"""

from __future__ import annotations

import logging
import os
from dataclasses import replace

from barnabas.raft.replica_key import OffsetAndEpoch
from barnabas.storage import producer_snapshot
from barnabas.storage.checkpoint_file import sync_directory
from barnabas.storage.damaged_files import DamagedLogError, LogDamage, copy_aside, copy_rest, move_aside
from barnabas.storage.errors import CorruptFileError, StorageError
from barnabas.storage.file_pool import FilePool
from barnabas.storage.leader_epoch_checkpoint import LEADER_EPOCH_CHECKPOINT, LeaderEpochCheckpoint
from barnabas.storage.metadata_log_check import BadPlace, LogCheck, batches_behind, judge
from barnabas.storage.recovery_point import RecoveryPoint
from barnabas.storage.segment import CLEANED_SUFFIX, Segment, segment_path
from barnabas.storage.snapshot_file import (
    BOOTSTRAP_SNAPSHOT_ID,
    CHECKPOINT_SUFFIX,
    SnapshotReader,
    drop_snapshots_before,
    list_snapshots,
    snapshot_path,
)

__all__ = ["LogOpening", "segment_sizes"]

log = logging.getLogger(__name__)

_LOG_SUFFIX = ".log"


class LogOpening:
    """``run`` fills these fields."""

    def __init__(
        self, directory: str, pool: FilePool, point: RecoveryPoint, *, now_ms: int, index_interval_bytes: int
    ) -> None:
        self.directory = directory
        self._pool = pool
        self._point = point
        self._now_ms = now_ms
        self._index_interval_bytes = index_interval_bytes
        self.snapshots: dict[OffsetAndEpoch, int] = list_snapshots(directory)
        self._damaged_snapshots: dict[OffsetAndEpoch, str] = {}
        self.epochs = self._open_epochs()
        self.segments: list[Segment] = []
        self.end_offset = 0
        self.control_batch_offsets: list[int] = []
        self.recovered_from: int | None = None
        """The offset at which a torn tail was truncated."""

    @property
    def latest_snapshot_id(self) -> OffsetAndEpoch | None:
        return next(reversed(self.snapshots), None)

    def run(self) -> None:
        self._require_files()
        self._find_damaged_snapshots()
        bases = segment_sizes(self.directory)
        for base_offset in sorted(bases):
            self.segments.append(Segment(self.directory, base_offset, self._pool, size=bases[base_offset]))
        if not self.segments:
            self.segments.append(self._first_segment())
        latest = self.latest_snapshot_id
        check_from = 0 if latest is None else latest.offset
        knows_epochs = self._prepare_epochs(latest)
        check, bad = self._check(check_from)
        self._give_up_damaged_snapshots(check)
        if bad is not None:
            self._cut_torn_tail(bad)
        self.end_offset = check.end_offset
        self.control_batch_offsets = check.control_batch_offsets
        if latest is not None and check.covered is not None:
            self._give_up_segments_before(latest, check.covered)
        if latest is not None and not knows_epochs:
            drop_snapshots_before(self.directory, self.snapshots, latest.offset)
        self.epochs.flush()

    # --- files

    def _require_files(self) -> None:
        """Refuse a directory with the name of a segment or snapshot: that is not damage of the log."""
        with os.scandir(self.directory) as entries:
            for entry in entries:
                if entry.name.endswith((_LOG_SUFFIX, CHECKPOINT_SUFFIX)) and not entry.is_file():
                    raise StorageError(f"{entry.path}: not a regular file")

    def _open_epochs(self) -> LeaderEpochCheckpoint:
        """Load the readable epochs; the check adds those of the batches."""
        path = f"{self.directory}/{LEADER_EPOCH_CHECKPOINT}"
        try:
            return LeaderEpochCheckpoint(path)
        except CorruptFileError as error:
            log.warning("%s; the epochs are taken from the newest snapshot and the log", error)
            return LeaderEpochCheckpoint(path, is_new=True)

    def _prepare_epochs(self, latest: OffsetAndEpoch | None) -> bool:
        """Keep the epochs before the newest snapshot's end; False if they are unknown.

        Then the log is taken to start there. A replica that does not know the epoch of its last record would report a
        wrong one in elections and fetches, and would be ordered to truncate committed records.
        """
        check_from = 0 if latest is None else latest.offset
        self.epochs.truncate_from_end(max(check_from, self.segments[0].base_offset))
        if latest is None or latest.offset == 0 or self.epochs.latest_epoch == latest.epoch:
            return True
        self._start_epochs_at(latest)
        return False

    def _start_epochs_at(self, snapshot_id: OffsetAndEpoch) -> None:
        self.epochs.clear()
        self.epochs.assign(snapshot_id.epoch, snapshot_id.offset)

    def _first_segment(self) -> Segment:
        """Handle a log without segments: it is new, begins after a snapshot, or its files were lost."""
        latest = self.latest_snapshot_id
        base_offset = 0 if latest is None else latest.offset
        path = segment_path(self.directory, base_offset, _LOG_SUFFIX)
        flushed = self._point.offset
        if flushed is not None and flushed > base_offset:
            evidence = f"according to {self._point.path} the log was flushed up to offset {flushed}"
            raise DamagedLogError(LogDamage(path, 0, base_offset, flushed, "the log does not have a segment", evidence))
        self._require_sound_bootstrap_snapshot()
        return self._new_segment(base_offset)

    def _new_segment(self, base_offset: int) -> Segment:
        segment = Segment(self.directory, base_offset, self._pool, created_ms=self._now_ms)
        segment.replace_files()
        return segment

    # --- snapshots

    def _find_damaged_snapshots(self) -> None:
        """Verify the newest snapshot, and an older one while the newest is damaged. Damaged ones are ignored."""
        for snapshot_id in reversed(list(self.snapshots)):
            try:
                SnapshotReader(self.directory, snapshot_id).verify()
                return
            except CorruptFileError as error:
                self._damaged_snapshots[snapshot_id] = error.reason
                del self.snapshots[snapshot_id]

    def _require_sound_bootstrap_snapshot(self) -> None:
        reason = self._damaged_snapshots.get(BOOTSTRAP_SNAPSHOT_ID)
        if reason is not None:
            path = snapshot_path(self.directory, BOOTSTRAP_SNAPSHOT_ID)
            evidence = "it was the only file with the voters of the quorum"
            raise DamagedLogError(LogDamage(path, 0, 0, 0, reason, evidence))

    def _give_up_damaged_snapshots(self, check: LogCheck) -> None:
        """Move damaged snapshots aside if the log, or an older snapshot and the log, cover them. Else raises
        DamagedLogError."""
        if not check.names_voters and not any(snapshot_id.offset > 0 for snapshot_id in self.snapshots):
            self._require_sound_bootstrap_snapshot()
        for snapshot_id, reason in self._damaged_snapshots.items():
            if snapshot_id.offset > check.end_offset:
                path, evidence = snapshot_path(self.directory, snapshot_id), "the log ends before the snapshot"
                raise DamagedLogError(LogDamage(path, 0, check.end_offset, snapshot_id.offset, reason, evidence))
        for snapshot_id, reason in self._damaged_snapshots.items():
            path = snapshot_path(self.directory, snapshot_id)
            aside = move_aside(path)
            log.error("%s: %s; the log holds its records, the damaged file is kept as %s", path, reason, aside)
        self._damaged_snapshots.clear()

    # --- segments

    def _check(self, check_from: int) -> tuple[LogCheck, BadPlace | None]:
        """Check the log; return the torn tail, if any. Raises DamagedLogError."""
        while True:
            check = LogCheck(
                self.segments, self.epochs, check_from=check_from, index_interval_bytes=self._index_interval_bytes
            )
            bad = check.run()
            if bad is not None and bad.offset < check_from:
                if self._go_on_after_snapshot(bad, check_from):
                    continue
                bad = bad._replace(offset=check_from)
            damage = self._damage(check.end_offset, bad, check_from)
            if damage is not None:
                raise DamagedLogError(damage)
            return check, bad

    def _damage(self, end_offset: int, bad: BadPlace | None, check_from: int) -> LogDamage | None:
        point = self._point
        if bad is None:
            if point.offset is None or point.offset <= max(end_offset, check_from):
                return None
            last = self.segments[-1]
            bad = BadPlace(len(self.segments) - 1, last.path, last.size, end_offset, "the log ends here")
        closed_at = max(producer_snapshot.list_snapshots(self.directory), default=0)
        damage = judge(self.segments, bad, point=point, closed_at=closed_at if point.offset is None else 0)
        if damage is not None and bad.segment_index == bad.position == 0 and self._damaged_snapshots:
            # The log begins after a snapshot that would have held the earlier records.
            newest = max(self._damaged_snapshots)
            path, reason = snapshot_path(self.directory, newest), self._damaged_snapshots[newest]
            return replace(damage, path=path, reason=reason, evidence="the log begins after its records")
        return damage

    def _go_on_after_snapshot(self, bad: BadPlace, check_from: int) -> bool:
        """Let the log begin where the newest snapshot ends, which covers the damage.

        False if records after the snapshot's end are lost, too.
        """
        latest = self.latest_snapshot_id
        behind = [batch for batch in batches_behind(self.segments, bad) if batch.found.base_offset >= check_from]
        is_lost_behind = bool(behind) and (behind[0].is_misplaced or behind[0].found.base_offset > check_from)
        if latest is None or is_lost_behind or (not behind and (self._point.offset or 0) > check_from):
            return False
        if behind:
            index, position = self._place_of(bad, check_from)
            if position:
                following = self._copy_segment(self.segments[index], position, check_from)
                self._move_segments_aside(self.segments[: index + 1], bad, latest)
                self.segments[: index + 1] = [following]
            else:
                self._move_segments_aside(self.segments[:index], bad, latest)
                del self.segments[:index]
        else:
            self._move_segments_aside(self.segments, bad, latest)
            self.segments = [self._new_segment(check_from)]
        self._start_epochs_at(latest)
        return True

    def _place_of(self, bad: BadPlace, offset: int) -> tuple[int, int]:
        """Return segment and position of the valid batch that begins at ``offset``."""
        for index in range(bad.segment_index, len(self.segments)):
            position = bad.position if index == bad.segment_index else 0
            place = bad._replace(segment_index=0, position=position)
            for batch in batches_behind(self.segments[index : index + 1], place):
                if batch.found.base_offset == offset:
                    return index, batch.found.position
        raise ValueError(f"no batch begins at {offset}")

    def _copy_segment(self, segment: Segment, position: int, base_offset: int) -> Segment:
        """Create a segment from the bytes at ``position`` and after. The old one stays unchanged."""
        temporary = segment_path(self.directory, base_offset, _LOG_SUFFIX, CLEANED_SUFFIX)
        copy_rest(segment.path, position, temporary)
        path = segment_path(self.directory, base_offset, _LOG_SUFFIX)
        os.rename(temporary, path)
        sync_directory(self.directory)
        return Segment(self.directory, base_offset, self._pool, size=os.path.getsize(path))

    def _move_segments_aside(self, segments: list[Segment], bad: BadPlace, latest: OffsetAndEpoch) -> None:
        for segment in segments:
            segment.file.close()
            aside = move_aside(segment.path)
            segment.delete()  # Its indexes.
            log.error(
                "%s: at position %d (offset %d): %s; the snapshot %s holds these records, so the log begins after it. "
                "The segment %s is kept as %s",
                bad.path, bad.position, bad.offset, bad.reason, latest, segment.path, aside,
            )  # fmt: skip

    def _give_up_segments_before(self, latest: OffsetAndEpoch, bad: BadPlace) -> None:
        """The segments before the snapshot's end are not contiguous with the ones after it."""
        following = [segment.base_offset for segment in self.segments[1:]]
        count = sum(base_offset <= latest.offset for base_offset in following)
        self._move_segments_aside(self.segments[:count], bad, latest)
        del self.segments[:count]
        self.epochs.truncate_from_start(latest.offset)
        drop_snapshots_before(self.directory, self.snapshots, latest.offset)

    def _cut_torn_tail(self, bad: BadPlace) -> None:
        """Truncate the torn tail, which was never acknowledged. Bytes that look like records are kept anyway."""
        self.recovered_from = bad.offset
        index, position = bad.segment_index, bad.position
        if index and not position and self.segments[index].base_offset != bad.offset:
            # The segment before it has lost its end: the log continues there.
            index -= 1
            position = self.segments[index].size
        segment = self.segments[index]
        removed = sum(later.size for later in self.segments[index:]) - position
        has_batches = any(batches_behind(self.segments, bad))
        kept = [copy_aside(segment.path, position)] if has_batches and position < segment.size else []
        for later in self.segments[index + 1 :]:
            if has_batches and later.size:
                later.file.close()
                kept.append(move_aside(later.path))
            later.delete()
        del self.segments[index + 1 :]
        os.truncate(segment.path, position)
        segment.size = position
        segment.is_flushed = False
        log.warning(
            "%s: truncated at position %d, offset %d: %s. Removed %d bytes that were never flushed%s",
            bad.path, bad.position, bad.offset, bad.reason, removed, f" and kept as {', '.join(kept)}" if kept else "",
        )  # fmt: skip


def segment_sizes(directory: str) -> dict[int, int]:
    """Return the size of each segment by its base offset."""
    sizes: dict[int, int] = {}
    with os.scandir(directory) as entries:
        for entry in entries:
            stem = entry.name.removesuffix(_LOG_SUFFIX)
            if entry.name.endswith(_LOG_SUFFIX) and stem.isdigit():
                sizes[int(stem)] = entry.stat().st_size
    return sizes
