"""``.timeindex``: the greatest timestamp so far -> the last offset of the batch that has it.

No batch up to the offset of an entry has a greater timestamp. Timestamps grow strictly, 64 bits, offsets are
relative to the segment's base offset, 32 bits. The last entry of a segment that is no longer written to has the
segment's greatest timestamp: retention needs only that one.
"""

from __future__ import annotations

import os
from struct import Struct

from barnabas.storage.errors import CorruptIndexError
from barnabas.storage.file_io import naming
from barnabas.storage.index_file import IndexFile

__all__ = ["NO_TIMESTAMP", "TimeIndex"]

_ENTRY = Struct(">qi")
_unpack = _ENTRY.unpack_from

NO_TIMESTAMP = -1


class TimeIndex(IndexFile):
    __slots__ = ()

    ENTRY_SIZE = 12

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry unless the last one already covers the timestamp."""
        if timestamp > self.last_entry[0]:
            self.entries.extend(_ENTRY.pack(timestamp, offset - self.base_offset))
            self._is_dirty = True

    @property
    def last_entry(self) -> tuple[int, int]:
        """Return the greatest timestamp and its offset; (-1, base offset) of an empty index.

        Retention calls this for every segment: of an unloaded file only the end is read.
        """
        entries = self.entries if self.is_loaded else self._read_end()
        if not entries:
            return NO_TIMESTAMP, self.base_offset
        timestamp, relative_offset = _unpack(entries, len(entries) - 12)
        return timestamp, self.base_offset + relative_offset

    def _read_end(self) -> bytes | bytearray:
        """Read the last entry from the file, or all of them if the end looks preallocated or truncated."""
        try:
            with naming(self.path), open(self.path, "rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(size - self.ENTRY_SIZE, 0))
                end = file.read(self.ENTRY_SIZE)
        except FileNotFoundError:
            return b""
        return end if size % self.ENTRY_SIZE == 0 and any(end) else self.entries

    def lookup(self, timestamp: int) -> int:
        """Return an offset at or before the first batch that may hold ``timestamp`` or later."""
        entries = self.entries
        low, high = 0, len(entries) // 12
        while low < high:
            middle = (low + high) // 2
            if _unpack(entries, middle * 12)[0] <= timestamp:
                low = middle + 1
            else:
                high = middle
        return self.base_offset + int(_unpack(entries, (low - 1) * 12)[1]) if low else self.base_offset

    def truncate_to_offset(self, offset: int) -> None:
        """Drop the entries whose offset is ``offset`` or after it."""
        entries = self.entries
        count = len(entries) // 12
        while count and _unpack(entries, (count - 1) * 12)[1] >= offset - self.base_offset:
            count -= 1
        self._cut(count)

    def sanity_check(self) -> None:
        last_timestamp, last_offset = NO_TIMESTAMP, -1
        for timestamp, offset in _ENTRY.iter_unpack(self.entries):
            if timestamp <= last_timestamp or offset < last_offset or offset < 0:
                raise CorruptIndexError(
                    self.path, f"entry ({timestamp}, {offset}) after ({last_timestamp}, {last_offset})"
                )
            last_timestamp, last_offset = timestamp, offset
