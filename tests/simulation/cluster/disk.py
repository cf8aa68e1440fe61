"""The disk of one node: real files whose unflushed part may be lost, torn or corrupted when the node dies.

The product's own ``MetadataLog`` writes into a folder in memory. Bytes are durable if they were written before the
beginning of a flush that completed. After a crash, bytes written later are complete, incomplete, mixed with old
sectors, or garbage. The product must not read more of them than the checksums confirm.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from barnabas.raft.ready import AppendedBatch
from barnabas.raft.replica_key import OffsetAndEpoch
from barnabas.storage.errors import StorageError
from barnabas.storage.metadata_log import METADATA_LOG_DIRECTORY, MetadataLog, PendingFlush
from barnabas.storage.recovery_point import RECOVERY_POINT, SYNC_INTERVAL_S, RecoveryPoint
from barnabas.storage.snapshot_file import DELETED_SUFFIX

__all__ = ["Disk", "Kept", "SimulatedLog"]

SECTOR = 512
READ_BYTES = 1 << 14
INDEXES = (".index", ".timeindex")


@dataclass(frozen=True, slots=True)
class Kept:
    """The durable content of a disk's metadata log, now or when the disk was lost."""

    directory: str
    files: tuple[bytes, ...]
    snapshot_end: int

    def has(self, data: bytes, last_offset: int) -> bool:
        return self.snapshot_end > last_offset or any(data in file for file in self.files)


