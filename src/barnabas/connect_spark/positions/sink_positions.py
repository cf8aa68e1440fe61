"""Compare a batch with the positions that a sink keeps with its data: it is written, or belongs to another task.

Positions and data are written together or not at all. So the sink recognizes a batch that was committed while its
answer was lost. Of two tasks that both claim a partition the second is refused.
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.plugins.api import OffsetRange, TerminalError

__all__ = ["is_written", "refuse_unless_next"]


def is_written(noted: Mapping[TopicPartition, int], ranges: Mapping[TopicPartition, OffsetRange]) -> bool:
    """Return whether all of the batch is written. An empty batch never is."""
    return bool(ranges) and all(noted.get(partition) == offsets.end for partition, offsets in ranges.items())


def refuse_unless_next(
    noted: Mapping[TopicPartition, int], ranges: Mapping[TopicPartition, OffsetRange], target: str
) -> None:
    """Raise TerminalError if another writer has written the first records of the batch."""
    for partition, offsets in ranges.items():
        if partition in noted and noted[partition] > offsets.start:
            raise TerminalError(
                f"{partition}: the batch begins at offset {offsets.start}, but {target} has all offsets before "
                f"{noted[partition]} already: another task writes the same partition."
            )
