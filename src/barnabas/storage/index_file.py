"""The base of the offset index and the time index: a sorted array of fixed-size entries beside a segment.

An index is derived data, so it is written when its segment is flushed, rolled or closed, and not entry by entry: a
process that is killed finds the segment unflushed and rebuilds the index while it recovers it. Entries of the active
segment stay in memory; those of an older segment are read from the file when they are needed and may be dropped.

Kafka preallocates these files and trims them on close, so a file that was left open ends in zeros, which are not
entries.
"""

from __future__ import annotations

import os

from barnabas.storage.errors import CorruptIndexError
from barnabas.storage.file_io import naming, pwrite_all
from barnabas.storage.file_permissions import FILE_MODE

__all__ = ["IndexFile"]


class IndexFile:
    __slots__ = ("_entries", "_is_dirty", "_written", "base_offset", "path")

    ENTRY_SIZE = 0

    def __init__(self, path: str, base_offset: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self._entries: bytearray | None = None
        self._is_dirty = False
        self._written = 0  # The number of bytes that the file is known to hold.

    @property
    def entries(self) -> bytearray:
        """Return the raw entries, read from the file on first use. A missing file has none."""
        if self._entries is None:
            self._entries = self._read()
        return self._entries

    @property
    def count(self) -> int:
        return len(self.entries) // self.ENTRY_SIZE

    @property
    def is_loaded(self) -> bool:
        return self._entries is not None

    def sanity_check(self) -> None:
        """Raise CorruptIndexError if the entries are not in order."""
        raise NotImplementedError

    def write(self) -> None:
        """Write the entries to the file, which exists afterwards. A crash in between leaves a file that fails the
        sanity check or ends early; recovery of the segment, which is then unflushed, detects both."""
        entries = self.entries
        if not self._is_dirty:
            return
        written = self._written
        # A copy: an exception keeps the locals of its frames, and a bytearray with a live view cannot grow.
        tail = bytes(memoryview(entries)[written:])
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            with naming(self.path):
                pwrite_all(fd, tail, written)
                os.ftruncate(fd, len(entries))
        finally:
            os.close(fd)
        self._written = len(entries)
        self._is_dirty = False

    def release(self) -> None:
        """Drop entries from memory that the file has too."""
        if not self._is_dirty:
            self._entries = None
            self._written = 0

    def clear(self) -> None:
        self._entries = bytearray()
        self._written = 0
        self._is_dirty = True

    def _cut(self, count: int) -> None:
        if count < self.count:
            del self.entries[count * self.ENTRY_SIZE :]
            self._written = min(self._written, count * self.ENTRY_SIZE)
            self._is_dirty = True

    def _read(self) -> bytearray:
        data = self._read_file()
        if data is None:
            self._is_dirty = True
            return bytearray()
        size = len(data.rstrip(b"\0"))
        size += -size % self.ENTRY_SIZE
        if size > len(data):
            raise CorruptIndexError(self.path, f"its size {len(data)} is not a multiple of {self.ENTRY_SIZE}")
        self._written = size
        if size < len(data):
            self._is_dirty = True
        return bytearray(memoryview(data)[:size])

    def _read_file(self) -> bytes | None:
        """Read the file again if the cleaner's thread renamed it meanwhile: another index may now have the old name."""
        while True:
            path = self.path
            try:
                with naming(path), open(path, "rb") as file:
                    data = file.read()
            except FileNotFoundError:
                data = None
            if self.path == path:
                return data
