"""Variable-length integers: seven bits a byte, low bits first; the high bit means that more bytes follow.

Unsigned ones hold lengths, counts and tags; the zig-zag ones (small numbers of either sign stay short) hold the
fields of records. As in Kafka an overlong form is accepted, bits beyond the width are dropped, and a form of more than
5 (10) bytes is refused.
"""

from __future__ import annotations

from typing import Protocol

from barnabas.protocol.errors import BufferUnderflow, InvalidVarint

__all__ = [
    "Indexable",
    "read_uvarint",
    "read_varint",
    "read_varlong",
    "size_of_varint",
    "write_uvarint",
    "write_varint",
    "write_varlong",
    "zigzag",
]

_MASK_32 = 0xFFFFFFFF
_MASK_64 = 0xFFFFFFFFFFFFFFFF
_VARLONG_SHIFT_MAX = 63


class Indexable(Protocol):
    """A buffer for the readers: bytes, bytearray, memoryview or mmap."""

    def __getitem__(self, index: int, /) -> int: ...


def read_uvarint(buf: Indexable, position: int) -> tuple[int, int]:
    """Return the unsigned 32-bit value at ``position`` and the position after it."""
    try:
        byte = buf[position]
        position += 1
        if byte < 0x80:
            return byte, position
        value = byte & 0x7F
        for shift in (7, 14, 21, 28):
            byte = buf[position]
            position += 1
            if byte < 0x80:
                return (value | byte << shift) & _MASK_32, position
            value |= (byte & 0x7F) << shift
    except IndexError:
        raise BufferUnderflow("the buffer ends inside a varint") from None
    raise InvalidVarint("a varint is longer than 5 bytes")


def read_varint(buf: Indexable, position: int) -> tuple[int, int]:
    """Return the signed (zig-zag) 32-bit value at ``position`` and the position after it."""
    value, position = read_uvarint(buf, position)
    return (value >> 1) ^ -(value & 1), position


def read_varlong(buf: Indexable, position: int) -> tuple[int, int]:
    """Return the signed (zig-zag) 64-bit value at ``position`` and the position after it."""
    value = shift = 0
    try:
        while shift <= _VARLONG_SHIFT_MAX:
            byte = buf[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                value &= _MASK_64
                return (value >> 1) ^ -(value & 1), position
            shift += 7
    except IndexError:
        raise BufferUnderflow("the buffer ends inside a varlong") from None
    raise InvalidVarint("a varlong is longer than 10 bytes")


def write_uvarint(value: int) -> bytes:
    """Return the bytes of an unsigned value; a negative one is written as its 32-bit two's complement."""
    if 0 <= value < 0x80:
        return _ONE_BYTE[value]
    value &= _MASK_32
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_varint(value: int) -> bytes:
    """Return the zig-zag bytes of a signed 32-bit value."""
    return write_uvarint((value << 1 ^ value >> 31) & _MASK_32)


def write_varlong(value: int) -> bytes:
    """Return the zig-zag bytes of a signed 64-bit value."""
    value = zigzag(value)
    if value < 0x80:
        return _ONE_BYTE[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def zigzag(value: int) -> int:
    """Return the unsigned form of a signed 64-bit number: 0, -1, 1, -2 become 0, 1, 2, 3."""
    return (value << 1 ^ value >> 63) & _MASK_64


def size_of_varint(value: int) -> int:
    """Return how many bytes ``write_varint`` or ``write_varlong`` needs."""
    return (zigzag(value).bit_length() + 6) // 7 or 1


_ONE_BYTE = tuple(bytes((value,)) for value in range(0x80))
