"""The first producer id that no broker was given yet."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.common.errors import invariant
from barnabas.metadata.image.record_writer import RecordWriter
from barnabas.protocol.records.producer_ids_record import ProducerIdsRecord

__all__ = ["ProducerIdsDelta", "ProducerIdsImage"]


class ProducerIdsImage(NamedTuple):
    """``next_producer_id`` is -1 until the first block was handed out."""

    next_producer_id: int = -1

    def write(self, writer: RecordWriter) -> None:
        if self.next_producer_id >= 0:
            record = ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=self.next_producer_id)
            writer.write(record, 0)


class ProducerIdsDelta:
    __slots__ = ("image", "next_producer_id")

    def __init__(self, image: ProducerIdsImage) -> None:
        self.image = image
        self.next_producer_id = image.next_producer_id

    def replay(self, record: ProducerIdsRecord) -> None:
        grows = record.next_producer_id >= self.next_producer_id
        invariant(grows, f"next producer id {record.next_producer_id} is below {self.next_producer_id}")
        self.next_producer_id = record.next_producer_id

    def finish_snapshot(self) -> None:
        """Nothing to remove: a producer id is never taken back."""

    def apply(self) -> ProducerIdsImage:
        return ProducerIdsImage(self.next_producer_id)
