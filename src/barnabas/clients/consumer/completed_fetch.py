"""The data that a fetch returned for one partition, and the records in it for the consumer.

A batch may begin before the requested offset. Markers of transactions are never returned, nor, with read_committed, the
batches of aborted transactions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from barnabas.protocol.control_record import ControlRecordType, control_record_type
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.record_batch import BatchView, Record
from barnabas.protocol.varint import read_varint

__all__ = ["Fetched", "aborted_of", "batch_values", "count_records", "given_batches"]


@dataclass(frozen=True, slots=True)
class Fetched:
    """``aborted`` are (producer id, first offset) of aborted transactions, None with read_uncommitted."""

    topic: str
    partition: int
    from_offset: int
    batches: Sequence[BatchView]
    aborted: Sequence[tuple[int, int]] | None = None
    is_checked: bool = True
    """Whether to verify checksums."""

    def records(self) -> Iterator[Record]:
        """Iterate the records. Raise a DecodeError for malformed data."""
        for batch in given_batches(self):
            for record in batch.records():
                if record.offset >= self.from_offset:
                    yield record


def given_batches(fetched: Fetched) -> Iterator[BatchView]:
    """Iterate the batches whose records count. Raise CorruptRecordError for a wrong checksum."""
    to_come = sorted(fetched.aborted or (), key=lambda transaction: transaction[1], reverse=True)
    aborted: set[int] = set()
    for batch in fetched.batches:
        if fetched.is_checked:
            batch.ensure_valid()
        while to_come and to_come[-1][1] <= batch.last_offset:
            aborted.add(to_come.pop()[0])
        if batch.is_control:
            if batch.producer_id in aborted and _is_abort_marker(batch):
                aborted.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in aborted):
            yield batch


def count_records(fetched: Fetched) -> tuple[int, int]:
    """Return the number of records, and the bytes of their keys and values. Raise a DecodeError as ``records`` does."""
    count = size = 0
    for batch in given_batches(fetched):
        if batch.base_offset >= fetched.from_offset:
            whole = _payload_bytes(batch)
            if whole is not None:
                count += batch.count
                size += whole
                continue
        for record in batch.records():  # This raises a specific error if a record is malformed.
            if record.offset >= fetched.from_offset:
                count += 1
                size += len(record.key or b"") + len(record.value or b"")
    return count, size


def batch_values(batch: BatchView, null: bytes) -> tuple[list[bytes], int] | None:
    """Return the values of all records of the batch, ``null`` for those without, and the bytes of keys and values.

    The records are not created, which would cost twice as much. None for a batch that only
    ``BatchView.records`` reads or refuses: it has offsets with gaps, or is malformed.
    """
    section = batch.record_section()
    count = batch.count
    if batch.last_offset_delta != count - 1:
        return None
    values: list[bytes] = []
    add = values.append
    position = total = 0
    try:
        for _ in range(count):
            byte = section[position]
            if byte < 0x80:
                position += 1
                end = position + (byte >> 1)
            elif (second := section[position + 1]) < 0x80:
                position += 2
                end = position + ((byte & 0x7F | second << 7) >> 1)
            else:
                length, position = read_varint(section, position)
                end = position + length
            # After the attributes follow the two deltas. Only the last byte of each has no high bit.
            position += 1
            while section[position] >= 0x80:
                position += 1
            position += 1
            while section[position] >= 0x80:
                position += 1
            position += 1
            byte = section[position]
            if byte == 1:
                position += 1
            else:
                length, position = _read_length(section, position)
                if length > 0:
                    position += length
                    total += length
            byte = section[position]
            if byte < 0x80:
                position += 1
                length = (byte >> 1) ^ -(byte & 1)
            elif (second := section[position + 1]) < 0x80:
                position += 2
                length = (byte & 0x7F | second << 7) >> 1
            else:
                length, position = read_varint(section, position)
            if length < 0:
                add(null)
            else:
                after = position + length
                add(section[position:after])
                position = after
                total += length
            if not position < end:
                return None  # The number of headers is still to come.
            position = end
    except (IndexError, DecodeError):
        return None
    return (values, total) if position == len(section) else None


def _payload_bytes(batch: BatchView) -> int | None:
    """The payload of a whole batch, by its lengths alone: record objects would be most of a fetch's cost.

    None for a batch that no producer writes, such as one with records before its own first offset.
    """
    section = batch.record_section()
    position = total = 0
    try:
        for _ in range(batch.count):
            length, position = _read_length(section, position)
            # After the attributes follow the two deltas. Only the last byte of each has no high bit.
            at = position + 1
            while section[at] >= 0x80:
                at += 1
            at += 1
            if section[at] & 1:
                return None  # A negative number is odd in its zigzag form.
            while section[at] >= 0x80:
                at += 1
            key, at = _read_length(section, at + 1)
            if key > 0:
                total += key
                at += key
            value, at = _read_length(section, at)
            if value > 0:
                total += value
                at += value
            position += length
            if not 0 < at < position:
                return None  # The number of headers is still to come.
    except IndexError:
        return None
    return total if position == len(section) else None


def _read_length(section: bytes, position: int) -> tuple[int, int]:
    byte = section[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    second = section[position + 1]
    if second < 0x80:
        raw = byte & 0x7F | second << 7
        return (raw >> 1) ^ -(raw & 1), position + 2
    return read_varint(section, position)


def aborted_of(response: Any) -> list[tuple[int, int]]:
    """Return the aborted transactions in a partition's answer."""
    return [(transaction.producer_id, transaction.first_offset) for transaction in response.aborted_transactions or ()]


def _is_abort_marker(batch: BatchView) -> bool:
    record = next(batch.records(), None)
    return record is not None and control_record_type(record.key) is ControlRecordType.ABORT
