"""The partition logs of one node: files whose unsynced part a power loss may drop, tear or corrupt.

A leader or follower syncs a log only when it rolls or closes the log, or on request. Until then acknowledged records
are only in memory, and the other replicas protect them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.storage import checkpoint_file, partition_log, segment
from barnabas.storage.partition_log import PartitionLog
from tests.simulation.cluster.data_watch import PartitionName
from tests.simulation.cluster.transaction_shape import TRANSACTIONS_TOPIC

if TYPE_CHECKING:
    from barnabas.storage.produced_batch import ProducedBatch
    from tests.simulation.cluster.disk import Disk
    from tests.simulation.cluster.disk_errors import DiskErrors

__all__ = ["DATA_FOLDER", "DataDisk", "install_data_disks"]

DATA_FOLDER = "data"


class _DurableFile(NamedTuple):
    inode: int
    data: bytes


class DataDisk:
    def __init__(self, disk: Disk, errors: DiskErrors) -> None:
        self.folder = f"{disk.folder}/{DATA_FOLDER}"
        self._disk = disk
        self._errors = errors
        self._not_trusted: set[str] = set()
        """Files whose sync failed: the system has dropped the unwritten data, and a later sync reports no error."""
        self._durable: dict[str, _DurableFile] = {}
        """Path to the durable file after a power loss. Names become durable when their directory is synced."""
        self.dies_at_next_append: Callable[[], None] | None = None
        self.dies_in_transaction: tuple[str, int, Callable[[], None]] | None = None
        """Dies with a batch of this kind, after that many others: a ``state`` of an id, or a ``marker``."""
        self.on_commit: Callable[[PartitionLog, int], None] = lambda log, before: None
        """Called after each change of a high watermark, with its previous value."""
        self.on_truncate: Callable[[PartitionLog], None] = lambda log: None
        """Called after each truncation of a log."""
        self.on_append: Callable[[PartitionLog, ProducedBatch], None] = lambda log, batch: None
        """Called after a leader has written a batch of a producer."""

    def appended(self) -> None:
        dying, self.dies_at_next_append = self.dies_at_next_append, None
        if dying is not None:
            dying()

    def appended_in_transaction(self, log: PartitionLog, batch: ProducedBatch) -> None:
        if self.dies_in_transaction is None:
            return
        kind, skips, dying = self.dies_in_transaction
        is_meant = batch.marker is not None if kind == "marker" else log.topic_partition.topic == TRANSACTIONS_TOPIC
        if is_meant:
            self.dies_in_transaction = (kind, skips - 1, dying) if skips else None
            if not skips:
                dying()

    def synced(self, path: str) -> None:
        error = self._errors.problem("segment", "fsync", path)
        if error is not None:
            self._not_trusted.add(path)
            raise error
        if path in self._not_trusted:
            return
        if os.path.isdir(path):
            self.names_synced(path)
            return
        with suppress(FileNotFoundError), open(path, "rb") as file:
            self._durable[path] = _DurableFile(os.fstat(file.fileno()).st_ino, file.read())

    def names_synced(self, folder: str) -> None:
        """Make the names in a folder durable: removed files stay removed, and renamed ones keep their new names."""
        old = {path: file for path, file in self._durable.items() if os.path.dirname(path) == folder}
        by_inode = {file.inode: file for file in old.values()}
        for path in old:
            del self._durable[path]
        for entry in os.scandir(folder):
            if entry.inode() in by_inode:
                self._durable[entry.path] = by_inode[entry.inode()]

    def forget(self, path: str) -> None:
        """Remove the durable content of a file, too."""
        self._durable.pop(path, None)

    def patch(self, path: str, position: int, data: bytes) -> None:
        """Change these bytes in the durable content of a file, as far as it contains them."""
        known = self._durable.get(path)
        if known is None:
            return
        durable = bytearray(known.data)
        end = min(position + len(data), len(durable))
        if position < end:
            durable[position:end] = data[: end - position]
            self._durable[path] = _DurableFile(known.inode, bytes(durable))

    def replaced(self) -> None:
        """Record that the disk was replaced with an empty one."""
        self._durable.clear()
        self._not_trusted.clear()

    def begins_life(self) -> None:
        """Trust all files again: a new process reads the existing data and syncs it again."""
        self._not_trusted.clear()

    def lose(self, *, garbage: bool) -> set[PartitionName]:
        """Apply a power failure; return the partitions whose log has changed."""
        lost = set()
        for folder, _, names in sorted(os.walk(self.folder)):
            logs = sorted(name for name in names if name.endswith(".log"))
            for name in logs:
                if self._lose_of(f"{folder}/{name}", garbage=garbage):
                    topic, _, index = os.path.basename(folder).rpartition("-")
                    if index.isdigit():
                        lost.add(PartitionName(topic, int(index)))
            for name in sorted(name for name in names if name.endswith(".txnindex")):
                self._lose_of(f"{folder}/{name}", garbage=garbage)
        self._durable = {path: data for path, data in self._durable.items() if os.path.exists(path)}
        return lost

    def _lose_of(self, path: str, *, garbage: bool) -> bool:
        with open(path, "rb") as file:
            now = file.read()
        known = self._durable.get(path)
        before = b"" if known is None else known.data
        if now == before:
            return False
        found = self._disk.after_crash(before, now, garbage=garbage)
        if found == now:
            return False
        with open(path, "wb") as file:
            file.write(found)
            self._durable[path] = _DurableFile(os.fstat(file.fileno()).st_ino, found)
        return True


def install_data_disks(find: Callable[[str], DataDisk]) -> Callable[[], None]:
    """Make the partition logs report their appends, syncs, commits and truncations; return a function to undo it."""
    owner: Any = segment
    real, append = owner._sync, owner.Segment.append
    syncs_directories: list[Any] = [checkpoint_file, partition_log]
    sync_directory = checkpoint_file.sync_directory

    def sync(path: str) -> None:
        if f"/{DATA_FOLDER}/" in path:
            find(path).synced(path)
        else:
            real(path)

    def directory_synced(path: str) -> None:
        sync_directory(path)
        if f"/{DATA_FOLDER}/" in path and os.path.isdir(path):
            find(f"{path}/").names_synced(path)

    def appended(self: Any, *arguments: Any, **options: Any) -> Any:
        position = append(self, *arguments, **options)
        if f"/{DATA_FOLDER}/" in self.directory:
            find(f"{self.directory}/").appended()
        return position

    advance = PartitionLog.maybe_advance_high_watermark

    def advanced(self: PartitionLog, offset: int) -> bool:
        before = self.high_watermark
        has_moved = advance(self, offset)
        if has_moved and f"/{DATA_FOLDER}/" in self.directory:
            find(f"{self.directory}/").on_commit(self, before)
        return has_moved

    append_batch = PartitionLog.append_batch

    def written(self: PartitionLog, batch: ProducedBatch, **options: Any) -> Any:
        info = append_batch(self, batch, **options)
        if not info.duplicate and f"/{DATA_FOLDER}/" in self.directory:
            disk = find(f"{self.directory}/")
            disk.appended_in_transaction(self, batch)
            if batch.producer_id >= 0:
                disk.on_append(self, batch)
        return info

    after_truncation = PartitionLog._after_truncation

    def truncated(self: PartitionLog) -> None:
        after_truncation(self)
        if f"/{DATA_FOLDER}/" in self.directory:
            find(f"{self.directory}/").on_truncate(self)

    def undo() -> None:
        owner._sync, owner.Segment.append = real, append
        for module in syncs_directories:
            module.sync_directory = sync_directory
        PartitionLog.maybe_advance_high_watermark = advance  # type: ignore[method-assign]
        PartitionLog._after_truncation = after_truncation  # type: ignore[method-assign]
        PartitionLog.append_batch = append_batch  # type: ignore[method-assign]

    owner._sync, owner.Segment.append = sync, appended
    for module in syncs_directories:
        module.sync_directory = directory_synced
    PartitionLog.maybe_advance_high_watermark = advanced  # type: ignore[method-assign]
    PartitionLog._after_truncation = truncated  # type: ignore[method-assign]
    PartitionLog.append_batch = written  # type: ignore[method-assign]
    return undo
