"""Positions that a sink keeps with its data, and what they say of a batch: it is there, or not its task's to write.

Positions and data are written together or not at all. So a batch whose commit was done while its answer got lost is
seen to be there, and of two tasks that believe to own a partition the second is refused.
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.plugins.api import OffsetRange, TerminalError

__all__ = ["is_written", "refuse_unless_next"]


def is_written(noted: Mapping[TopicPartition, int], ranges: Mapping[TopicPartition, OffsetRange]) -> bool:
    """Whether all of the batch is there. A batch of nothing never is."""
    return bool(ranges) and all(noted.get(partition) == offsets.end for partition, offsets in ranges.items())


def refuse_unless_next(
    noted: Mapping[TopicPartition, int], ranges: Mapping[TopicPartition, OffsetRange], target: str
) -> None:
    """Raises TerminalError if another writer has written the first records of the batch."""
    for partition, offsets in ranges.items():
        if partition in noted and noted[partition] > offsets.start:
            raise TerminalError(
                f"{partition}: the batch begins at offset {offsets.start}, but {target} has all before "
                f"{noted[partition]} already: another task writes the same partition."
            )
