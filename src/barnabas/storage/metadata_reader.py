"""Reads the metadata of a node from its files, read-only, also while the node runs.

It loads the newest snapshot and the log after it. An incomplete batch at the end of the log ends the reading,
because a node may be writing it, and so does an open transaction. An earlier moment is read from
the newest snapshot before it and the log up to it, as far back as both exist. A running node may
roll, delete and snapshot meanwhile: if a file was deleted during the reading, everything is read again.

The commit point of the log is not stored anywhere. In a quorum of several controllers the last records may be
uncommitted.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from barnabas.common.errors import InvariantViolated
from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage, MetadataProvenance
from barnabas.metadata.loader import TransactionState
from barnabas.metadata.snapshot import image_from_records
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.record_batch import BatchView, iter_batches
from barnabas.protocol.record_serde import decode_metadata_record
from barnabas.protocol.records.begin_transaction_record import BeginTransactionRecord
from barnabas.raft.replica_key import OffsetAndEpoch
from barnabas.storage.bootstrap_file import BOOTSTRAP_CHECKPOINT
from barnabas.storage.errors import CorruptFileError, StorageError
from barnabas.storage.metadata_log import METADATA_LOG_DIRECTORY
from barnabas.storage.metadata_point_in_time import Moment, MomentNotKnown, Point
from barnabas.storage.snapshot_file import CHECKPOINT_SUFFIX, SnapshotReader, list_snapshots

__all__ = ["EffectiveRecord", "MetadataOnDisk", "MetadataRecords", "Moment", "read_metadata", "read_records"]

T = TypeVar("T")

_ATTEMPTS = 5
_SEGMENT = re.compile(r"(\d{20})\.log\Z")
_SNAPSHOT = re.compile(r"(\d{20})-(\d{10})\.checkpoint\Z")


class MetadataOnDisk(NamedTuple):
    image: MetadataImage
    source: str
    """The file or directory read."""
    incomplete: str | None = None
    """The reason why the reading ended before the last byte of the log, if it did."""


class EffectiveRecord(NamedTuple):
    """A record that took effect."""

    change: int
    """The same number for records that took effect together: those of a batch, or of a metadata transaction."""
    effective_offset: int
    offset: int
    """Of the record itself, which is earlier in a metadata transaction."""
    time_ms: int
    """When it took effect."""
    message: object


class MetadataRecords(NamedTuple):
    image: MetadataImage
    """The state before the first record. Its offset is -1 if the log has everything."""
    records: list[EffectiveRecord]
    source: str
    incomplete: str | None = None


def read_metadata(path: str, moment: Moment | None = None) -> MetadataOnDisk:
    """Return the image that a snapshot file, a metadata log directory, or a log directory with one in it describes.

    With ``moment``, return the image of that moment. An offset inside a batch returns a state that no node acted on.
    Times after the last batch are unknown: the cluster may have continued.

    Raises StorageError if it is missing or damaged, and the subclass MomentNotKnown with the available moments.
    """
    path = path.rstrip("/") or "/"
    name = os.path.basename(path)
    if os.path.isfile(path) and (name == BOOTSTRAP_CHECKPOINT or _SNAPSHOT.match(name)):
        return _read_snapshot(path, moment)
    return _retried(_directory_of(path), lambda directory: _read_directory(directory, moment))


def read_records(
    path: str, kinds: tuple[type, ...], *, since: Moment | None = None, until: Moment | None = None
) -> MetadataRecords:
    """Return the records of these classes that took effect until ``until``, and the state before the first of them.

    The records begin at the latest snapshot that is not after ``since``; None: at the earliest known state. So they
    include earlier ones. Raises StorageError, and MomentNotKnown for a moment that the directory does not have.
    """
    return _retried(_directory_of(path.rstrip("/") or "/"), lambda directory: _records(directory, kinds, since, until))


def _directory_of(path: str) -> str:
    """Return the metadata log directory that a path names, or that has the segment of this path."""
    if os.path.isfile(path):
        name = os.path.basename(path)
        if name == BOOTSTRAP_CHECKPOINT or _SNAPSHOT.match(name):
            raise StorageError(
                f"{path} is a snapshot, which has one moment and no changes: name the directory of the metadata log"
            )
        if not _SEGMENT.match(name):
            raise StorageError(
                f"{path} is not a metadata snapshot: their names are <offset>-<epoch>{CHECKPOINT_SUFFIX}"
            )
        path = os.path.dirname(path) or "."  # Part of a log is meaningless without the earlier part.
    return _log_directory(path)


def _retried(directory: str, read: Callable[[str], T]) -> T:
    for _ in range(_ATTEMPTS - 1):
        try:
            return read(directory)
        except FileNotFoundError:
            continue
    return read(directory)


def _log_directory(path: str) -> str:
    if not os.path.isdir(path):
        raise StorageError(f"{path}: no such file or directory")
    inside = f"{path}/{METADATA_LOG_DIRECTORY}"
    directory = inside if os.path.isdir(inside) else path
    names = os.listdir(directory)
    is_metadata = os.path.basename(os.path.realpath(directory)) == METADATA_LOG_DIRECTORY or any(
        map(_SNAPSHOT.match, names)
    )
    if not is_metadata or not any(_SEGMENT.match(name) or _SNAPSHOT.match(name) for name in names):
        raise StorageError(
            f"{path} holds no metadata log: give a node's log directory (metadata.log.dir, else the first of "
            f"log.dirs), the {METADATA_LOG_DIRECTORY} in it, or a snapshot file"
        )
    return directory


def _read_snapshot(path: str, moment: Moment | None) -> MetadataOnDisk:
    image = _snapshot_image(path)
    shown = Point(image.offset, image.provenance.last_contained_log_time_ms)
    if moment is not None and not moment.is_at(*shown):
        raise MomentNotKnown(path, moment, [(shown, shown)] if image.offset >= 0 else [])
    return MetadataOnDisk(image, path)


def _read_directory(directory: str, moment: Moment | None) -> MetadataOnDisk:
    image = MetadataImage.EMPTY
    snapshot = next((snapshot for snapshot in _snapshots(directory) if not _is_later(snapshot, moment)), None)
    if snapshot is not None:
        image = _snapshot_image(snapshot.path)
        if moment is not None and moment.offset == image.offset:
            return MetadataOnDisk(image, directory)
    first = image.offset + 1
    needed = _segments_from(first, _segments(directory))
    if needed and needed[0][0] > first:
        if moment is not None:
            raise MomentNotKnown(directory, moment, _known_ranges(directory))
        raise StorageError(f"{directory}: the log begins at offset {needed[0][0]}, and no snapshot covers earlier ones")
    replay = _Replay(image, moment)
    incomplete = replay.run(needed)
    if moment is not None and not replay.is_at_moment:
        raise MomentNotKnown(directory, moment, _known_ranges(directory))
    return MetadataOnDisk(replay.delta.apply(replay.provenance), directory, incomplete)


def _records(directory: str, kinds: tuple[type, ...], since: Moment | None, until: Moment | None) -> MetadataRecords:
    segments = _segments(directory)
    image = MetadataImage.EMPTY
    snapshot = _starting_snapshot(directory, segments, since)
    if snapshot is not None:
        image = _snapshot_image(snapshot.path)
    first = image.offset + 1
    needed = _segments_from(first, segments)
    if needed and needed[0][0] > first:
        raise MomentNotKnown(directory, since or Moment(first), _known_ranges(directory))
    if since is not None:
        _read_directory(directory, since)  # Raises if it is not known.
    found: list[EffectiveRecord] = []
    replay = _Replay(image, until, lambda record: found.append(record) if isinstance(record.message, kinds) else None)
    incomplete = replay.run(needed)
    if until is not None and not replay.is_at_moment:
        raise MomentNotKnown(directory, until, _known_ranges(directory))
    return MetadataRecords(image, found, directory, incomplete)


def _starting_snapshot(directory: str, segments: list[tuple[int, str]], since: Moment | None) -> SnapshotReader | None:
    """Return the latest snapshot that is not after ``since``; without ``since`` the earliest, if the log needs one."""
    snapshots = list(_snapshots(directory))
    if since is not None:
        return next((snapshot for snapshot in snapshots if not _is_later(snapshot, since)), None)
    start = segments[0][0] if segments else None
    if start == 0:
        return None
    usable = [snapshot for snapshot in snapshots if start is None or snapshot.snapshot_id.offset >= start]
    return usable[-1] if usable else None


def _snapshots(directory: str) -> Iterator[SnapshotReader]:
    """Return the snapshots, newest first, without the one of formatting, which has voters only."""
    return (
        SnapshotReader(directory, snapshot_id)
        for snapshot_id in reversed(list_snapshots(directory))
        if snapshot_id.offset > 0
    )


def _segments(directory: str) -> list[tuple[int, str]]:
    return sorted(
        (int(match[1]), f"{directory}/{name}") for name in os.listdir(directory) if (match := _SEGMENT.match(name))
    )


def _segments_from(offset: int, segments: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return the segments that have records from this offset on. The last one, which may grow, always counts."""
    return [
        (base, path)
        for index, (base, path) in enumerate(segments)
        if index + 1 == len(segments) or segments[index + 1][0] > offset
    ]


