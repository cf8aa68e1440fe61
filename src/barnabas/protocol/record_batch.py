"""Read record batches of format 2, the only one that is stored and sent.

A batch is 61 bytes of header and its records, which may be compressed together. The base offset and the leader epoch
are not part of the checksum, so that a leader sets them in place and passes the batch on unopened.

Creating a view of a batch only unpacks its header; the checksum is computed only by ``ensure_valid`` and the records
are read only by ``records``. Invalid bytes raise only DecodeError. Harmless deviations that Kafka's reader accepts are
accepted here too: a key length below -1 is null, unknown attribute bits are kept, and a batch whose count is 0 is not
opened. The rules for producers are narrower: see ``produce_validation``.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from barnabas.common.crc32c import crc32c
from barnabas.protocol.compression import DECOMPRESSED_SIZE_MAX, Compression, decompress
from barnabas.protocol.errors import (
    BufferUnderflow,
    CorruptRecordError,
    InvalidRecordError,
    InvalidVarint,
    UnsupportedCompression,
    UnsupportedMagic,
)
from barnabas.protocol.utf8 import decode_utf8
from barnabas.protocol.varint import read_varint, read_varlong

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "ATTRIBUTE_CONTROL",
    "ATTRIBUTE_DELETE_HORIZON",
    "ATTRIBUTE_LOG_APPEND_TIME",
    "ATTRIBUTE_TRANSACTIONAL",
    "BATCH_HEADER",
    "BATCH_HEADER_SIZE",
    "BATCH_LENGTH_OFFSET",
    "COMPRESSION_MASK",
    "CRC_START",
    "LOG_OVERHEAD",
    "MAGIC",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "BatchView",
    "CorruptRecordError",
    "Header",
    "Record",
    "TimestampType",
    "UnsupportedMagic",
    "increment_sequence",
    "iter_batches",
    "parse_records",
    "set_max_timestamp",
]

BATCH_HEADER: Final = Struct(">qiibIhiqqqhii")
"""base offset, length, leader epoch, magic, crc, attributes, last offset delta, base timestamp, max timestamp,
producer id, producer epoch, base sequence, count."""

BATCH_HEADER_SIZE: Final = 61
BATCH_LENGTH_OFFSET: Final = 8
LOG_OVERHEAD: Final = 12
"""Base offset and length: the bytes that the length does not count."""
CRC_START: Final = 21
"""The position of the attributes: the checksum covers everything from here to the end."""
MAGIC: Final = 2

COMPRESSION_MASK: Final = 0x07
ATTRIBUTE_LOG_APPEND_TIME: Final = 0x08
ATTRIBUTE_TRANSACTIONAL: Final = 0x10
ATTRIBUTE_CONTROL: Final = 0x20
ATTRIBUTE_DELETE_HORIZON: Final = 0x40

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1

_LEGACY_OVERHEAD = 14  # The smallest length that any format has.
_MAGIC_OFFSET = 16
_LENGTH_MAX = 0x7FFFFFFF - LOG_OVERHEAD
_COMPRESSION_MAX = 4
_FAR = 1 << 62  # Beyond it adding a delta may exceed 64 bits, where Kafka wraps around.

_LENGTH = Struct(">i")
_OFFSET = Struct(">q")
_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")
_CRC_OFFSET, _ATTRIBUTES_OFFSET, _MAX_TIMESTAMP_OFFSET = 17, 21, 35

_ZIGZAG: Final = tuple((value >> 1) ^ -(value & 1) for value in range(0x80))
"""The signed value of each one-byte varint."""


class TimestampType(IntEnum):
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


Header: TypeAlias = tuple[str, bytes | None]


class Record(NamedTuple):
    """One record with its absolute offset and timestamp."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class BatchView:
    """One batch inside a buffer; nothing is copied and only the header has been read."""

    __slots__ = ("_header", "buf", "position")

    def __init__(self, buf: bytes | bytearray | memoryview, position: int = 0) -> None:
        """Read the header; raises BufferUnderflow if it is cut, UnsupportedMagic for formats 0 and 1."""
        try:
            self._header: tuple[int, ...] = BATCH_HEADER.unpack_from(buf, position)
        except StructError:
            raise BufferUnderflow("the buffer ends inside the header of a record batch") from None
        if self._header[3] != MAGIC:
            raise _wrong_magic(self._header[3])
        self.buf = buf
        self.position = position

    @property
    def base_offset(self) -> int:
        return self._header[0]

    @property
    def size(self) -> int:
        """All bytes of the batch, according to its length field."""
        return self._header[1] + LOG_OVERHEAD

    @property
    def leader_epoch(self) -> int:
        return self._header[2]

    @property
    def magic(self) -> int:
        return self._header[3]

    @property
    def crc(self) -> int:
        return self._header[4]

    @property
    def attributes(self) -> int:
        return self._header[5]

    @property
    def last_offset_delta(self) -> int:
        return self._header[6]

    @property
    def base_timestamp(self) -> int:
        return self._header[7]

    @property
    def max_timestamp(self) -> int:
        return self._header[8]

    @property
    def producer_id(self) -> int:
        return self._header[9]

    @property
    def producer_epoch(self) -> int:
        return self._header[10]

    @property
    def base_sequence(self) -> int:
        return self._header[11]

    @property
    def count(self) -> int:
        return self._header[12]

    @property
    def last_offset(self) -> int:
        return self._header[0] + self._header[6]

    @property
    def next_offset(self) -> int:
        return self._header[0] + self._header[6] + 1

    @property
    def last_sequence(self) -> int:
        header = self._header
        return NO_SEQUENCE if header[11] == NO_SEQUENCE else increment_sequence(header[11], header[6])

    @property
    def compression(self) -> Compression:
        """The compression type. Raises UnsupportedCompression for an unknown number."""
        code = self._header[5] & COMPRESSION_MASK
        if code > _COMPRESSION_MAX:
            raise UnsupportedCompression(f"unknown compression type id {code}")
        return _COMPRESSIONS[code]

    @property
    def timestamp_type(self) -> TimestampType:
        return (
            TimestampType.LOG_APPEND_TIME if self._header[5] & ATTRIBUTE_LOG_APPEND_TIME else TimestampType.CREATE_TIME
        )

    @property
    def is_transactional(self) -> bool:
        return self._header[5] & ATTRIBUTE_TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        return self._header[5] & ATTRIBUTE_CONTROL != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """When tombstones and markers of this batch may be removed (stored in place of the base timestamp)."""
        return self._header[7] if self._header[5] & ATTRIBUTE_DELETE_HORIZON else None

    def ensure_valid(self) -> None:
        """Raise CorruptRecordError unless length, compression type and checksum are right."""
        end = self.position + self._header[1] + LOG_OVERHEAD
        if self._header[1] < BATCH_HEADER_SIZE - LOG_OVERHEAD:
            raise CorruptRecordError(f"a record batch of {self.size} bytes is smaller than its header")
        if end > len(self.buf):
            raise BufferUnderflow("the buffer ends inside a record batch")
        if self._header[5] & COMPRESSION_MASK > _COMPRESSION_MAX:
            raise UnsupportedCompression(f"unknown compression type id {self._header[5] & COMPRESSION_MASK}")
        computed = crc32c(memoryview(self.buf)[self.position + CRC_START : end])
        if computed != self._header[4]:
            raise CorruptRecordError(
                f"record batch is corrupt (stored crc = {self._header[4]}, computed crc = {computed})"
            )

    def tobytes(self) -> bytes:
        return bytes(self.buf[self.position : self.position + self.size])

    def record_section(self, max_size: int = DECOMPRESSED_SIZE_MAX) -> bytes:
        """Return the bytes of the records, decompressed; at most ``max_size`` of them if they are compressed."""
        section = self.buf[self.position + BATCH_HEADER_SIZE : self.position + self.size]
        codec = self.compression
        return decompress(codec, section, max_size) if codec else bytes(section)

    def records(self, max_size: int = DECOMPRESSED_SIZE_MAX) -> Iterator[Record]:
        """Iterate over the records; an inconsistency raises CorruptRecordError at the record that shows it.

        The checksum is not verified: call ``ensure_valid`` first where the bytes are not trusted.
        """
        header = self._header
        if header[12] == 0:
            return iter(())
        append_time = header[8] if header[5] & ATTRIBUTE_LOG_APPEND_TIME else None
        records = parse_records(self.record_section(max_size), header[12], header[0], header[7], append_time)
        if -_FAR < header[0] < _FAR and -_FAR < header[7] < _FAR:
            return records
        return map(_wrapped, records)

    def __repr__(self) -> str:
        return (
            f"BatchView(offsets {self.base_offset}..{self.last_offset}, count {self.count}, size {self.size}, "
            f"attributes {self.attributes:#x}, leader epoch {self.leader_epoch})"
        )