class Disk:
    def __init__(self, folder: str, draw: random.Random) -> None:
        self.folder = folder
        self.log_folder = f"{folder}/{METADATA_LOG_DIRECTORY}"
        self.is_full = False
        self.fails_to_flush = False
        self.durable: dict[str, bytes] = {}
        """The durable content of each file of the log that was ever flushed."""
        self.indexes: dict[str, list[bytes]] = {}
        """The content of each index file at each flush. Indexes are not synced: a power loss may leave any version."""
        self.durable_end = 0
        """The durable end of the log, as last reported, reduced by later truncations."""
        self.boot = 1
        """The number of the machine's run, which increases at each power loss."""
        self.now_s: Callable[[], float] = lambda: 0.0
        self.points: list[tuple[float, bytes]] = []
        """The versions of the recovery point with their times. A power loss may leave any of the last second."""
        self.corrupt_snapshots: dict[str, bytes] = {}
        """Name to content of each corrupt snapshot. A valid one may be fetched under the same name."""
        self.dies_at_next_write: Callable[[], None] | None = None
        self.on_write: Callable[[bytes], None] = lambda data: None
        self.on_truncate: Callable[[int], None] = lambda end_offset: None
        self.on_restart: Callable[[OffsetAndEpoch], None] = lambda snapshot_id: None
        self._not_trusted: set[str] = set()
        """Files whose sync failed. The system has dropped their data, so a later sync does not make it durable."""
        self._draw = draw

    def newest_snapshot_end(self) -> int:
        """Return the end of the newest valid snapshot. Snapshots are durable as soon as they have their final name."""
        found = (name for name in os.listdir(self.log_folder) if name.endswith(".checkpoint"))
        names = (name for name in found if not self._is_corrupt(name))
        return max((int(name[:20]) for name in names), default=0)

    def _is_corrupt(self, name: str) -> bool:
        corrupt = self.corrupt_snapshots.get(name)
        if corrupt is None:
            return False
        with open(f"{self.log_folder}/{name}", "rb") as file:
            return file.read() == corrupt

    def kept(self, directory: str) -> Kept:
        """Return the content that would survive the loss of everything that is not durable."""
        return Kept(directory, tuple(self.durable.values()), self.newest_snapshot_end())

    def replace(self) -> None:
        """Replace the disk with an empty one."""
        self.durable.clear()
        self.indexes.clear()
        self.points.clear()
        self.corrupt_snapshots.clear()
        self.durable_end = 0
        self.is_full = self.fails_to_flush = False
        self.dies_at_next_write = None

    # --- what a flush does

    def take(self, paths: list[str]) -> dict[str, bytes]:
        taken = {}
        for path in paths:
            with suppress(FileNotFoundError):
                taken[path] = _content(path)
        return taken

    def make_durable(self, taken: dict[str, bytes]) -> None:
        if self.fails_to_flush:
            raise OSError(errno.EIO, "the simulated disk fails")
        for path, data in taken.items():
            if os.path.exists(path) and path not in self._not_trusted:
                self.durable[path] = data
        for entry in os.scandir(self.log_folder):
            if entry.name.endswith(INDEXES):
                self._remember_index(entry.path)

    def begins_life(self) -> None:
        """Trust all files again: a new process reads the existing data and syncs it again."""
        self._not_trusted.clear()

    def sync_failed(self, path: str) -> None:
        self._not_trusted.add(path)

    def trusts(self, paths: Iterable[str]) -> bool:
        return self._not_trusted.isdisjoint(paths)

    def remember_point(self, *, is_synced: bool = False) -> None:
        if is_synced:
            self.points.clear()
        with suppress(FileNotFoundError):
            self.points.append((self.now_s(), _content(f"{self.log_folder}/{RECOVERY_POINT}")))

    def _lose_point(self) -> None:
        """Leave one version of the recovery point: it is synced only once per second."""
        since = [data for at_s, data in self.points if at_s > self.now_s() - SYNC_INTERVAL_S]
        before = [data for at_s, data in self.points if at_s <= self.now_s() - SYNC_INTERVAL_S]
        found = self._draw.choice([*before[-1:], *since]) if self.points else b""
        if found:
            with open(f"{self.log_folder}/{RECOVERY_POINT}", "wb") as file:
                file.write(found)
            self.points = [(self.now_s(), found)]

    def _remember_index(self, path: str) -> None:
        data = _content(path)
        versions = self.indexes.setdefault(path, [])
        if not versions or versions[-1] != data:
            versions.append(data)

    # --- what a crash does

    def lose(self, *, is_power_loss: bool, garbage: bool) -> list[str]:
        """Change the files to what a new process finds; return a description of each loss.

        A killed process keeps all written data; only a power failure loses some.
        """
        losses = []
        if not os.path.isdir(self.log_folder):
            return losses
        if is_power_loss:
            self.boot += 1
            self._lose_point()
        for entry in sorted(os.scandir(self.log_folder), key=lambda entry: entry.name):
            if entry.name.endswith(".part"):
                if self._draw.random() < 0.5:
                    os.unlink(entry.path)
            elif is_power_loss and entry.name.endswith(".log"):
                losses += self._lose_of(entry.path, garbage=garbage)
            elif is_power_loss and entry.name == "leader-epoch-checkpoint":
                self._lose_of(entry.path, garbage=False)
            elif is_power_loss and garbage and entry.name.endswith(INDEXES):
                losses += self._spoil(entry.path)
            elif is_power_loss and entry.name.endswith(DELETED_SUFFIX) and self._draw.random() < 0.3:
                # Its new name was not durable yet.
                os.rename(entry.path, entry.path.removesuffix(DELETED_SUFFIX))
                losses.append(f"{entry.name} has its old name again")
        self.durable = {path: data for path, data in self.durable.items() if os.path.exists(path)}
        return losses

    def _spoil(self, path: str) -> list[str]:
        """Damage an index: it is written without a sync, so it may be old, or lack its end or a sector."""
        kind = self._draw.random()
        if kind < 0.3:
            return []
        with open(path, "rb") as file:
            data = bytearray(file.read())
        if kind < 0.7 and path in self.indexes:
            data = bytearray(self._draw.choice(self.indexes[path]))
        if not data:
            return []
        at = self._draw.randrange(len(data))
        if kind > 0.85:
            del data[at:]
        elif kind > 0.7:
            data[at : at + SECTOR] = bytes(len(data[at : at + SECTOR]))
        with open(path, "wb") as file:
            file.write(data)
        return [f"{os.path.basename(path)} is old or corrupt"]

    def _lose_of(self, path: str, *, garbage: bool) -> list[str]:
        with open(path, "rb") as file:
            now = file.read()
        before = self.durable.get(path, b"")
        if now == before:
            return []
        found = self.after_crash(before, now, garbage=garbage)
        if found == now:
            return []
        with open(path, "wb") as file:
            file.write(found)
        self.durable[path] = found
        return [f"{os.path.basename(path)}: {len(before)} bytes were durable, {len(now)} written, {len(found)} found"]

    def after_crash(self, before: bytes, now: bytes, *, garbage: bool) -> bytes:
        draw = self._draw
        kind = draw.random()
        if kind < 0.3:
            return before
        if not now.startswith(before):
            # The file was truncated and written again: each sector is the old one or the new one.
            return before if kind < 0.6 else _mixed(before, now, draw)
        if kind < 0.5:
            return now
        cut = draw.randrange(len(before), len(now) + 1)
        if not garbage or kind < 0.7:
            return now[:cut]
        tail = bytearray(now[len(before) :])
        for _ in range(draw.randrange(1, 4)):
            at = draw.randrange(len(tail))
            if draw.random() < 0.5:
                # Change several bytes, not one bit: Kafka's checksum does not cover the leader epoch of a batch.
                tail[at : at + 16] = draw.randbytes(len(tail[at : at + 16]))
            else:
                tail[at : at + SECTOR] = bytes(len(tail[at : at + SECTOR]))
        return before + bytes(tail)


