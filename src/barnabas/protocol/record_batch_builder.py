"""Write record batches of format 2.

``RecordBatchBuilder`` receives records one by one, ``build_batch`` all together, and ``retain_records`` writes a batch
again with fewer records, as log compaction does. Offsets are absolute everywhere and may have gaps; the base
timestamp is that of the first record, unless a delete horizon replaces it.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from barnabas.common.crc32c import crc32c
from barnabas.protocol.compression import Compression, compress
from barnabas.protocol.errors import EncodeError
from barnabas.protocol.record_batch import (
    ATTRIBUTE_CONTROL,
    ATTRIBUTE_DELETE_HORIZON,
    ATTRIBUTE_LOG_APPEND_TIME,
    ATTRIBUTE_TRANSACTIONAL,
    BATCH_HEADER,
    BATCH_HEADER_SIZE,
    CRC_START,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchView,
    Header,
    Record,
    TimestampType,
)
from barnabas.protocol.varint import write_varint, write_varlong

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["RecordBatchBuilder", "build_batch", "empty_batch", "encode_record", "retain_records", "with_header"]

_CRC = Struct(">I")
_OFFSET_DELTA_MAX = 0x7FFFFFFF
_COPIED_ONCE_MIN: Final = 65536
_PARTS_JOINED_AT_ONCE: Final = 10_000
_NULL = b"\x01"
_NO_HEADERS = b"\x00"
_SMALL = tuple(bytes((value << 1,)) for value in range(64))
"""The one-byte varints of 0 to 63."""


class RecordBatchBuilder:
    """Collect records, then ``build`` the batch. ``size`` is its current size before compression."""

    __slots__ = (
        "_attributes",
        "_base_timestamp",
        "_body",
        "_compression",
        "_compression_level",
        "_max_timestamp",
        "base_offset",
        "base_sequence",
        "count",
        "last_offset",
        "leader_epoch",
        "log_append_time_ms",
        "producer_epoch",
        "producer_id",
    )

    def __init__(
        self,
        *,
        base_offset: int = 0,
        compression: Compression = Compression.NONE,
        compression_level: int | None = None,
        leader_epoch: int = -1,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        is_transactional: bool = False,
        is_control: bool = False,
        log_append_time_ms: int | None = None,
        delete_horizon_ms: int | None = None,
    ) -> None:
        """With ``log_append_time_ms`` the batch is of that type, and all of its records have that timestamp."""
        self.base_offset = base_offset
        self.leader_epoch = leader_epoch
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.log_append_time_ms = log_append_time_ms
        self.count = 0
        self.last_offset = base_offset - 1
        self._attributes = (
            compression
            | (ATTRIBUTE_LOG_APPEND_TIME if log_append_time_ms is not None else 0)
            | (ATTRIBUTE_TRANSACTIONAL if is_transactional else 0)
            | (ATTRIBUTE_CONTROL if is_control else 0)
            | (ATTRIBUTE_DELETE_HORIZON if delete_horizon_ms is not None else 0)
        )
        self._compression = compression
        self._compression_level = compression_level
        self._base_timestamp = delete_horizon_ms
        self._max_timestamp = NO_TIMESTAMP
        self._body = bytearray()

    @property
    def size(self) -> int:
        """The bytes of the batch so far, before compression."""
        return BATCH_HEADER_SIZE + len(self._body)

    def append(
        self,
        offset: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Iterable[Header] = (),
    ) -> None:
        """Add a record; its offset must be larger than that of the one before."""
        if not self.last_offset < offset <= self.base_offset + _OFFSET_DELTA_MAX:
            raise EncodeError(
                f"offset {offset} cannot follow {self.last_offset} in a batch that begins at {self.base_offset}"
            )
        if self.log_append_time_ms is not None:
            timestamp = self.log_append_time_ms
        if self._base_timestamp is None:
            self._base_timestamp = timestamp
        self._body += encode_record(offset - self.base_offset, timestamp - self._base_timestamp, key, value, headers)
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        self.last_offset = offset
        self.count += 1

    def append_values(self, timestamp: int, values: Sequence[bytes]) -> None:
        """Add a record without key and headers for each value, at the next offsets, all with one timestamp.

        The same bytes as ``append`` writes, without its checks of each record: for batches of thousands.
        """
        if not values:
            return
        first_delta = self.last_offset + 1 - self.base_offset
        if first_delta + len(values) - 1 > _OFFSET_DELTA_MAX:
            raise EncodeError(f"{len(values)} records do not fit a batch that begins at {self.base_offset}")
        if self.log_append_time_ms is not None:
            timestamp = self.log_append_time_ms
        if self._base_timestamp is None:
            self._base_timestamp = timestamp
        self._body += _framed(values, first_delta, write_varlong(timestamp - self._base_timestamp))
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        self.last_offset += len(values)
        self.count += len(values)

    def build(self, *, last_offset: int | None = None) -> bytes:
        """Return the batch; ``last_offset`` may be after the last record, if later records were removed."""
        last_offset = self.last_offset if last_offset is None else last_offset
        if not self.count:
            raise EncodeError("a batch without records is written by empty_batch")
        if not self.last_offset <= last_offset <= self.base_offset + _OFFSET_DELTA_MAX:
            raise EncodeError(f"a batch from {self.base_offset} to {self.last_offset} cannot end at {last_offset}")
        section = bytes(self._body)
        if self._compression:
            section = compress(self._compression, section, self._compression_level)
        return with_header(
            section,
            base_offset=self.base_offset,
            leader_epoch=self.leader_epoch,
            attributes=self._attributes,
            last_offset_delta=last_offset - self.base_offset,
            base_timestamp=NO_TIMESTAMP if self._base_timestamp is None else self._base_timestamp,
            max_timestamp=self._max_timestamp,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
            count=self.count,
        )


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    compression: Compression = Compression.NONE,
    compression_level: int | None = None,
    leader_epoch: int = -1,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    log_append_time_ms: int | None = None,
    delete_horizon_ms: int | None = None,
    last_offset: int | None = None,
) -> bytes:
    """Return a batch of these records; their offsets are absolute and count from ``base_offset``."""
    builder = RecordBatchBuilder(
        base_offset=base_offset,
        compression=compression,
        compression_level=compression_level,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
        is_control=is_control,
        log_append_time_ms=log_append_time_ms,
        delete_horizon_ms=delete_horizon_ms,
    )
    for offset, timestamp, key, value, headers in records:
        builder.append(offset, timestamp, key, value, headers)
    return builder.build(last_offset=last_offset)


def retain_records(batch: BatchView, retained: Sequence[Record], *, delete_horizon_ms: int | None = None) -> bytes:
    """Write a batch again with only these of its records; offsets, producer and sequence stay as they were.

    Without records an empty batch is left, which keeps the producer's last sequence known. An existing delete horizon
    is kept, unless another is passed.
    """
    is_append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    if not retained:
        return empty_batch(batch)
    return build_batch(
        retained,
        base_offset=batch.base_offset,
        compression=batch.compression,
        leader_epoch=batch.leader_epoch,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        is_transactional=batch.is_transactional,
        is_control=batch.is_control,
        log_append_time_ms=batch.max_timestamp if is_append_time else None,
        delete_horizon_ms=batch.delete_horizon_ms if delete_horizon_ms is None else delete_horizon_ms,
        last_offset=batch.last_offset,
    )


def empty_batch(batch: BatchView) -> bytes:
    """Return the batch without its records: a header over the same offsets."""
    kept = ATTRIBUTE_LOG_APPEND_TIME | ATTRIBUTE_TRANSACTIONAL | ATTRIBUTE_CONTROL
    return with_header(
        b"",
        base_offset=batch.base_offset,
        leader_epoch=batch.leader_epoch,
        attributes=batch.attributes & kept,
        last_offset_delta=batch.last_offset_delta,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=batch.max_timestamp,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        count=0,
    )


def encode_record(
    offset_delta: int, timestamp_delta: int, key: bytes | None, value: bytes | None, headers: Iterable[Header] = ()
) -> bytes:
    """Return one record in its form inside a batch, its length first."""
    parts = [
        b"\x00",
        _SMALL[timestamp_delta] if 0 <= timestamp_delta < 64 else write_varlong(timestamp_delta),
        _SMALL[offset_delta] if 0 <= offset_delta < 64 else write_varint(offset_delta),
    ]
    _append_bytes(parts, key)
    _append_bytes(parts, value)
    if headers:
        _append_headers(parts, headers)
    else:
        parts.append(_NO_HEADERS)
    if value is not None and len(value) >= _COPIED_ONCE_MIN:
        return b"".join((write_varint(sum(map(len, parts))), *parts))
    body = b"".join(parts)
    return write_varint(len(body)) + body


def _framed(values: Sequence[bytes], first_delta: int, time_delta: bytes) -> bytes:
    """Encode records of these values, as ``encode_record`` does: values of equal size share the surrounding bytes.

    Joined some at a time: joining, and freeing, the parts of 100,000 records takes 30 ms without interruption.
    """
    joined: list[bytes] = []
    parts: list[bytes] = []
    around: dict[int, tuple[bytes, bytes]] = {}
    for delta, value in enumerate(values, start=first_delta):
        if delta < 64:
            offset_delta = _SMALL[delta]
        elif delta < 8192:
            offset_delta = bytes((delta << 1 & 0x7F | 0x80, delta >> 6))
        else:
            offset_delta = write_varint(delta)
        shape = len(value) << 3 | len(offset_delta)
        before, between = around.get(shape) or _around(around, shape, time_delta)
        parts += (before, offset_delta, between, value, _NO_HEADERS)
        if len(parts) >= _PARTS_JOINED_AT_ONCE:
            joined.append(b"".join(parts))
            parts = []
    return b"".join((*joined, *parts))


def _around(around: dict[int, tuple[bytes, bytes]], shape: int, time_delta: bytes) -> tuple[bytes, bytes]:
    """Return the bytes before the offset delta of a record, and those between it and the value."""
    size, offset_size = shape >> 3, shape & 7
    between = _NULL + write_varint(size)
    length = 1 + len(time_delta) + offset_size + len(between) + size + len(_NO_HEADERS)
    made = around[shape] = (write_varint(length) + b"\x00" + time_delta, between)
    return made


def _append_bytes(parts: list[bytes], data: bytes | None) -> None:
    if data is None:
        parts.append(_NULL)
    else:
        size = len(data)
        parts.append(_SMALL[size] if size < 64 else write_varint(size))
        parts.append(data)


def _append_headers(parts: list[bytes], headers: Iterable[Header]) -> None:
    headers = tuple(headers)
    parts.append(write_varint(len(headers)))
    for key, value in headers:
        _append_bytes(parts, key.encode("utf-8"))
        _append_bytes(parts, value)


def with_header(
    section: bytes,
    *,
    base_offset: int,
    leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    count: int,
) -> bytes:
    """Return the header of these fields, with its checksum, followed by a record section."""
    fields = (attributes, last_offset_delta, base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence)
    length = BATCH_HEADER_SIZE + len(section) - LOG_OVERHEAD
    header = bytearray(BATCH_HEADER_SIZE)
    BATCH_HEADER.pack_into(header, 0, base_offset, length, leader_epoch, MAGIC, 0, *fields, count)
    _CRC.pack_into(header, CRC_START - _CRC.size, crc32c(section, crc32c(memoryview(header)[CRC_START:])))
    return b"".join((header, section))
