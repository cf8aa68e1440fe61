"""Encodes the records of a coordinator as a batch of its log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.protocol.compression import Compression, compress
from barnabas.protocol.record_batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from barnabas.protocol.record_batch_builder import with_header

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.coordinator.coordinator_result import CoordinatorRecord
    from barnabas.coordinator.producer_id_and_epoch import ProducerIdAndEpoch

__all__ = ["coordinator_batch", "parts_of"]

_TRANSACTIONAL: Final = 0x10
_RECORDS_PER_BATCH: Final = 2_000
"""The size of batches whose records need not stay together, such as tombstones of expired entries."""


def parts_of(records: list[CoordinatorRecord], *, is_atomic: bool) -> Iterable[list[CoordinatorRecord]]:
    """Return the records of each batch in which a decision is appended."""
    if is_atomic or len(records) <= _RECORDS_PER_BATCH:
        return (records,)
    return (records[first : first + _RECORDS_PER_BATCH] for first in range(0, len(records), _RECORDS_PER_BATCH))


def coordinator_batch(
    records: list[CoordinatorRecord], compression: Compression, now_ms: int, producer: ProducerIdAndEpoch | None
) -> bytes:
    """Return one batch of these records, with ``producer`` as a part of its transaction."""
    chunks: list[bytes] = []
    count = 0
    for record in records:
        record.write(chunks, count)
        count += record.count
    section = b"".join(chunks)
    if compression:
        section = compress(compression, section)
    return with_header(
        section,
        base_offset=0,
        leader_epoch=-1,
        attributes=compression | (0 if producer is None else _TRANSACTIONAL),
        last_offset_delta=count - 1,
        base_timestamp=now_ms,
        max_timestamp=now_ms,
        producer_id=NO_PRODUCER_ID if producer is None else producer.producer_id,
        producer_epoch=NO_PRODUCER_EPOCH if producer is None else producer.epoch,
        base_sequence=NO_SEQUENCE,
        count=count,
    )