def _content(path: str) -> bytes:
    """Read a small file, in less time than with a file object."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        parts = [os.read(descriptor, READ_BYTES)]
        while len(parts[-1]) == READ_BYTES:
            parts.append(os.read(descriptor, READ_BYTES))
        return b"".join(parts)
    finally:
        os.close(descriptor)


def _mixed(before: bytes, now: bytes, draw: random.Random) -> bytes:
    size = max(len(before), len(now))
    sectors = []
    for at in range(0, size, SECTOR):
        source = draw.choice((before, now))
        sectors.append(source[at : at + SECTOR])
    return b"".join(sectors)


class _Flush(PendingFlush):
    __slots__ = ("_disk", "_taken", "durable_end")

    def __init__(
        self, disk: Disk, end_offset: int, paths: list[str], directory: str | None, point: RecoveryPoint
    ) -> None:
        super().__init__(end_offset, paths, directory, point)
        self._disk = disk
        self._taken = disk.take(paths)
        self.durable_end = end_offset
        """Reduced if the log is truncated below it while the flush runs."""

    def run(self) -> None:
        if self._disk.fails_to_flush:
            raise OSError(errno.EIO, "the simulated disk fails")
        super().run()
        self._disk.make_durable(self._taken)
        self._disk.remember_point()
        if self._disk.trusts(self._taken):
            self._disk.durable_end = max(self._disk.durable_end, self.durable_end)


class SimulatedLog(MetadataLog):
    """The product's log on a disk that may be full, and that remembers what was flushed."""

    def __init__(self, disk: Disk, *, segment_bytes: int, segment_ms: int, now_ms: int) -> None:
        self.disk = disk
        self._flush_under_way: _Flush | None = None
        super().__init__(
            disk.folder,
            segment_bytes=segment_bytes,
            segment_ms=segment_ms,
            now_ms=now_ms,
            boot=f"boot-{disk.boot}",
            now_s=disk.now_s,
        )
        disk.remember_point(is_synced=True)

    def append(self, batch: AppendedBatch) -> None:
        if self.disk.is_full:
            raise StorageError("the simulated disk is full")
        self.disk.on_write(bytes(batch.data))
        super().append(batch)
        dying, self.disk.dies_at_next_write = self.disk.dies_at_next_write, None
        if dying is not None:
            dying()

    def truncate_to(self, end_offset: int) -> None:
        # The call may fail after it has truncated the file.
        self.disk.durable_end = min(self.disk.durable_end, end_offset)
        super().truncate_to(end_offset)
        self.disk.remember_point(is_synced=True)
        self._cut_flush(end_offset)
        self.disk.on_truncate(end_offset)

    def restart_at(self, snapshot_id: OffsetAndEpoch) -> None:
        super().restart_at(snapshot_id)
        self.disk.remember_point(is_synced=True)
        self.disk.durable_end = snapshot_id.offset
        self._cut_flush(snapshot_id.offset)
        self.disk.on_restart(snapshot_id)

    def start_flush(self) -> PendingFlush:
        paths, self._unflushed = self._unflushed, []
        directory = self.directory if self._is_directory_dirty else None
        self._is_directory_dirty = False
        self._flush_under_way = _Flush(self.disk, self.end_offset, paths, directory, self._point)
        return self._flush_under_way

    def _cut_flush(self, end_offset: int) -> None:
        if self._flush_under_way is not None:
            self._flush_under_way.durable_end = min(self._flush_under_way.durable_end, end_offset)

    def release(self) -> None:
        """Close all files, as the end of the process does."""
        self._pool.close_all()
