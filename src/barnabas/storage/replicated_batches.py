"""Reads the batches that a leader sent, as a follower may write them.

The leader has checked them, so only lengths and checksums are checked. The answer may end inside a batch, which is
ignored.
"""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.common.topic_partition import TopicPartition
from barnabas.storage.batch_header import BATCH_OVERHEAD, HEADER_SIZE, PREFIX, Buffer
from barnabas.storage.produced_batch import ProducedBatch, read_replicated_batch

__all__ = ["EPOCH_MAX", "replicated_batches"]

EPOCH_MAX = 2**31 - 1


def replicated_batches(
    records: Buffer, leader_epoch: int, partition: TopicPartition
) -> Iterator[tuple[ProducedBatch, int, int, memoryview]]:
    """Yield (batch, base offset, leader epoch, bytes) of each whole batch up to the first of a later epoch.

    Raises ApiException at one that is damaged.
    """
    view = memoryview(records)
    while len(view) >= HEADER_SIZE:
        base_offset, length, batch_epoch = PREFIX.unpack_from(view)
        if length + BATCH_OVERHEAD > len(view) or batch_epoch > leader_epoch:
            return
        batch = read_replicated_batch(view, partition=partition)
        yield batch, base_offset, batch_epoch, view[: batch.size]
        view = view[batch.size :]
