"""The records that a node has acquired for a member, out of the batches that it returned.

Batches may contain more than what was acquired, and acquired offsets may have no record, after compaction or where a
transaction ended.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from barnabas.clients.errors import RemoteProtocolError
from barnabas.common.topic_partition import TopicPartition
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.record_batch import Record, iter_batches

if TYPE_CHECKING:
    from barnabas.protocol.messages.share_fetch import PartitionData
    from barnabas.protocol.record_batch import BatchView

__all__ = ["AcquiredRecord", "AcquiredRecords", "RecordId", "read_acquired"]


class RecordId(NamedTuple):
    partition: TopicPartition
    offset: int

    def __str__(self) -> str:
        return f"offset {self.offset} of {self.partition}"


class AcquiredRecord(NamedTuple):
    """``delivery_count`` counts the deliveries of the record to any member, this one included."""

    partition: TopicPartition
    record: Record
    delivery_count: int

    @property
    def id(self) -> RecordId:
        return RecordId(self.partition, self.record.offset)


@dataclass(slots=True)
class AcquiredRecords:
    """``gaps`` are acquired offsets without a record, ``unreadable`` those of malformed batches."""

    records: list[AcquiredRecord] = field(default_factory=list)
    gaps: list[int] = field(default_factory=list)
    unreadable: list[int] = field(default_factory=list)


def read_acquired(partition: TopicPartition, response: PartitionData, *, check_crcs: bool = True) -> AcquiredRecords:
    """Return the acquired records of a partition. Raise RemoteProtocolError if the batches can't be distinguished."""
    counts = {
        offset: acquired.delivery_count
        for acquired in response.acquired_records
        for offset in range(acquired.first_offset, acquired.last_offset + 1)
    }
    found = AcquiredRecords()
    if not counts:
        return found
    try:
        batches = list(iter_batches(response.records or b""))
    except DecodeError as error:
        raise RemoteProtocolError(f"{partition}: a batch that can't be read: {error}") from error
    for batch in batches:
        try:
            records = _records(batch, check_crcs=check_crcs)
        except DecodeError:
            offsets = range(batch.base_offset, batch.next_offset)
            found.unreadable += [offset for offset in offsets if counts.pop(offset, None) is not None]
            continue
        for record in records:
            count = counts.pop(record.offset, None)
            if count is not None:
                found.records.append(AcquiredRecord(partition, record, count))
    found.gaps = list(counts)
    return found


def _records(batch: BatchView, *, check_crcs: bool) -> list[Record]:
    """Return the records of a batch; none of a marker of a transaction. Raise DecodeError."""
    if check_crcs:
        batch.ensure_valid()
    return [] if batch.is_control else list(batch.records())
