"""The values of records: each names its producer and its record number, and a checksum detects changed bytes."""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

__all__ = ["SIZE_MIN", "RecordId", "Spoilt", "decode", "encode"]

SIZE_MIN = 64


class Spoilt(ValueError):
    """The value was not created by ``encode``."""


@dataclass(frozen=True, slots=True, order=True)
class RecordId:
    producer: str
    number: int

    def __str__(self) -> str:
        return f"{self.producer}#{self.number}"


def encode(record: RecordId, partition: int, size: int = SIZE_MIN) -> bytes:
    """``size`` bytes, at least ``SIZE_MIN``."""
    size = max(size, SIZE_MIN)
    head = f"{record.producer} {record.number} {partition} {size} ".encode()
    filler = b"%08x" % crc32(head)
    return (head + filler * (size // len(filler)))[:size]


def decode(value: bytes) -> tuple[RecordId, int]:
    """Return the record and the partition that it was sent to. Raise Spoilt."""
    try:
        producer, number, partition, size, _ = value.split(b" ", 4)
        record = RecordId(producer.decode(), int(number))
        sent_to = int(partition)
        expected = encode(record, sent_to, int(size))
    except ValueError:
        raise Spoilt(f"{value[:80]!r}") from None
    if value != expected:
        raise Spoilt(f"{value[:80]!r}")
    return record, sent_to
