"""``.index``: offset -> position in the segment, one entry about every ``index.interval.bytes``.

An entry is the last offset of a batch, relative to the segment's base offset, and the position where that batch
starts, both 32 bits. Positions and offsets grow strictly; no entry points at position 0, where a segment starts anyway.
"""

from __future__ import annotations

from struct import Struct

from barnabas.storage.errors import CorruptIndexError
from barnabas.storage.index_file import IndexFile

__all__ = ["OffsetIndex"]

_ENTRY = Struct(">ii")
_unpack = _ENTRY.unpack_from


class OffsetIndex(IndexFile):
    __slots__ = ()

    ENTRY_SIZE = 8

    def append(self, offset: int, position: int) -> None:
        self.entries.extend(_ENTRY.pack(offset - self.base_offset, position))
        self._is_dirty = True

    def lookup(self, offset: int) -> int:
        """Return the position of the last indexed batch whose last offset is at most ``offset``; 0 without one."""
        return self.entry_before(offset)[1]

    def entry_before(self, offset: int) -> tuple[int, int]:
        """Return the last offset and the position of that batch; (-1, 0) without one."""
        slot = self._slot_before(offset - self.base_offset + 1)
        if slot < 0:
            return -1, 0
        relative_offset, position = _unpack(self.entries, slot * 8)
        return self.base_offset + int(relative_offset), int(position)

    def offset_after(self, position: int) -> int | None:
        """Return an offset above all batches before ``position``, from the first entry at or after it."""
        slot = self._first_at(position)
        return self.base_offset + int(_unpack(self.entries, slot * 8)[0]) + 1 if slot < self.count else None

    @property
    def last_offset(self) -> int:
        """Return the last indexed offset, or the base offset of an empty index."""
        entries = self.entries
        return self.base_offset + int(_unpack(entries, len(entries) - 8)[0]) if entries else self.base_offset

    def truncate_to_position(self, position: int) -> None:
        """Drop the entries of batches that start at ``position`` or after it."""
        self._cut(self._first_at(position))

    def _first_at(self, position: int) -> int:
        entries = self.entries
        low, high = 0, len(entries) // 8
        while low < high:
            middle = (low + high) // 2
            if _unpack(entries, middle * 8)[1] < position:
                low = middle + 1
            else:
                high = middle
        return low

    def sanity_check(self) -> None:
        last_offset, last_position = -1, 0
        for offset, position in _ENTRY.iter_unpack(self.entries):
            if offset <= last_offset or position <= last_position:
                raise CorruptIndexError(
                    self.path, f"entry ({offset}, {position}) after ({last_offset}, {last_position})"
                )
            last_offset, last_position = offset, position

    def _slot_before(self, relative_offset: int) -> int:
        """Return the last entry below ``relative_offset``, or -1."""
        entries = self.entries
        low, high = 0, len(entries) // 8
        while low < high:
            middle = (low + high) // 2
            if _unpack(entries, middle * 8)[0] < relative_offset:
                low = middle + 1
            else:
                high = middle
        return low - 1
