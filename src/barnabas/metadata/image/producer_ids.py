"""The first producer id that was not allocated to a broker yet."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.common.errors import invariant
from barnabas.metadata.image.record_writer import RecordWriter
from barnabas.protocol.records.producer_ids_record import ProducerIdsRecord

__all__ = ["ProducerIdsDelta", "ProducerIdsImage"]


class ProducerIdsImage(NamedTuple):
    """``next_producer_id`` is -1 until the first block was allocated."""

    next_producer_id: int = -1

    def write(self, writer: RecordWriter) -> None:
        if self.next_producer_id >= 0:
            record = ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=self.next_producer_id)
            writer.write(record, 0)


class ProducerIdsDelta:
    __slots__ = ("_changed", "image")

    def __init__(self, image: ProducerIdsImage) -> None:
        self.image = image
        self._changed: int | None = None

    def replay(self, record: ProducerIdsRecord, *, is_snapshot: bool = False) -> None:
        """An id is never allocated twice, so the next one only grows; a snapshot sets it."""
        before = self.image.next_producer_id if self._changed is None else self._changed
        grows = is_snapshot or record.next_producer_id >= before
        invariant(grows, f"next producer id {record.next_producer_id} is below {before}")
        self._changed = record.next_producer_id

    def finish_snapshot(self) -> None:
        if self._changed is None:
            self._changed = -1

    def apply(self) -> ProducerIdsImage:
        return self.image if self._changed is None else ProducerIdsImage(self._changed)