def _is_later(snapshot: SnapshotReader, moment: Moment | None) -> bool:
    return moment is not None and moment.is_before(*_end(snapshot))


def _end(snapshot: SnapshotReader) -> Point:
    return Point(snapshot.snapshot_id.offset - 1, snapshot.last_contained_log_timestamp)


def _known_ranges(directory: str) -> list[tuple[Point, Point]]:
    """Return the available moments: all since the log's start, if that is known; before it, those of snapshots."""
    segments, points = _segments(directory), sorted(map(_end, _snapshots(directory)))
    log_start = segments[0][0] if segments else 0
    alone = [point for point in points if point.offset + 1 < log_start]
    joined = points[len(alone) :]
    if joined or log_start == 0:
        begin = joined[0].offset if log_start else 0
        for base, path in segments:
            for batch in _Batches(path, base):
                if batch.base_offset >= begin:
                    ends = Point(batch.base_offset, batch.max_timestamp), Point(batch.last_offset, batch.max_timestamp)
                    joined = [min(*joined, *ends), max(*joined, *ends)]
    return [(point, point) for point in alone] + ([(min(joined), max(joined))] if joined else [])


class _Replay:
    """Replays the log onto an image, to its end or to a moment."""

    def __init__(
        self, image: MetadataImage, moment: Moment | None, observe: Callable[[EffectiveRecord], None] | None = None
    ) -> None:
        """``observe`` is called for each record that takes effect."""
        self.delta = MetadataDelta(image)
        self._observe = observe
        self._held: list[int] = []
        """Offsets of the records of an open transaction."""
        self.provenance = image.provenance
        self._start = image.offset
        self._moment = moment
        self._transaction = TransactionState()
        self._is_past = False

    @property
    def is_at_moment(self) -> bool:
        """Whether the replay reached the requested moment, and has a record by then."""
        provenance, moment = self.provenance, self._moment
        offset, time_ms = provenance.last_contained_offset, provenance.last_contained_log_time_ms
        return offset >= 0 and moment is not None and (self._is_past or moment.is_at(offset, time_ms))

    def run(self, segments: list[tuple[int, str]]) -> str | None:
        """Return what is missing at the end, if anything."""
        problem: str | None = None
        end = segments[0][0] if segments else 0
        for index, (base, path) in enumerate(segments):
            if base > end:
                raise CorruptFileError(path, f"offsets {end} to {base - 1} are missing before it")
            batches = _Batches(path, base)
            self._replay_segment(path, batches)
            if self._is_past:
                break
            problem = batches.problem
            if problem is not None:
                if index + 1 < len(segments):
                    raise CorruptFileError(path, problem)
                problem = f"{path}: {problem}"
            end = batches.end_offset
        if self._transaction.is_open:
            return f"the transaction that began at offset {self._transaction.begin_offset} has not ended"
        return problem if self._moment is None else None

    def _replay_segment(self, path: str, batches: _Batches) -> None:
        for batch in batches:
            if batch.last_offset <= self._start:
                continue
            if self._moment is not None and self._moment.is_before(batch.base_offset, batch.max_timestamp):
                self._is_past = True
                return
            self._replay_batch(path, batch)

    def _replay_batch(self, path: str, batch: BatchView) -> None:
        last, time_ms = batch.last_offset, batch.max_timestamp
        if self._moment is not None and self._moment.offset is not None:
            last = min(last, self._moment.offset)
        self.provenance = MetadataProvenance(last, batch.leader_epoch, time_ms, last == batch.last_offset)
        if batch.is_control:
            return
        for record in batch.records():
            if record.offset > last:
                return
            try:
                message, _ = decode_metadata_record(record.value or b"")
                for effective in self._transaction.receive(message, record.offset):
                    self.delta.replay(effective)
                    if self._observe is not None:
                        offset = self._held.pop(0) if self._held else record.offset
                        self._observe(EffectiveRecord(batch.base_offset, record.offset, offset, time_ms, effective))
                self._hold(message, record.offset)
            except (DecodeError, InvariantViolated) as error:
                raise CorruptFileError(path, f"the record at offset {record.offset} is invalid: {error}") from error

    def _hold(self, message: object, offset: int) -> None:
        """Remember the offset of a record that takes effect later. Its transaction's first record is a marker."""
        if not self._transaction.is_open:
            self._held.clear()
        elif not isinstance(message, BeginTransactionRecord):
            self._held.append(offset)


