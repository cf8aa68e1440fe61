"""The log ``__cluster_metadata-0`` on disk: segments, epochs, snapshots, all in Kafka's layout.

An append is not durable until a flush that began later has completed. The driver runs flushes on a thread, and
many appends share one. Opening the log checks it from its newest snapshot's end on. A torn tail is truncated, with a
line in the log of the node. A log that lost more raises ``DamagedLogError`` and stays as it is. ``metadata_log_check``
describes how the two are distinguished. The high watermark is not stored anywhere.

Every batch that is read later is verified again; ``DamagedLogError`` then reports bytes that changed after the check.

Everything but ``PendingFlush.run`` belongs to one thread.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from time import monotonic

from barnabas.common.errors import invariant
from barnabas.common.uuid import Uuid
from barnabas.protocol.record_batch import BatchView
from barnabas.raft.ready import AppendedBatch
from barnabas.raft.replica_key import OffsetAndEpoch
from barnabas.storage import producer_snapshot
from barnabas.storage.checkpoint_file import sync_directory
from barnabas.storage.damaged_files import DamagedLogError, LogDamage
from barnabas.storage.errors import CorruptFileError, CorruptSegmentError, StorageError
from barnabas.storage.file_io import naming
from barnabas.storage.file_permissions import DIRECTORY_MODE
from barnabas.storage.file_pool import FilePool
from barnabas.storage.metadata_log_check import inspect_batch
from barnabas.storage.metadata_log_opening import LogOpening
from barnabas.storage.partition_metadata import read_partition_metadata, write_partition_metadata
from barnabas.storage.recovery_point import RecoveryPoint
from barnabas.storage.segment import Segment
from barnabas.storage.snapshot_file import drop_snapshots_before, remove_leftovers

__all__ = ["METADATA_LOG_DIRECTORY", "MetadataLog", "PendingFlush"]

METADATA_LOG_DIRECTORY = "__cluster_metadata-0"
INDEX_INTERVAL_BYTES = 4096
SEGMENT_BYTES = 1024 * 1024 * 1024
SEGMENT_MS = 7 * 24 * 60 * 60 * 1000

log = logging.getLogger(__name__)


class PendingFlush:
    """The files to sync so that the log is durable up to ``end_offset``; ``run`` may be called on any thread."""

    __slots__ = ("_directory", "_generation", "_paths", "_point", "end_offset")

    def __init__(self, end_offset: int, paths: list[str], directory: str | None, point: RecoveryPoint) -> None:
        self.end_offset = end_offset
        self._paths = paths
        self._directory = directory
        self._point = point
        self._generation = point.generation

    def run(self) -> None:
        for path in self._paths:
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                continue  # Removed meanwhile, because a snapshot holds its records, or never needed.
            try:
                with naming(path):
                    os.fdatasync(fd)
            finally:
                os.close(fd)
        if self._directory is not None:
            sync_directory(self._directory)
        self._point.advance(self.end_offset, self._generation)


class MetadataLog:
    def __init__(
        self,
        log_dir: str,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        segment_ms: int = SEGMENT_MS,
        now_ms: int = 0,
        boot: str | None = None,
        now_s: Callable[[], float] = monotonic,
    ) -> None:
        """Open or create the log below ``log_dir`` and recover it.

        ``boot``: the machine's boot id, if it differs from the system's; ``now_s``: the clock of the recovery point.
        Raises DamagedLogError when more than a torn tail is lost, StorageError when a file cannot be read or written.
        """
        self.directory = f"{log_dir}/{METADATA_LOG_DIRECTORY}"
        self._segment_bytes = segment_bytes
        self._segment_ms = segment_ms
        self._pool = FilePool(16)
        is_new = not os.path.isdir(self.directory)
        os.makedirs(self.directory, DIRECTORY_MODE, exist_ok=True)
        if is_new:
            sync_directory(log_dir)
        self._point = RecoveryPoint(self.directory, boot=boot, now_s=now_s)
        if self._point.problem is not None:
            log.warning("%s; the flushed offset is unknown, and the file is written again", self._point.problem)
        self._unflushed: list[str] = []
        self._is_directory_dirty = True
        self.control_batch_offsets: list[int] = []
        """Offsets of the control batches after the newest snapshot, as of the opening of the log."""
        self.start_offset = 0
        self.end_offset = 0
        self.recovered_from: int | None = None
        """The offset at which a torn tail was truncated when the log was opened."""
        try:
            self._open(now_ms)
        except OSError as error:
            self._pool.close_all()
            raise StorageError(f"{error.filename or self.directory}: {error.strerror}") from error
        except StorageError:
            self._pool.close_all()
            raise

    def _open(self, now_ms: int) -> None:
        opening = LogOpening(
            self.directory, self._pool, self._point, now_ms=now_ms, index_interval_bytes=INDEX_INTERVAL_BYTES
        )
        opening.run()
        self.snapshots = opening.snapshots
        self._epochs, self._segments = opening.epochs, opening.segments
        self.end_offset, self.control_batch_offsets = opening.end_offset, opening.control_batch_offsets
        self.recovered_from = opening.recovered_from
        remove_leftovers(self.directory)
        self._check_partition_metadata()
        self._make_recovered_durable()
        self.start_offset = self._recovered_start_offset()
        latest = self.latest_snapshot_id
        if latest is not None and not self._continues(latest):
            # A snapshot was fetched and the process died before the log was dropped for it.
            log.info(
                "%s: the log continues after the fetched snapshot %s; it ended at offset %d",
                *(self.directory, latest, self.end_offset),
            )
            self.restart_at(latest)
        self._drop_snapshots_before(self.start_offset)
        self._point.renew(self.end_offset)

    def _continues(self, snapshot_id: OffsetAndEpoch) -> bool:
        """Return whether the log holds the snapshot's records, or those that follow them.

        A snapshot that was fetched holds committed records. A longer log may diverge from it: then its records are of
        an earlier leader, and were never committed.
        """
        if snapshot_id.offset == 0:
            return True
        if snapshot_id.offset > self.end_offset:
            return False
        last = self._epoch_of(snapshot_id.offset - 1)
        if last is not None:
            return last == snapshot_id.epoch
        following = self._epoch_of(snapshot_id.offset)
        return following is None or following >= snapshot_id.epoch

    def _epoch_of(self, offset: int) -> int | None:
        """Return the epoch of a record, from its batch; None if the log lacks it, or its batch cannot be read."""
        segment = self._segment_of(max(offset, self._segments[0].base_offset))
        try:
            found = segment.find(offset)
            if found is None or found[2] > offset:
                return None
            return BatchView(segment.read(found[0], found[1])).leader_epoch
        except CorruptSegmentError:
            return None

    def _make_recovered_durable(self) -> None:
        """Make the log durable: its owner counts all of it as durable, but a killed process may have left it in memory.

        A voter would acknowledge those records, and lose them in a power failure.
        """
        for segment in self._segments:
            if segment.size and not segment.is_flushed:
                self._mark_unflushed(segment)
        if self._unflushed or self.recovered_from is not None:
            self.flush()

    def _recovered_start_offset(self) -> int:
        """Return the first segment's start, or the end of the oldest snapshot when that lies inside the first
        segment."""
        first = self._segments[0].base_offset
        epochs_start = self._epochs.entries[0][1] if self._epochs.entries else first
        if epochs_start > first:
            return epochs_start
        if first == 0:
            return 0
        later = [id_.offset for id_ in self.snapshots if id_.offset >= first]
        return min(later, default=first) if min(later, default=first) <= self.end_offset else first

    def _check_partition_metadata(self) -> None:
        """The topic id of the metadata log is always the same: any other content is damage, and is replaced."""
        try:
            found = read_partition_metadata(self.directory)
        except CorruptFileError as error:
            log.warning("%s; the file is written again", error)
            found = None
        if found != Uuid.METADATA_TOPIC_ID:
            write_partition_metadata(self.directory, Uuid.METADATA_TOPIC_ID)

    # --- reading

    @property
    def epochs(self) -> list[tuple[int, int]]:
        """(epoch, start offset), the oldest first."""
        return self._epochs.entries

    @property
    def last_epoch(self) -> int:
        """Return the epoch of the last record, or of the newest snapshot if the log has no record after it; else 0."""
        if self.epochs:
            return self.epochs[-1][0]
        latest = self.latest_snapshot_id
        return 0 if latest is None else latest.epoch

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
        """Read whole batches from the one that holds ``offset`` on: at least one, and at most those of one segment.

        ``end_offset`` excludes batches that start at or after it. Empty if the log has no records there.
        """
        if not self.start_offset <= offset < self.end_offset:
            return b""
        segment = self._segment_of(offset)
        try:
            return self._read_from(segment, offset, max_bytes, end_offset)
        except CorruptSegmentError as error:
            reason, position = error.problem, error.position
        except OSError as error:
            reason, position = f"it cannot be read: {error.strerror}", 0
        evidence = f"the log holds records up to offset {self.end_offset - 1}"
        raise DamagedLogError(LogDamage(segment.path, position, offset, self.end_offset, reason, evidence))

    def _read_from(self, segment: Segment, offset: int, max_bytes: int, end_offset: int | None) -> bytes | memoryview:
        found = segment.find(offset)
        if found is None:
            raise CorruptSegmentError(segment.path, segment.size, f"offset {offset} is missing")
        start, size = found[0], 0
        for position, batch_size, base_offset, _ in segment.walk(start):
            if size and position + batch_size - start > max_bytes:
                break
            if end_offset is not None and base_offset >= end_offset:
                break
            size = position + batch_size - start
        data = segment.read(start, size)
        _verify(segment.path, start, memoryview(data), offset)
        return data

    def batches(self, offset: int, end_offset: int | None = None) -> Iterator[BatchView]:
        """Yield every batch from the one that holds ``offset``, in order, as long as it starts before
        ``end_offset``."""
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
        """Return the files to sync now; appends that follow belong to the next flush."""
        paths, self._unflushed = self._unflushed, []
        directory = self.directory if self._is_directory_dirty else None
        self._is_directory_dirty = False
        return PendingFlush(self.end_offset, paths, directory, self._point)

    def flush(self) -> None:
        self.start_flush().run()

    def flush_indexes(self) -> None:
        """Write the indexes, so that a later recovery need not read the earlier part."""
        self._segments[-1].complete_indexes()

    def truncate_to(self, end_offset: int) -> None:
        """Remove everything at or after ``end_offset``, which is the end of a batch."""
        invariant(
            self.start_offset <= end_offset, f"can't truncate to {end_offset}, the log starts at {self.start_offset}"
        )
        self._point.lower(end_offset)
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
        """Drop every segment and older snapshots: the log continues after this one, which must be complete."""
        self._point.lower(snapshot_id.offset)
        for segment in self._segments:
            segment.delete()
        self._segments = [self._new_segment(snapshot_id.offset, 0)]
        self._unflushed = []
        self._epochs.clear()
        self._write_epochs()
        self.start_offset = self.end_offset = snapshot_id.offset
        self._drop_snapshots_before(snapshot_id.offset)

    def delete_before(self, start_offset: int) -> None:
        """The log starts here from now on: remove the segments that end before it."""
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
        """Flush, and leave the directory as Kafka does: indexes trimmed, producer state stored."""
        self.flush()
        for segment in self._segments:
            segment.close()
        self._epochs.flush(sync=True)
        for offset in producer_snapshot.list_snapshots(self.directory):
            if offset != self.end_offset:
                producer_snapshot.delete_snapshot(self.directory, offset)
        producer_snapshot.write_snapshot(self.directory, self.end_offset, [], sync=False)
        self._point.sync()
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
        segment.replace_files()
        return segment

    def _mark_unflushed(self, segment: Segment) -> None:
        if segment.path not in self._unflushed:
            self._unflushed.append(segment.path)

    def _drop_snapshots_before(self, start_offset: int) -> None:
        drop_snapshots_before(self.directory, self.snapshots, start_offset)


def _verify(path: str, position: int, data: memoryview, offset: int) -> None:
    """Raise CorruptSegmentError unless these are whole batches without a gap, the first one with ``offset`` in it."""
    at, next_offset = 0, None
    while at < len(data):
        batch = inspect_batch(data, at)
        problem = batch.problem
        if problem is None and next_offset is None and not batch.base_offset <= offset <= batch.last_offset:
            problem = f"offset {batch.base_offset} was found where {offset} was expected"
        if problem is None and next_offset is not None and batch.base_offset != next_offset:
            problem = f"offset {batch.base_offset} was found where {next_offset} was expected"
        if problem is not None:
            raise CorruptSegmentError(path, position + at, problem)
        at, next_offset = at + batch.size, batch.last_offset + 1
