"""Measure zstd frames without decompressing them.

The library's reader reports neither that a stream was cut nor the decompressed size. Both follow from the frame
itself: each block states its size, and a block expands to at most 128 KiB.
"""

from __future__ import annotations

from typing import Final

from barnabas.protocol.errors import InvalidCompressedData

__all__ = ["measure_zstd_frame"]

_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_SKIPPABLE_MAGIC_TAIL: Final = b"\x2a\x4d\x18"
_BLOCK_SIZE_MAX: Final = 128 * 1024
_DICTIONARY_ID_SIZES: Final = (0, 1, 2, 4)
_CONTENT_SIZE_SIZES: Final = (0, 2, 4, 8)
_RAW, _RUN_LENGTH, _COMPRESSED = 0, 1, 2


def measure_zstd_frame(data: bytes | bytearray | memoryview, start: int) -> tuple[int, int]:
    """Return where the frame that begins at ``start`` ends, and the most bytes that it can expand to."""
    magic = data[start : start + 4]
    if len(magic) < 4:
        raise InvalidCompressedData("zstd data ends before its frame header")
    if magic != _MAGIC:
        if magic[0] & 0xF0 == 0x50 and magic[1:] == _SKIPPABLE_MAGIC_TAIL:
            return _skip_frame(data, start)
        raise InvalidCompressedData("zstd data does not begin with a frame")
    try:
        descriptor = data[start + 4]
        is_single_segment = descriptor & 0x20
        size_field = _CONTENT_SIZE_SIZES[descriptor >> 6] or (1 if is_single_segment else 0)
        position = start + 5 + (0 if is_single_segment else 1) + _DICTIONARY_ID_SIZES[descriptor & 3]
        content_size = int.from_bytes(data[position : position + size_field], "little")
        if size_field == 2:
            content_size += 256
        position += size_field
        size_max = 0
        is_last = 0
        while not is_last:
            header = data[position] | data[position + 1] << 8 | data[position + 2] << 16
            position += 3
            is_last, kind, size = header & 1, header >> 1 & 3, header >> 3
            if kind == _COMPRESSED:
                size_max += _BLOCK_SIZE_MAX
                position += size
            elif kind == _RAW:
                size_max += size
                position += size
            elif kind == _RUN_LENGTH:
                size_max += size
                position += 1
            else:
                raise InvalidCompressedData("a zstd block is of the reserved type")
    except IndexError:
        raise InvalidCompressedData("zstd data ends inside a frame") from None
    if descriptor & 4:
        position += 4
    if position > len(data):
        raise InvalidCompressedData("zstd data ends inside a frame")
    if content_size > size_max:
        raise InvalidCompressedData("a zstd frame claims more than its blocks can hold")
    return position, size_max


def _skip_frame(data: bytes | bytearray | memoryview, start: int) -> tuple[int, int]:
    end = start + 8 + int.from_bytes(data[start + 4 : start + 8], "little")
    if end > len(data):
        raise InvalidCompressedData("zstd data ends inside a skippable frame")
    return end, 0
