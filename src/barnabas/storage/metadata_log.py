"""The log ``__cluster_metadata-0`` on disk: segments, epochs, snapshots, all in Kafka's layout.

What is appended here is not durable until a flush that began later has run; the driver runs flushes on a thread and
lets many appends share one. Whatever stands behind the last flush may be torn after a power loss: ``open`` reads the
log from its newest snapshot's end, checks every batch, and cuts at the first one that is not whole. The high watermark
is not stored anywhere.

Everything but ``PendingFlush.run`` belongs to one thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from barnabas.common.errors import invariant
from barnabas.common.uuid import Uuid
from barnabas.protocol.record_batch import BatchView
from barnabas.raft.ready import AppendedBatch
from barnabas.raft.replica_key import OffsetAndEpoch
from barnabas.storage import producer_snapshot
from barnabas.storage.batch_header import (
    BATCH_OVERHEAD,
    CONTROL_FLAG,
    HEADER,
    HEADER_SIZE,
    crc_matches,
    header_problem,
)
from barnabas.storage.checkpoint_file import sync_directory
from barnabas.storage.errors import CorruptFileError, StorageError
from barnabas.storage.file_pool import FilePool
from barnabas.storage.leader_epoch_checkpoint import LEADER_EPOCH_CHECKPOINT, LeaderEpochCheckpoint
from barnabas.storage.partition_metadata import PARTITION_METADATA, write_partition_metadata
from barnabas.storage.segment import Segment
from barnabas.storage.snapshot_file import delete_snapshot, list_snapshots, remove_leftovers
from barnabas.storage.time_index import NO_TIMESTAMP

__all__ = ["METADATA_LOG_DIRECTORY", "MetadataLog", "PendingFlush"]

METADATA_LOG_DIRECTORY = "__cluster_metadata-0"
INDEX_INTERVAL_BYTES = 4096
SEGMENT_BYTES = 1024 * 1024 * 1024
SEGMENT_MS = 7 * 24 * 60 * 60 * 1000

_LOG_SUFFIX = ".log"


class PendingFlush:
    """What must be synced so that the log is durable up to ``end_offset``; ``run`` may be called on any thread."""

    __slots__ = ("_directory", "_paths", "end_offset")

    def __init__(self, end_offset: int, paths: list[str], directory: str | None) -> None:
        self.end_offset = end_offset
        self._paths = paths
        self._directory = directory

    def run(self) -> None:
        for path in self._paths:
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                continue  # Removed meanwhile, because a snapshot holds what was in it, or never needed.
            try:
                os.fdatasync(fd)
            finally:
                os.close(fd)
        if self._directory is not None:
            sync_directory(self._directory)


class MetadataLog:
    def __init__(
        self, log_dir: str, *, segment_bytes: int = SEGMENT_BYTES, segment_ms: int = SEGMENT_MS, now_ms: int = 0
    ) -> None:
        """Open or create the log below ``log_dir`` and recover it."""
        self.directory = f"{log_dir}/{METADATA_LOG_DIRECTORY}"
        self._segment_bytes = segment_bytes
        self._segment_ms = segment_ms
        self._pool = FilePool(16)
        is_new = not os.path.isdir(self.directory)
        os.makedirs(self.directory, exist_ok=True)
        if not os.path.exists(f"{self.directory}/{PARTITION_METADATA}"):
            write_partition_metadata(self.directory, Uuid.METADATA_TOPIC_ID)
        if is_new:
            sync_directory(log_dir)
        remove_leftovers(self.directory)
        self.snapshots: dict[OffsetAndEpoch, int] = list_snapshots(self.directory)
        self._epochs = self._open_epochs()
        self._segments: list[Segment] = []
        self._unflushed: list[str] = []
        self._is_directory_dirty = True
        self.control_batch_offsets: list[int] = []
        """Where the control batches behind the newest snapshot begin, as found when the log was opened."""
        self.start_offset = 0
        self.end_offset = 0
        self.recovered_from: int | None = None
        """Where a torn tail was cut off when the log was opened."""
        self._load_segments(now_ms)

    # --- reading

    @property
    def epochs(self) -> list[tuple[int, int]]:
        """(epoch, start offset), the oldest first."""
        return self._epochs.entries

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    @property
    def has_unflushed(self) -> bool:
        return bool(self._unflushed)

    @property
    def latest_snapshot_id(self) -> OffsetAndEpoch | None:
        return next(reversed(self.snapshots), None)

    def read(self, offset: int, max_bytes: int, end_offset: int | None = None) -> bytes | memoryview:
        """Whole batches from the one that holds ``offset`` on: one at least, and no more than one segment has.

        ``end_offset`` leaves out what starts at or after it. Empty when the log has nothing there.
        """
        if not self.start_offset <= offset < self.end_offset:
            return b""
        segment = self._segment_of(offset)
        found = segment.find(offset)
        if found is None:
            return b""
        start, size = found[0], 0
        for position, batch_size, base_offset, _ in segment.walk(start):
            if size and position + batch_size - start > max_bytes:
                break
            if end_offset is not None and base_offset >= end_offset:
                break
            size = position + batch_size - start
        return segment.read(start, size)

    def batches(self, offset: int, end_offset: int | None = None) -> Iterator[BatchView]:
        """Every batch from the one that holds ``offset``, in order, as long as it starts before ``end_offset``."""
        end = self.end_offset if end_offset is None else end_offset
        while offset < end:
            data = self.read(offset, 1024 * 1024, end)
            if not data:
                return
            position = 0
            while position < len(data):
                batch = BatchView(data, position)
                yield batch
                position += batch.size
                offset = batch.next_offset

    # --- writing

    def append(self, batch: AppendedBatch) -> None:
        invariant(batch.base_offset == self.end_offset, f"{batch!r} does not follow the log end {self.end_offset}")
        data = memoryview(batch.data)
        segment = self._segment_for_append(len(data), batch.last_offset, batch.timestamp_ms)
        segment.append(
            [data],
            len(data),
            last_offset=batch.last_offset,
            max_timestamp=batch.timestamp_ms,
            index_interval_bytes=INDEX_INTERVAL_BYTES,
        )
        self._mark_unflushed(segment)
        self.end_offset = batch.last_offset + 1
        if self._epochs.assign(batch.epoch, batch.base_offset):
            self._write_epochs()

    def start_flush(self) -> PendingFlush:
        """Take what is to be synced now; appends that follow belong to the next flush."""
        paths, self._unflushed = self._unflushed, []
        directory = self.directory if self._is_directory_dirty else None
        self._is_directory_dirty = False
        return PendingFlush(self.end_offset, paths, directory)

    def flush(self) -> None:
        self.start_flush().run()

    def flush_indexes(self) -> None:
        """Write the indexes, so that a later recovery need not read what lies before."""
        self._segments[-1].complete_indexes()

    def truncate_to(self, end_offset: int) -> None:
        """Remove what lies at or after ``end_offset``, which is the end of a batch."""
        invariant(
            self.start_offset <= end_offset, f"can't truncate to {end_offset}, the log starts at {self.start_offset}"
        )
        while len(self._segments) > 1 and self._segments[-1].base_offset >= end_offset:
            self._segments.pop().delete()
        segment = self._segments[-1]
        segment.truncate_to(end_offset)
        self._mark_unflushed(segment)
        self._is_directory_dirty = True
        self._epochs.truncate_from_end(end_offset)
        self._write_epochs()
        self.end_offset = end_offset

    def restart_at(self, snapshot_id: OffsetAndEpoch) -> None:
        """Drop every segment and older snapshots: the log goes on after this one, which must be complete."""
        for segment in self._segments:
            segment.delete()
        self._segments = [self._new_segment(snapshot_id.offset, 0)]
        self._unflushed = []
        self._epochs.clear()
        self._write_epochs()
        self.start_offset = self.end_offset = snapshot_id.offset
        self._drop_snapshots_before(snapshot_id.offset)

    def delete_before(self, start_offset: int) -> None:
        """The log starts here from now on: remove the segments that lie wholly before it."""
        invariant(start_offset <= self.end_offset, f"{start_offset} is behind the log end {self.end_offset}")
        while len(self._segments) > 1 and self._segments[1].base_offset <= start_offset:
            self._segments.pop(0).delete()
        self.start_offset = max(self.start_offset, start_offset)
        self._epochs.truncate_from_start(start_offset)
        self._write_epochs()

    def roll(self, now_ms: int) -> None:
        """Start a new segment, unless the active one is empty."""
        active = self._segments[-1]
        if active.size:
            active.become_inactive()
            self._segments.append(self._new_segment(self.end_offset, now_ms))
            self._is_directory_dirty = True

    def close(self) -> None:
        """Flush, and leave the directory as Kafka does: indexes trimmed, producer state noted."""
        self.flush()
        for segment in self._segments:
            segment.close()
        self._epochs.flush(sync=True)
        for offset in producer_snapshot.list_snapshots(self.directory):
            if offset != self.end_offset:
                producer_snapshot.delete_snapshot(self.directory, offset)
        producer_snapshot.write_snapshot(self.directory, self.end_offset, [], sync=False)
        self._pool.close_all()

    def _write_epochs(self) -> None:
        """Replace the checkpoint; the next flush makes it durable."""
        self._epochs.flush()
        self._unflushed.append(self._epochs.path)
        self._is_directory_dirty = True

    # --- segments

    def _segment_of(self, offset: int) -> Segment:
        for segment in reversed(self._segments):
            if segment.base_offset <= offset:
                return segment
        return self._segments[0]

    def _segment_for_append(self, size: int, last_offset: int, now_ms: int) -> Segment:
        active = self._segments[-1]
        first_timestamp = active.first_timestamp
        is_old = first_timestamp is not None and now_ms - first_timestamp > self._segment_ms
        if active.size and (active.size + size > self._segment_bytes or is_old or not active.fits(size, last_offset)):
            self.roll(now_ms)
        return self._segments[-1]

    def _new_segment(self, base_offset: int, now_ms: int) -> Segment:
        segment = Segment(self.directory, base_offset, self._pool, created_ms=now_ms)
        segment.create_file()
        return segment

    def _mark_unflushed(self, segment: Segment) -> None:
        if segment.path not in self._unflushed:
            self._unflushed.append(segment.path)

    # --- opening

    def _open_epochs(self) -> LeaderEpochCheckpoint:
        """The epochs as far as they are readable; recovery adds those that the batches name."""
        path = f"{self.directory}/{LEADER_EPOCH_CHECKPOINT}"
        try:
            return LeaderEpochCheckpoint(path)
        except CorruptFileError:
            return LeaderEpochCheckpoint(path, is_new=True)

    def _load_segments(self, now_ms: int) -> None:
        bases: dict[int, int] = {}
        with os.scandir(self.directory) as entries:
            for entry in entries:
                stem = entry.name.removesuffix(_LOG_SUFFIX)
                if entry.name.endswith(_LOG_SUFFIX) and stem.isdigit():
                    bases[int(stem)] = entry.stat().st_size
        for base_offset in sorted(bases):
            self._segments.append(Segment(self.directory, base_offset, self._pool, size=bases[base_offset]))
        if not self._segments:
            snapshot = self.latest_snapshot_id
            self._segments.append(self._new_segment(snapshot.offset if snapshot is not None else 0, now_ms))
        self._recover()
        self._make_recovered_durable()
        self.start_offset = self._recovered_start_offset()
        latest = self.latest_snapshot_id
        if latest is not None and latest.offset > self.end_offset:
            # A snapshot was fetched and the process died before the log was dropped for it.
            self.restart_at(latest)
        self._drop_snapshots_before(self.start_offset)

    def _recovered_start_offset(self) -> int:
        """The first segment's start, or the end of the oldest snapshot when that lies inside the first segment."""
        first = self._segments[0].base_offset
        epochs_start = self._epochs.entries[0][1] if self._epochs.entries else first
        if epochs_start > first:
            return epochs_start
        if first == 0:
            return 0
        later = [id_.offset for id_ in self.snapshots if id_.offset >= first]
        return min(later, default=first) if min(later, default=first) <= self.end_offset else first

    def _recover(self) -> None:
        latest = self.latest_snapshot_id
        check_from = latest.offset if latest is not None else 0
        self._epochs.truncate_from_end(max(check_from, self._segments[0].base_offset))
        if latest is not None and latest.offset > 0 and self._epochs.latest_epoch != latest.epoch:
            self._forget_before(latest)
        self.end_offset = self._segments[0].base_offset
        for index, segment in enumerate(self._segments):
            following = self._segments[index + 1].base_offset if index + 1 < len(self._segments) else None
            if following is not None and following <= check_from and self._has_sound_indexes(segment):
                self.end_offset = following
                continue
            if not self._recover_segment(segment, check_from):
                for dropped in self._segments[index + 1 :]:
                    dropped.delete()
                del self._segments[index + 1 :]
                break
        self._epochs.flush()

    def _forget_before(self, snapshot_id: OffsetAndEpoch) -> None:
        """The epochs before this snapshot's end are not known (any more): the log is taken to start there.

        Who does not know the epoch of its last record would claim a wrong one in elections and in fetches, and be
        told to cut off what is committed.
        """
        self._epochs.clear()
        self._epochs.assign(snapshot_id.epoch, snapshot_id.offset)
        self._drop_snapshots_before(snapshot_id.offset)

    def _drop_snapshots_before(self, start_offset: int) -> None:
        """The oldest one is where the log starts: others judge by its epoch what a follower has that ends there."""
        for older in [id_ for id_ in self.snapshots if id_.offset < start_offset]:
            del self.snapshots[older]
            os.unlink(delete_snapshot(self.directory, older))

    def _make_recovered_durable(self) -> None:
        """Who opens a log counts all of it as durable, and what a killed process wrote may be in memory only.

        A voter would acknowledge it, and lose it when the power fails.
        """
        for segment in self._segments:
            if segment.size and not segment.is_flushed:
                self._mark_unflushed(segment)
        if self._unflushed:
            self.flush()

    def _recover_segment(self, segment: Segment, check_from: int) -> bool:
        """Check the batches from ``check_from`` on and index them again; False when the rest had to be cut off."""
        start = self._checked_start(segment, check_from)
        segment.offset_index.truncate_to_position(start)
        next_offset, position, problem = segment.base_offset, start, None
        newest = NO_TIMESTAMP, segment.base_offset
        with segment.map() as data:
            while position < segment.size:
                batch = _inspect(data, position)
                problem = batch.problem or _misplaced(batch, next_offset, is_first=0 < start == position)
                if problem is not None:
                    break
                if batch.timestamp > newest[0]:
                    newest = batch.timestamp, batch.last_offset
                self._index(segment, position, batch.size, batch.last_offset, newest)
                if batch.last_offset >= check_from:
                    self._epochs.assign(batch.epoch, batch.base_offset)
                    if batch.is_control:
                        self.control_batch_offsets.append(batch.base_offset)
                next_offset, position = batch.last_offset + 1, position + batch.size
        segment.time_index.truncate_to_offset(next_offset)
        if newest[0] >= 0:
            segment.time_index.maybe_append(*newest)
        self.end_offset = next_offset
        if problem is None:
            return True
        self.recovered_from = next_offset
        os.truncate(segment.path, position)
        segment.size = position
        self._mark_unflushed(segment)
        return False

    def _checked_start(self, segment: Segment, check_from: int) -> int:
        """A position at or before the batch that holds ``check_from``, as far as the indexes can be trusted."""
        if not self._has_sound_indexes(segment):
            segment.offset_index.clear()
            segment.time_index.clear()
            return 0
        start = segment.offset_index.lookup(check_from) if check_from > segment.base_offset else 0
        if not 0 < start < segment.size:
            return 0
        with segment.map() as data:
            batch = _inspect(data, start)
        if batch.problem is None and segment.base_offset < batch.base_offset <= batch.last_offset <= check_from:
            return start
        # An index that was not synced may be of a log that was cut since: what lies there is no batch, or another.
        segment.offset_index.clear()
        segment.time_index.clear()
        return 0

    @staticmethod
    def _has_sound_indexes(segment: Segment) -> bool:
        try:
            segment.offset_index.sanity_check()
            segment.time_index.sanity_check()
        except (StorageError, OSError):
            return False
        return True

    @staticmethod
    def _index(segment: Segment, position: int, size: int, last_offset: int, newest: tuple[int, int]) -> None:
        if segment.bytes_since_index_entry > INDEX_INTERVAL_BYTES:
            segment.offset_index.append(last_offset, position)
            segment.time_index.maybe_append(*newest)
            segment.bytes_since_index_entry = 0
        segment.bytes_since_index_entry += size


