"""Functions that compiled readers and writers call outside their fast path."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from barnabas.protocol.errors import (
    BufferUnderflow,
    DecodeError,
    DecodeLimitExceeded,
    EncodeError,
    InvalidTaggedFields,
    TooManyElements,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ONE_BYTE = tuple(bytes((value,)) for value in range(128))
_STRING_LENGTH_MAX = 0x7FFF


def compact_length(value: int) -> bytes:
    """Read an unsigned varint: seven bits a byte, low first; the high bit means that more bytes follow."""
    if value < 128:
        return ONE_BYTE[value]
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def compact_string_length(value: int) -> bytes:
    if value - 1 > _STRING_LENGTH_MAX:
        raise EncodeError(f"a string of {value - 1} bytes is too long; at most {_STRING_LENGTH_MAX} fit")
    return compact_length(value)


def read_unsigned_varint(buffer: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """Read a 32-bit varint as Kafka does: overlong forms are accepted, with bit 31 it is negative."""
    value = shift = 0
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 28:
            raise DecodeError("a varint is longer than five bytes")
    value &= 0xFFFFFFFF
    return (value - 0x100000000 if value > 0x7FFFFFFF else value), position


def write_tagged_fields(known: Sequence[tuple[int, bytes]], unknown: Iterable[tuple[int, bytes]] | None) -> bytes:
    """Write known and unknown fields in one section. The tags of each must ascend; the section's do, too."""
    tags = _merged(known, list(unknown)) if unknown else known
    out = [compact_length(len(tags))]
    for tag, data in tags:
        out += (compact_length(tag), compact_length(len(data)), data)
    return b"".join(out)


def _merged(known: Sequence[tuple[int, bytes]], unknown: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    if any(left[0] >= right[0] for left, right in pairwise(unknown)):
        raise EncodeError(f"unknown tags must ascend; got {[tag for tag, _ in unknown]}")
    tags = sorted([*known, *unknown], key=lambda tag: tag[0])
    previous = -1
    for tag, _ in tags:
        if tag <= previous:
            raise EncodeError(f"tag {tag} appears more than once")
        previous = tag
    return tags


def underflow(what: str) -> DecodeError:
    return BufferUnderflow(f"{what}: the buffer ends before the value does")


def null_not_allowed(field: str) -> DecodeError:
    return DecodeError(f"{field} is null, which is not allowed")


def too_long(field: str, length: int) -> DecodeError:
    return DecodeError(f"{field} has {length - 1} bytes; at most {_STRING_LENGTH_MAX} are allowed")


def too_many_elements(limit: int) -> DecodeError:
    return TooManyElements(f"it has more than the {limit} array elements and tagged fields that are accepted")


def too_many_tags(count: int, limit: int) -> DecodeError:
    return DecodeLimitExceeded(f"a structure has {count} tagged fields; at most {limit} are accepted")


def skip_tagged_fields(buffer: bytes | bytearray | memoryview, position: int, count_max: int) -> int:
    """Return the position after a section of tagged fields. Raises DecodeError, or IndexError at the buffer's end."""
    if not buffer[position]:
        return position + 1
    count, position = read_unsigned_varint(buffer, position)
    if count > count_max:
        raise too_many_tags(count, count_max)
    for _ in range(count):
        _, position = read_unsigned_varint(buffer, position)
        size, position = read_unsigned_varint(buffer, position)
        if not 0 <= size <= len(buffer) - position:
            raise underflow("tagged field")
        position += size
    return position


def wrong_tag(tag: int, version: int) -> DecodeError:
    return InvalidTaggedFields(f"tag {tag} belongs to a field that version {version} does not have")


def unsupported_field(struct: str, field: str, version: int) -> EncodeError:
    return EncodeError(f"{struct}.{field} is set, but version {version} cannot carry it")


def misuse(message: object, error: Exception) -> EncodeError:
    if isinstance(error, EncodeError):
        return error
    return EncodeError(f"{type(message).__name__} has a value that cannot be encoded: {error}")