def iter_batches(buf: bytes | bytearray | memoryview, position: int = 0, end: int | None = None) -> Iterator[BatchView]:
    """Yield the whole batches from ``position`` to ``end``; a batch that is cut at the end is silently ignored.

    Raises for an impossible length or magic; checksums are not verified.
    """
    end = len(buf) if end is None else end
    unpack_length = _LENGTH.unpack_from
    while end - position > _MAGIC_OFFSET:
        (length,) = unpack_length(buf, position + BATCH_LENGTH_OFFSET)
        if not _LEGACY_OVERHEAD <= length <= _LENGTH_MAX:
            raise _wrong_length(length)
        magic = buf[position + _MAGIC_OFFSET]
        if magic != MAGIC:
            raise _wrong_magic(magic)
        size = length + LOG_OVERHEAD
        if end - position < size:
            return
        if size < BATCH_HEADER_SIZE:
            raise CorruptRecordError(f"a record batch of {size} bytes is smaller than its header")
        yield BatchView(buf, position)
        position += size
    if end - position >= LOG_OVERHEAD:
        (length,) = unpack_length(buf, position + BATCH_LENGTH_OFFSET)
        if not _LEGACY_OVERHEAD <= length <= _LENGTH_MAX:
            raise _wrong_length(length)


def set_max_timestamp(buf: bytearray | memoryview, position: int, attributes: int, max_timestamp: int) -> None:
    """Replace the attributes and the largest timestamp of a batch, and compute its checksum again."""
    (length,) = _LENGTH.unpack_from(buf, position + BATCH_LENGTH_OFFSET)
    _ATTRIBUTES.pack_into(buf, position + _ATTRIBUTES_OFFSET, attributes)
    _OFFSET.pack_into(buf, position + _MAX_TIMESTAMP_OFFSET, max_timestamp)
    crc = crc32c(memoryview(buf)[position + CRC_START : position + LOG_OVERHEAD + length])
    _CRC.pack_into(buf, position + _CRC_OFFSET, crc)