class _Batches:
    """Yields the whole batches of a segment; afterwards ``problem`` has the reason for its end."""

    def __init__(self, path: str, base_offset: int) -> None:
        self.problem: str | None = None
        self.end_offset = base_offset
        """The offset after the last batch so far."""
        self._path = path

    def __iter__(self) -> Iterator[BatchView]:
        data = _bytes_of(self._path)
        end = 0
        try:
            for batch in iter_batches(data):
                batch.ensure_valid()
                if batch.base_offset != self.end_offset:
                    self.problem = f"offset {batch.base_offset} found where {self.end_offset} was expected"
                    return
                yield batch
                self.end_offset, end = batch.last_offset + 1, end + batch.size
        except DecodeError as error:
            self.problem = f"at position {end}: {error}"
            return
        if end < len(data):
            self.problem = f"at position {end}: the log ends inside a batch"


def _snapshot_image(path: str) -> MetadataImage:
    name = _SNAPSHOT.match(os.path.basename(path))
    snapshot_id = OffsetAndEpoch(int(name[1]), int(name[2])) if name else OffsetAndEpoch(0, 0)
    records, time_ms = [], -1
    if name:
        reader = SnapshotReader(os.path.dirname(path) or ".", snapshot_id)
        time_ms = reader.last_contained_log_timestamp
        batches = reader.batches()
    else:
        batches = iter_batches(_bytes_of(path))
    try:
        for batch in batches:
            if not batch.is_control:
                records += [decode_metadata_record(record.value or b"")[0] for record in batch.records()]
        provenance = MetadataProvenance(snapshot_id.offset - 1, snapshot_id.epoch, time_ms)
        return image_from_records(records, provenance)
    except (DecodeError, InvariantViolated) as error:
        raise CorruptFileError(path, str(error)) from error


def _bytes_of(path: str) -> bytes | memoryview:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        return memoryview(mmap.mmap(fd, size, prot=mmap.PROT_READ)) if size else b""
    finally:
        os.close(fd)
