"""Records as the helpers of test nodes accept and return them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.testing.errors import NotPossible

__all__ = ["KeyAndValue", "ReceivedRecord", "RecordData", "keys_and_values"]

RecordData = str | bytes | tuple[str | bytes | None, str | bytes | None]
"""A value, or a key with a value. Text is encoded as UTF-8; a value of None is a tombstone."""
KeyAndValue = tuple[bytes | None, bytes | None]


class ReceivedRecord(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def keys_and_values(records: Iterable[RecordData]) -> list[KeyAndValue]:
    """Return keys and values as bytes. Raise NotPossible for a single text or bytes object instead of several."""
    if isinstance(records, str | bytes):
        raise NotPossible(f"records={records!r} is a single value: write [{records!r}]")
    return [_pair(record) for record in records]


def _pair(record: RecordData) -> KeyAndValue:
    key, value = record if isinstance(record, tuple) else (None, record)
    return _bytes(key), _bytes(value)


def _bytes(data: str | bytes | None) -> bytes | None:
    return data.encode() if isinstance(data, str) else data
