"""Counts elections for operators: those that may have lost records, and those that only ELR made possible."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.metadata.image.topics import TopicsImage
from barnabas.protocol.records.partition_change_record import PartitionChangeRecord

__all__ = ["ElectionCounts"]


class ElectionCounts:
    """Elections by this process while it was the active controller."""

    def __init__(self) -> None:
        self.unclean = 0
        self.from_elr = 0

    def count(self, records: Sequence[ApiMessageAndVersion], before: TopicsImage) -> None:
        """``before`` is the state before the records."""
        for record, _ in records:
            if type(record) is PartitionChangeRecord and record.leader >= 0:
                partition = before.partition(record.topic_id, record.partition_id)
                if partition is None or record.leader in partition.isr:
                    continue
                if record.leader in partition.elr:
                    self.from_elr += 1
                elif record.isr == [record.leader]:
                    self.unclean += 1
