"""Decide what compaction leaves of one batch, by Kafka's rules, and write it.

A record stays if it is the last one of its key so far, or if the offset map does not cover it. A tombstone (no
value) stays until its batch's delete horizon has passed; the horizon, now + ``delete.retention.ms``, is written into
the batch the first time the cleaner meets it. The same holds for a transaction's marker once none of its records is
left.
Offsets never change: a batch keeps its first and last, whatever is removed from it.

A batch that is left without records is removed, unless it is the last one of a producer that is still known (its
sequence number must survive a restart) or the last one of this cleaning (the cleaned part must not seem to end before).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from struct import error as StructError

from barnabas.common.crc32c import crc32c
from barnabas.protocol.compression import compress
from barnabas.protocol.errors import BufferUnderflow, InvalidRecordError, InvalidVarint
from barnabas.protocol.record_batch import BatchView
from barnabas.protocol.record_batch_builder import empty_batch, retain_records
from barnabas.protocol.varint import read_varint, read_varlong
from barnabas.storage.batch_header import (
    ATTRIBUTES_OFFSET,
    BATCH_OVERHEAD,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
)
from barnabas.storage.cleaned_transactions import CleanedTransactions
from barnabas.storage.cleaner_offset_map import CleanerOffsetMap
from barnabas.storage.produced_batch import read_end_transaction_marker

__all__ = ["BatchCleaner", "KeyedRecord", "walk_keys"]

KeyedRecord = tuple[int, int, int, int, bytes | None, bool]
"""(start, end, timestamp delta, offset delta, key, has a value); start and end are its place in the section."""


class BatchCleaner:
    """Cleans the batches of a log one after the other, in offset order."""

    def __init__(
        self,
        offset_map: CleanerOffsetMap,
        transactions: CleanedTransactions,
        *,
        last_of_producers: Mapping[int, tuple[int, int]],
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        """``last_of_producers``: producer id -> (offset of its last data record or -1, its epoch)."""
        self._map = offset_map
        self._transactions = transactions
        self._last_of_producers = last_of_producers
        self._now_ms = now_ms
        self._horizon_ms = now_ms + delete_retention_ms
        self.records_read = 0
        self.records_kept = 0

    def clean(self, batch: memoryview) -> bytes | memoryview | None:
        """Return what remains of this batch: the batch itself, a smaller one, an empty one, or nothing."""
        view = BatchView(batch)
        self.records_read += view.count
        if view.is_control:
            cleaned = self._clean_control(view, batch)
        elif self._transactions.read_data_batch(
            view.producer_id, view.last_offset, is_transactional=view.is_transactional
        ):
            cleaned = None
        else:
            cleaned = self._clean_data(view, batch)
        if cleaned is None and (view.last_offset == self._map.latest_offset or self._is_last_of_producer(view)):
            return batch if view.count == 0 else empty_batch(view)
        return cleaned

    def _clean_control(self, view: BatchView, batch: memoryview) -> bytes | memoryview | None:
        marker = read_end_transaction_marker(batch)
        is_useless = self._transactions.read_control_batch(view.producer_id, view.last_offset, marker)
        if view.count == 0:
            return None
        horizon = view.delete_horizon_ms
        if is_useless and horizon is None:
            self.records_kept += view.count
            return retain_records(view, list(view.records()), delete_horizon_ms=self._horizon_ms)
        if is_useless and horizon is not None and horizon <= self._now_ms:
            return None
        self.records_kept += view.count
        return batch

    def _clean_data(self, view: BatchView, batch: memoryview) -> bytes | memoryview | None:
        if view.count == 0:
            return None
        if view.base_offset > self._map.latest_offset:
            self.records_kept += view.count
            return batch
        horizon = view.delete_horizon_ms
        tombstones_stay = horizon is None or self._now_ms < horizon
        section = view.record_section()
        base_offset, latest, get = view.base_offset, self._map.latest_offset, self._map.get
        kept: list[KeyedRecord] = []
        has_tombstone = False
        for record in walk_keys(section, view.count):
            offset, key, has_value = base_offset + record[3], record[4], record[5]
            if offset > latest or (key is not None and offset >= get(key) and (has_value or tombstones_stay)):
                kept.append(record)
                has_tombstone = has_tombstone or not has_value
        self.records_kept += len(kept)
        if not kept:
            return None
        if has_tombstone and horizon is None:
            offsets = {base_offset + record[3] for record in kept}
            records = [record for record in view.records() if record.offset in offsets]
            return retain_records(view, records, delete_horizon_ms=self._horizon_ms)
        return batch if len(kept) == view.count else _with_records(view, batch, section, kept)

    def _is_last_of_producer(self, view: BatchView) -> bool:
        last = self._last_of_producers.get(view.producer_id) if view.producer_id >= 0 else None
        if last is None:
            return False
        last_data_offset, epoch = last
        if last_data_offset >= 0:
            return view.last_offset == last_data_offset
        return view.is_control and view.producer_epoch == epoch


def _with_records(view: BatchView, batch: memoryview, section: bytes, kept: list[KeyedRecord]) -> bytes:
    """Return the batch with some of its records, copied unchanged: all deltas stay the same."""
    remaining = b"".join([section[record[0] : record[1]] for record in kept])
    codec = view.compression
    body = compress(codec, remaining) if codec else remaining
    header = list(HEADER.unpack_from(batch))
    header[1] = HEADER_SIZE + len(body) - BATCH_OVERHEAD
    header[12] = len(kept)
    if not header[5] & LOG_APPEND_TIME_FLAG:
        header[8] = header[7] + max(record[2] for record in kept)
    out = bytearray(HEADER.pack(*header)) + body
    header[4] = crc32c(memoryview(out)[ATTRIBUTES_OFFSET:])
    HEADER.pack_into(out, 0, *header)
    return bytes(out)


def walk_keys(section: bytes, count: int) -> Iterator[KeyedRecord]:
    """Yield each record's position, deltas and key; values and headers are not read."""
    position, end = 0, len(section)
    try:
        for _ in range(count):
            start = position
            byte = section[position]
            if byte < 0x80:
                position += 1
                record_end = position + (byte >> 1)
            elif (second := section[position + 1]) < 0x80:
                position += 2
                record_end = position + ((byte & 0x7F | second << 7) >> 1)
            else:
                length, position = read_varint(section, position)
                record_end = position + length
            position += 1  # The record's attributes.
            byte = section[position]
            if byte < 0x80:
                position += 1
                timestamp_delta = (byte >> 1) ^ -(byte & 1)
            else:
                timestamp_delta, position = read_varlong(section, position)
            byte = section[position]
            if byte < 0x80:
                position += 1
                offset_delta = byte >> 1
            elif (second := section[position + 1]) < 0x80:
                position += 2
                offset_delta = (byte & 0x7F | second << 7) >> 1
            else:
                offset_delta, position = read_varint(section, position)
            byte = section[position]
            if byte < 0x80:
                position += 1
                length = (byte >> 1) ^ -(byte & 1)
            else:
                length, position = read_varint(section, position)
            key = None
            if length >= 0:
                key = section[position : position + length]
                position += length
            # An odd varint is a negative length: no value.
            has_value = not section[position] & 1
            if not position < record_end <= end:
                raise InvalidRecordError("a record's length contradicts its fields")
            yield start, record_end, timestamp_delta, offset_delta, key, has_value
            position = record_end
    except (IndexError, StructError, BufferUnderflow, InvalidVarint) as error:
        raise InvalidRecordError(f"a record cannot be read: {error}") from None