def increment_sequence(sequence: int, increment: int) -> int:
    """Add to a producer's sequence number, which continues with 0 after 2147483647 (in Java's 32-bit arithmetic)."""
    if sequence > _int32(0x7FFFFFFF - increment):
        return _int32(increment - (0x7FFFFFFF - sequence) - 1)
    return _int32(sequence + increment)


def parse_records(
    section: bytes, count: int, base_offset: int, base_timestamp: int, append_time: int | None = None
) -> Iterator[Record]:
    """Read ``count`` records that fill ``section`` exactly.

    One- and two-byte varints are read inline, because a call for each would cost more than all the rest.
    """
    if count < 0:
        raise InvalidRecordError(f"invalid record count {count} in a record batch")
    position, end = 0, len(section)
    zigzag, new = _ZIGZAG, tuple.__new__
    timestamp = append_time
    try:
        for _ in range(count):
            byte = section[position]
            if byte < 0x80:
                position += 1
                record_end = position + zigzag[byte]
            elif (second := section[position + 1]) < 0x80:
                position += 2
                raw = byte & 0x7F | second << 7
                record_end = position + ((raw >> 1) ^ -(raw & 1))
            else:
                length, position = read_varint(section, position)
                record_end = position + length
            if record_end > end:
                raise InvalidRecordError(f"a record ends {record_end - end} bytes after its batch")

            byte = section[position + 1]  # The byte at position itself is the record's attributes: none are defined.
            if byte < 0x80:
                position += 2
                delta = zigzag[byte]
            elif (second := section[position + 2]) < 0x80:
                position += 3
                raw = byte & 0x7F | second << 7
                delta = (raw >> 1) ^ -(raw & 1)
            else:
                delta, position = read_varlong(section, position + 1)
            if append_time is None:
                timestamp = base_timestamp + delta
                if not -_FAR < timestamp < _FAR:
                    timestamp = _int64(timestamp)

            byte = section[position]
            if byte < 0x80:
                position += 1
                offset = base_offset + zigzag[byte]
            elif (second := section[position + 1]) < 0x80:
                position += 2
                raw = byte & 0x7F | second << 7
                offset = base_offset + ((raw >> 1) ^ -(raw & 1))
            else:
                delta, position = read_varint(section, position)
                offset = base_offset + delta

            byte = section[position]
            if byte < 0x80:
                position += 1
                length = zigzag[byte]
            else:
                length, position = read_varint(section, position)
            if length < 0:
                key = None
            else:
                key = section[position : position + length]
                position += length

            byte = section[position]
            if byte < 0x80:
                position += 1
                length = zigzag[byte]
            elif (second := section[position + 1]) < 0x80:
                position += 2
                raw = byte & 0x7F | second << 7
                length = (raw >> 1) ^ -(raw & 1)
            else:
                length, position = read_varint(section, position)
            if length < 0:
                value = None
            else:
                value = section[position : position + length]
                position += length

            if section[position] == 0:
                position += 1
                headers: tuple[Header, ...] = ()
            else:
                headers, position = _read_headers(section, position, record_end)
            if position != record_end:
                raise InvalidRecordError(f"a record's fields end {position - record_end} bytes off its length")
            yield new(Record, (offset, timestamp, key, value, headers))
    except IndexError:
        raise InvalidRecordError("the records end before the batch's count is reached") from None
    except (BufferUnderflow, InvalidVarint) as error:
        raise InvalidRecordError(f"a record cannot be read: {error}") from None
    if position != end:
        raise InvalidRecordError("bytes remain after the last record of a batch")