class _Inspected(NamedTuple):
    size: int
    epoch: int
    base_offset: int
    last_offset: int
    timestamp: int
    is_control: bool
    problem: str | None


def _inspect(data: memoryview, position: int) -> _Inspected:
    """The batch at this position, and what is wrong with it."""
    if position + HEADER_SIZE > len(data):
        return _Inspected(0, 0, 0, 0, 0, False, "the segment ends inside a batch header")
    fields = HEADER.unpack_from(data, position)
    base_offset, length, epoch, magic, crc, attributes, last_offset_delta = fields[:7]
    size = length + BATCH_OVERHEAD
    problem = header_problem(length, magic, last_offset_delta, fields[12])
    if problem is None and epoch < 0:
        problem = f"the leader epoch {epoch} is negative"
    if problem is None and position + size > len(data):
        problem = "the segment ends inside a batch"
    if problem is None and not crc_matches(data[position : position + size], crc):
        problem = "the checksum is wrong"
    last_offset = base_offset + last_offset_delta
    return _Inspected(size, epoch, base_offset, last_offset, fields[8], bool(attributes & CONTROL_FLAG), problem)


def _misplaced(batch: _Inspected, next_offset: int, *, is_first: bool) -> str | None:
    """Batches follow each other without a gap; the first that an index leads to may lie anywhere in its segment."""
    if batch.base_offset == next_offset or (is_first and batch.base_offset > next_offset):
        return None
    return f"offset {batch.base_offset} stands where {next_offset} was expected"
