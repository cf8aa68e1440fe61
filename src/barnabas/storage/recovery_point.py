"""``recovery-point``: the offset up to which the metadata log was flushed, and the machine's boot id then.

The offset is a lower bound that recovery may rely on: a log that ends before it, or cannot be read before it, has lost
durable records. The file is written after each flush, and synced at most once per second: an older version of it is
a lower bound, too. Only a truncation lowers it, and syncs it before the log is truncated.

The boot id shows whether the machine has restarted since. If it has not, everything written still exists, flushed or
not. If it has, anything above the recovery point may be torn in any order.

Kafka ignores this file.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Lock
from time import monotonic

from barnabas.common.crc32c import crc32c
from barnabas.storage.file_io import naming, pwrite_all
from barnabas.storage.file_permissions import FILE_MODE

__all__ = ["RECOVERY_POINT", "UNKNOWN_BOOT", "RecoveryPoint", "boot_id"]

RECOVERY_POINT = "recovery-point"
VERSION = "0"
SYNC_INTERVAL_S = 1.0
_BOOT_ID_PATH = "/proc/sys/kernel/random/boot_id"
UNKNOWN_BOOT = "-"


def boot_id() -> str:
    """Return the machine's boot id; ``-`` if the system does not have one."""
    try:
        with open(_BOOT_ID_PATH, encoding="ascii") as file:
            return file.read().strip() or UNKNOWN_BOOT
    except OSError:
        return UNKNOWN_BOOT


class RecoveryPoint:
    """The file of one log directory. ``advance`` may be called on any thread."""

    def __init__(self, directory: str, *, boot: str | None = None, now_s: Callable[[], float] = monotonic) -> None:
        self.path = f"{directory}/{RECOVERY_POINT}"
        self.offset: int | None = None
        """None if the file is missing or unreadable."""
        self.is_after_restart = False
        """Whether the machine has certainly restarted since the file was written."""
        self.problem: str | None = None
        self._boot = self._stored_boot = boot_id() if boot is None else boot
        self._now_s = now_s
        self._lock = Lock()
        self._generation = 0
        self._synced_s = -SYNC_INTERVAL_S
        self._read()

    @property
    def generation(self) -> int:
        """Changes with each truncation: a flush that began before it must not advance the recovery point after it."""
        return self._generation

    def advance(self, end_offset: int, generation: int) -> None:
        """Record that everything below ``end_offset`` is durable, unless the log was truncated since ``generation``."""
        with self._lock:
            if generation != self._generation or end_offset <= (-1 if self.offset is None else self.offset):
                return
            now_s = self._now_s()
            is_sync_due = now_s - self._synced_s >= SYNC_INTERVAL_S
            self._write(end_offset, sync=is_sync_due)
            if is_sync_due:
                self._synced_s = now_s

    def lower(self, end_offset: int) -> None:
        """Record that the log is about to be truncated to ``end_offset``. Durable when this returns."""
        with self._lock:
            self._generation += 1
            if self.offset is not None and self.offset > end_offset:
                self._write(end_offset, sync=True)

    def renew(self, end_offset: int) -> None:
        """Record after opening the log that everything below ``end_offset`` is durable, with the current boot id."""
        with self._lock:
            if self.offset != end_offset or self._stored_boot != self._boot:
                self._stored_boot = self._boot
                self._write(end_offset, sync=True)
                self.is_after_restart = False

    def sync(self) -> None:
        """Make the newest version durable."""
        with self._lock:
            if self.offset is not None:
                self._write(self.offset, sync=True)

    def _write(self, end_offset: int, *, sync: bool) -> None:
        text = f"{VERSION} {self._stored_boot} {end_offset:020d}"
        data = f"{text} {crc32c(text.encode()):08x}\n".encode()
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            with naming(self.path):
                pwrite_all(fd, data, 0)
                if os.fstat(fd).st_size != len(data):
                    os.ftruncate(fd, len(data))
                if sync:
                    os.fsync(fd)
        finally:
            os.close(fd)
        self.offset = end_offset

    def _read(self) -> None:
        try:
            with open(self.path, "rb") as file:
                data = file.read(200)
        except FileNotFoundError:
            return
        except OSError as error:
            self.problem = f"{self.path}: {error.strerror}"
            return
        text, _, checksum = data.rstrip(b"\n").rpartition(b" ")
        words = text.split(b" ")
        if len(words) != 3 or words[0] != VERSION.encode() or checksum != b"%08x" % crc32c(text):
            self.problem = f"{self.path}: not a recovery point: {data[:60]!r}"
            return
        self.offset = int(words[2])
        self._stored_boot = words[1].decode("ascii", "replace")
        is_known = UNKNOWN_BOOT not in (self._stored_boot, self._boot)
        self.is_after_restart = is_known and self._stored_boot != self._boot