def _read_headers(section: bytes, position: int, record_end: int) -> tuple[tuple[Header, ...], int]:
    count, position = read_varint(section, position)
    if not 0 <= count <= record_end - position:
        raise InvalidRecordError(f"invalid number of record headers: {count}")
    headers: list[Header] = []
    for _ in range(count):
        length, position = read_varint(section, position)
        if length < 0:
            raise InvalidRecordError(f"invalid record header key size {length}")
        if position + length > record_end:
            raise InvalidRecordError("a record header's key ends after its record")
        key = decode_utf8(section[position : position + length])
        position += length
        length, position = read_varint(section, position)
        if length < 0:
            headers.append((key, None))
            continue
        if position + length > record_end:
            raise InvalidRecordError("a record header's value ends after its record")
        headers.append((key, section[position : position + length]))
        position += length
    return tuple(headers), position


def _wrapped(record: Record) -> Record:
    return record._replace(offset=_int64(record.offset), timestamp=_int64(record.timestamp))


def _int32(value: int) -> int:
    return (value + 0x80000000 & 0xFFFFFFFF) - 0x80000000


def _int64(value: int) -> int:
    return (value + 0x8000000000000000 & 0xFFFFFFFFFFFFFFFF) - 0x8000000000000000


def _wrong_magic(magic: int) -> UnsupportedMagic | CorruptRecordError:
    if magic in (0, 1):
        return UnsupportedMagic(magic)
    return CorruptRecordError(f"invalid magic found in record batch: {magic}")


def _wrong_length(length: int) -> CorruptRecordError:
    return CorruptRecordError(f"a record batch has the impossible length {length}")


_COMPRESSIONS = tuple(Compression)
