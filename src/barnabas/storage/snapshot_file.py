"""``<end offset>-<epoch>.checkpoint``: a snapshot of the metadata, as record batches.

A control batch with the header (and, in a quorum that keeps them, kraft.version and voters), data batches, a control
batch with the footer; offsets count from 0 inside the file. A snapshot is written under another name, made durable,
made read-only and renamed: under its own name it is complete. The end offset is exclusive, the epoch is that of the
last record in it.

Formatting writes the 0-0 checkpoint: it has voters only and is never sent to another replica.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from barnabas.protocol.errors import DecodeError
from barnabas.protocol.record_batch import BatchView, iter_batches
from barnabas.protocol.records.kraft_version_record import KRaftVersionRecord
from barnabas.protocol.records.snapshot_footer_record import SnapshotFooterRecord
from barnabas.protocol.records.snapshot_header_record import SnapshotHeaderRecord
from barnabas.protocol.records.voters_record import VotersRecord
from barnabas.raft.batch_accumulator import BatchAccumulator
from barnabas.raft.control_records import QuorumRecord, read_control_records, voter_set_of, voters_record
from barnabas.raft.log_state import BOOTSTRAP_SNAPSHOT_ID
from barnabas.raft.ports import RecordSerde
from barnabas.raft.replica_key import OffsetAndEpoch
from barnabas.raft.voter_set import VoterSet
from barnabas.storage.checkpoint_file import sync_directory
from barnabas.storage.errors import CorruptFileError
from barnabas.storage.file_io import naming, write_all
from barnabas.storage.file_permissions import FILE_MODE

__all__ = [
    "BOOTSTRAP_SNAPSHOT_ID",
    "CHECKPOINT_SUFFIX",
    "RawSnapshotWriter",
    "SnapshotReader",
    "SnapshotWriter",
    "delete_snapshot",
    "drop_snapshots_before",
    "list_snapshots",
    "remove_leftovers",
    "snapshot_path",
]

CHECKPOINT_SUFFIX = ".checkpoint"
PART_SUFFIX = ".checkpoint.part"
DELETED_SUFFIX = ".deleted"
READ_ONLY = 0o400
BATCH_MAX_BYTES = 8 * 1024 * 1024

_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint\Z")


def snapshot_path(directory: str, snapshot_id: OffsetAndEpoch) -> str:
    return f"{directory}/{snapshot_id.offset:020d}-{snapshot_id.epoch:010d}{CHECKPOINT_SUFFIX}"


def list_snapshots(directory: str) -> dict[OffsetAndEpoch, int]:
    """Return the size of each complete snapshot, oldest first."""
    found: dict[OffsetAndEpoch, int] = {}
    with os.scandir(directory) as entries:
        for entry in entries:
            name = _NAME.match(entry.name)
            if name is not None:
                found[OffsetAndEpoch(int(name[1]), int(name[2]))] = entry.stat().st_size
    return dict(sorted(found.items()))


def remove_leftovers(directory: str) -> None:
    """Remove incomplete snapshots of a killed process, and those that it had marked for deletion."""
    with os.scandir(directory) as entries:
        leftovers = [entry.path for entry in entries if entry.name.endswith((".part", DELETED_SUFFIX))]
    for path in leftovers:
        os.unlink(path)


def delete_snapshot(directory: str, snapshot_id: OffsetAndEpoch) -> str:
    """Hide the snapshot; returns the path to remove once it is no longer read."""
    path = snapshot_path(directory, snapshot_id)
    os.rename(path, path + DELETED_SUFFIX)
    return path + DELETED_SUFFIX


def drop_snapshots_before(directory: str, snapshots: dict[OffsetAndEpoch, int], start_offset: int) -> None:
    """Remove the older ones, in memory and on disk. The oldest remaining snapshot is where the log starts: other
    replicas compare its epoch with that of a follower that ends there."""
    for older in [snapshot_id for snapshot_id in snapshots if snapshot_id.offset < start_offset]:
        del snapshots[older]
        os.unlink(delete_snapshot(directory, older))


class RawSnapshotWriter:
    """Collects the bytes of a snapshot under a temporary name, until it is complete."""

    def __init__(self, directory: str, snapshot_id: OffsetAndEpoch, token: str) -> None:
        """``token`` makes the temporary name unique: two attempts at one snapshot must not share a file."""
        self.snapshot_id = snapshot_id
        self.path = snapshot_path(directory, snapshot_id)
        self.size = 0
        self.directory = directory
        self._temporary = f"{self.path.removesuffix(CHECKPOINT_SUFFIX)}-{token}{PART_SUFFIX}"
        self._fd = os.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)

    def append(self, data: bytes | memoryview) -> None:
        with naming(self._temporary):
            write_all(self._fd, data)
        self.size += len(data)

    def verify(self) -> None:
        """Raises CorruptFileError unless the written file is a complete and valid snapshot."""
        SnapshotReader(self.directory, self.snapshot_id, path=self._temporary).verify()

    def freeze(self) -> None:
        """Make it durable, read-only and visible, in this order."""
        with naming(self._temporary):
            os.fsync(self._fd)
            os.fchmod(self._fd, READ_ONLY)
        self._close()
        os.rename(self._temporary, self.path)
        sync_directory(self.directory)

    def abandon(self) -> None:
        if self._fd >= 0:
            self._close()
            os.unlink(self._temporary)

    def _close(self) -> None:
        os.close(self._fd)
        self._fd = -1


class SnapshotWriter:
    """Writes records as a snapshot: ``append`` as often as needed, then ``freeze``, or ``abandon``."""

    def __init__(
        self,
        raw: RawSnapshotWriter,
        *,
        last_contained_log_timestamp: int,
        now_ms: int,
        serde: RecordSerde,
        kraft_version: int = 0,
        voters: VoterSet | None = None,
    ) -> None:
        self._raw = raw
        self._now_ms = now_ms
        self._accumulator = BatchAccumulator(
            epoch=raw.snapshot_id.epoch,
            base_offset=0,
            serde=serde,
            batch_max_bytes=BATCH_MAX_BYTES,
            batch_max_records=1 << 31,
        )
        opening: list[QuorumRecord] = [
            SnapshotHeaderRecord(version=0, last_contained_log_timestamp=last_contained_log_timestamp)
        ]
        if kraft_version > 0:
            opening.append(KRaftVersionRecord(version=0, kraft_version=kraft_version))
            if voters is not None:
                opening.append(voters_record(voters))
        self._accumulator.append_control(opening, now_ms)

    @property
    def snapshot_id(self) -> OffsetAndEpoch:
        return self._raw.snapshot_id

    @property
    def size(self) -> int:
        return self._raw.size

    def append(self, records: Sequence[object]) -> None:
        self._accumulator.append(records, self._now_ms, is_atomic=False)
        for batch in self._accumulator.drain_complete():
            self._raw.append(batch.data)

    def freeze(self) -> None:
        self._accumulator.append_control([SnapshotFooterRecord(version=0)], self._now_ms)
        for batch in self._accumulator.drain():
            self._raw.append(batch.data)
        self._raw.freeze()

    def abandon(self) -> None:
        self._raw.abandon()


class SnapshotReader:
    """Reads a complete snapshot; the control records are read when it is opened."""

    def __init__(self, directory: str, snapshot_id: OffsetAndEpoch, *, path: str | None = None) -> None:
        """``path``: the file, if it does not have its final name yet."""
        self.snapshot_id = snapshot_id
        self.path = snapshot_path(directory, snapshot_id) if path is None else path
        fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            with naming(self.path):
                self.size = os.fstat(fd).st_size
                if not self.size:
                    raise CorruptFileError(self.path, "the snapshot is empty")
                self.data = memoryview(mmap.mmap(fd, self.size, prot=mmap.PROT_READ))
        finally:
            os.close(fd)
        self.last_contained_log_timestamp = 0
        self.kraft_version: int | None = None
        self.voters: VoterSet | None = None
        self._read_opening()

    def batches(self) -> Iterator[BatchView]:
        """Yield every batch, checked; a snapshot without a footer at its end is an error."""
        last: BatchView | None = None
        try:
            for batch in iter_batches(self.data):
                batch.ensure_valid()
                last = batch
                yield batch
            if last is None or not _ends_snapshot(last):
                raise CorruptFileError(self.path, "the snapshot does not have a footer")
        except DecodeError as error:
            raise CorruptFileError(self.path, str(error)) from error

    def verify(self) -> None:
        """Read all of it; raises CorruptFileError unless every batch is valid and the footer is at the end."""
        for _ in self.batches():
            pass

    def records(self, serde: RecordSerde) -> Iterator[Any]:
        """Yield the data records, in the order of the file."""
        for batch in self.batches():
            if not batch.is_control:
                for record in batch.records():
                    if record.value is None:
                        raise CorruptFileError(self.path, f"record {record.offset} does not have a value")
                    yield serde.decode(record.value)

    def chunk(self, position: int, max_bytes: int) -> memoryview:
        return self.data[position : position + max_bytes]

    def _read_opening(self) -> None:
        try:
            first = next(iter(iter_batches(self.data)))
            opening = read_control_records(first) if first.is_control else []
        except (DecodeError, StopIteration) as error:
            reason = str(error) or "it does not begin with a whole batch"
            raise CorruptFileError(self.path, f"not a snapshot: {reason}") from error
        if not opening or not isinstance(opening[0][1], SnapshotHeaderRecord):
            raise CorruptFileError(self.path, "the snapshot does not have a header")
        for _, record in opening:
            if isinstance(record, SnapshotHeaderRecord):
                self.last_contained_log_timestamp = record.last_contained_log_timestamp
            elif isinstance(record, KRaftVersionRecord):
                self.kraft_version = record.kraft_version
            elif isinstance(record, VotersRecord):
                self.voters = voter_set_of(record)


def _ends_snapshot(batch: BatchView) -> bool:
    return batch.is_control and any(isinstance(r, SnapshotFooterRecord) for _, r in read_control_records(batch))
