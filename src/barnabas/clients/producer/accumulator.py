"""Waiting records without keys: it chooses their partition and batch.

Records stay with a partition for ``batch.size`` bytes and then move to the one with the least data among the next
few, as in Kafka's producer (KIP-480, KIP-794). ``batch.size`` is the size after compression, estimated from the
compression of earlier batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.clients.producer.batch import NO_PRODUCER, ProducerBatch, ProducerId, Run, record_size_max
from barnabas.clients.producer.batch_queues import BatchQueues
from barnabas.protocol.record_batch import BATCH_HEADER_SIZE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from barnabas.clients.producer.config import ProducerConfig

__all__ = ["RecordAccumulator"]

_LOOKED_AT = 8


class RecordAccumulator(BatchQueues[ProducerBatch]):
    """Times are seconds on the caller's clock."""

    def __init__(
        self, partitions: Iterable[int], config: ProducerConfig, *, producer: ProducerId = NO_PRODUCER
    ) -> None:
        super().__init__(partitions, config, producer=producer)
        self._available = list(self._queues.values())
        self._cursor = 0
        self._sticky = self._available[0]
        self._sticky_bytes = 0

    def set_available(self, partitions: Collection[int]) -> None:
        """Send new records to partitions with a leader, as long as one exists."""
        led = [queue for partition, queue in self._queues.items() if partition in partitions]
        self._available = led or list(self._queues.values())
        if self._sticky not in self._available:
            self._move_on()

    def capacity(self, value_size: int) -> int:
        """Return how many values of this size fit now into one batch; 0 while the memory is used up."""
        room = self._config.buffer_memory - self.buffered_bytes
        size = record_size_max(value_size)
        if room < size and self.buffered_bytes:
            return 0
        queue = self._sticky
        batch = queue.batches[-1] if queue.batches else None
        used = batch.size if batch is not None and not batch.is_full and not batch.attempts else BATCH_HEADER_SIZE
        return max(1, (self._batch_limit - used) // size)

    def append(self, values: Sequence[bytes], run: Run, now: float, timestamp_ms: int) -> int:
        """Add values of one size, at most ``capacity``. Return their partition."""
        queue = self._sticky
        size = record_size_max(len(values[0])) * len(values)
        batch = queue.batches[-1] if queue.batches else None
        if batch is None or batch.is_full or batch.attempts or batch.size + size > self._batch_limit:
            if batch is not None:
                batch.is_full = True
            batch = ProducerBatch(queue.partition, now, timestamp_ms)
            queue.batches.append(batch)
        before = batch.size
        batch.append(values, run, timestamp_ms)
        added = batch.size - before
        batch.is_full = batch.size + record_size_max(len(values[0])) > self._batch_limit
        self._add(queue, added, len(values))
        self._sticky_bytes += added
        if batch.is_full or self._sticky_bytes >= self._batch_limit:
            self._move_on()
        return queue.partition

    def _move_on(self) -> None:
        available = self._available
        looked_at = [
            available[(self._cursor + step) % len(available)] for step in range(min(_LOOKED_AT, len(available)))
        ]
        best = min(range(len(looked_at)), key=lambda index: looked_at[index].queued_bytes)
        self._sticky = looked_at[best]
        self._cursor = (self._cursor + best + 1) % len(available)
        self._sticky_bytes = 0
