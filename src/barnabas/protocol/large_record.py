"""Walk one large record of a compressed batch while it is being decompressed, without holding it.

A few kilobytes can expand to a record of many megabytes. Key and value are skipped piece by piece: at most one piece
and the few bytes of a field's length are held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.protocol.errors import BufferUnderflow, InvalidRecordError
from barnabas.protocol.varint import read_varint, read_varlong

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["RecordStream"]

_FIELD_MAX = 10
"""Bytes of the longest variable-length number."""


class RecordStream:
    """Bytes in pieces, read from the front."""

    def __init__(self, first: bytes, more: Iterator[bytes]) -> None:
        self._data = first
        self._position = 0
        self._more = more
        self.consumed = 0
        self.received = 0
        """Bytes taken from ``more``."""

    @property
    def rest(self) -> bytes:
        return self._data[self._position :]

    def varint(self) -> int:
        return self._number(read_varint)

    def varlong(self) -> int:
        return self._number(read_varlong)

    def skip(self, count: int) -> None:
        self.consumed += count
        while count > len(self._data) - self._position:
            count -= len(self._data) - self._position
            self._position = len(self._data)
            if not self._receive():
                raise InvalidRecordError("Found invalid record structure: a field ends after its record")
        self._position += count

    def _number(self, read: Callable[[bytes, int], tuple[int, int]]) -> int:
        while len(self._data) - self._position < _FIELD_MAX and self._receive():
            pass
        try:
            value, end = read(self._data, self._position)
        except (BufferUnderflow, IndexError):
            raise InvalidRecordError("Found invalid record structure: a field ends after its record") from None
        self.consumed += end - self._position
        self._position = end
        return value

    def _receive(self) -> bool:
        piece = next(self._more, None)
        if piece is None:
            return False
        self.received += len(piece)
        self._data = self.rest + piece
        self._position = 0
        return True
