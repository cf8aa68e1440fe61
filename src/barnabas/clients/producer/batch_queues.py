"""Waiting batches in a queue for each partition. Decides which are sent, when and in which order; sends nothing.

A batch is ready when it is full, when its first record has waited ``linger.ms``, when memory is used up, or on a
flush. A batch that is sent again is sent alone, so that no later one of its partition overtakes it. So is the
first batch of a partition: a broker that does not know the producer yet accepts any sequence number for its first.

Each partition has a producer id. A partition that has lost it, because a batch was given up or the cluster has
forgotten the producer, is ``unassigned`` until it has another one: then its sequence starts again.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

from barnabas.clients.producer.batch import NO_PRODUCER, Batch, ProducerId
from barnabas.protocol.record_batch import NO_SEQUENCE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from barnabas.clients.producer.config import ProducerConfig

__all__ = ["BatchQueue", "BatchQueues"]

B = TypeVar("B", bound=Batch)

_RATIO_STEP = 0.1
_SEQUENCES = 1 << 31


class BatchQueue(Generic[B]):
    """The waiting batches of one partition, and those that were sent and have no result yet."""

    __slots__ = ("batches", "in_flight", "is_known", "next_sequence", "partition", "producer", "queued_bytes")

    def __init__(self, partition: int, producer: ProducerId | None) -> None:
        self.partition = partition
        self.batches: deque[B] = deque()
        self.queued_bytes = 0
        self.in_flight: list[B] = []
        self.producer = producer
        self.next_sequence = 0
        self.is_known = False
        """Whether the leader has accepted a batch of this producer."""


class BatchQueues(Generic[B]):
    """Times are seconds on the caller's clock. ``producer`` is the initial one of all partitions."""

    def __init__(
        self, partitions: Iterable[int], config: ProducerConfig, *, producer: ProducerId | None = NO_PRODUCER
    ) -> None:
        self._config = config
        self._first_producer = producer
        self._queues: dict[int, BatchQueue[B]] = {}
        self._ratio = 1.0
        self.unassigned: set[int] = set()
        """Partitions without a producer id."""
        self.buffered_bytes = 0
        self.waiting = 0
        """The number of records that are not yet delivered or given up."""
        self.is_flushing = False
        self.add_partitions(partitions)

    def set_available(self, partitions: Collection[int]) -> None:
        """Set the partitions that have a leader."""

    def add_partitions(self, partitions: Iterable[int]) -> None:
        """Add partitions after the topic has grown."""
        for partition in partitions:
            if partition not in self._queues:
                self._queues[partition] = BatchQueue(partition, self._first_producer)
                if self._first_producer is None:
                    self.unassigned.add(partition)

    def drain(self, partitions: Iterable[int], now: float) -> list[B]:
        """Return the batches for one request to the leader of these partitions: one batch each, in their order."""
        drained: list[B] = []
        size = 0
        for partition in partitions:
            queue = self._queues[partition]
            if queue.producer is None or not self._is_ready(queue, now):
                continue
            batch = queue.batches[0]
            if drained and size + batch.size > self._config.max_request_size:
                break
            size += batch.size
            queue.batches.popleft()
            queue.queued_bytes -= batch.size
            queue.in_flight.append(batch)
            batch.is_full = True
            if batch.sequence == NO_SEQUENCE:
                batch.sequence = queue.next_sequence
                queue.next_sequence = (queue.next_sequence + batch.count) % _SEQUENCES
            batch.attempts += 1
            drained.append(batch)
        return drained

    def has_ready(self, partitions: Iterable[int], now: float) -> bool:
        return any(self._is_ready(self._queues[partition], now) for partition in partitions)

    def ready_in_s(self, partitions: Iterable[int], now: float) -> float | None:
        """Return how long until a batch of these partitions is ready without other events; None without one."""
        waits = [
            max(batch.retry_at_s, 0 if batch.attempts else batch.created_s + self._config.linger_s) - now
            for partition in partitions
            if (batches := self._queues[partition].batches)
            for batch in (batches[0],)
        ]
        return max(0.0, min(waits)) if waits else None

    def requeue(self, batch: B, retry_at_s: float) -> None:
        """Queue it again, before all later batches."""
        queue = self._queues[batch.partition]
        queue.in_flight.remove(batch)
        batch.retry_at_s = retry_at_s
        self._insert(queue, batch)

    def finish(self, batch: B) -> None:
        """Note that it is delivered or given up: its memory is free."""
        queue = self._queues[batch.partition]
        queue.in_flight.remove(batch)
        queue.is_known = True
        self._forget(batch)

    def is_first_in_flight(self, batch: B) -> bool:
        """Return whether all earlier batches of its partition have a result."""
        queue = self._queues[batch.partition]
        sent = [*queue.in_flight, *(waiting for waiting in queue.batches if _has_sequence(waiting))]
        return all(other is batch or _is_before(batch, other) for other in sent)

    def observe_ratio(self, batch: B, sent_bytes: int) -> None:
        """Note the compression ratio of a batch, to estimate how much fits into the next ones."""
        self._ratio += (sent_bytes / batch.size - self._ratio) * _RATIO_STEP

    # --- producers

    def producer_of(self, partition: int) -> ProducerId:
        return self._queues[partition].producer or NO_PRODUCER

    def forget_producer(self, partition: int) -> None:
        """Forget the producer, whose state in the cluster is unknown. Waiting batches are sent by another one."""
        queue = self._queues[partition]
        queue.producer = None
        queue.is_known = False
        self.unassigned.add(partition)

    def assignable(self) -> list[int]:
        """The unassigned partitions without batches in flight."""
        return [partition for partition in self.unassigned if not self._queues[partition].in_flight]

    def assign_producer(self, partitions: Iterable[int], producer: ProducerId) -> None:
        for partition in partitions:
            queue = self._queues[partition]
            queue.producer = producer
            queue.next_sequence = 0
            for batch in queue.batches:
                batch.restart()
            self.unassigned.discard(partition)

    # --- removal

    def take_queued(self, partition: int) -> list[B]:
        """Remove and return all waiting batches of the partition."""
        queue = self._queues[partition]
        taken = list(queue.batches)
        for batch in taken:
            self._remove(queue, batch)
        return taken

    def take_expired(self, created_before_s: float) -> list[B]:
        """Remove and return batches that have waited since before this time."""
        expired = [batch for batch in self._queued() if batch.created_s < created_before_s]
        for batch in expired:
            self._remove(self._queues[batch.partition], batch)
        return expired

    @property
    def _batch_limit(self) -> int:
        return int(min(self._config.batch_size / self._ratio, self._config.max_request_size))

    def _queued(self) -> Iterator[B]:
        for queue in self._queues.values():
            yield from queue.batches

    def _add(self, queue: BatchQueue[B], size: int, count: int) -> None:
        """Account for bytes appended to the last batch of the queue."""
        queue.queued_bytes += size
        self.buffered_bytes += size
        self.waiting += count

    def _insert(self, queue: BatchQueue[B], batch: B) -> None:
        queue.queued_bytes += batch.size
        place = 0
        while place < len(queue.batches) and _has_sequence(other := queue.batches[place]):
            if _is_before(batch, other):
                break
            place += 1
        queue.batches.insert(place, batch)

    def _replace(self, batch: B, halves: Iterable[B]) -> None:
        """Queue the halves of a batch in flight in its place."""
        queue = self._queues[batch.partition]
        queue.in_flight.remove(batch)
        self._forget(batch)
        for half in halves:
            self._insert(queue, half)
            self.buffered_bytes += half.size
            self.waiting += half.count

    def _remove(self, queue: BatchQueue[B], batch: B) -> None:
        queue.batches.remove(batch)
        queue.queued_bytes -= batch.size
        self._forget(batch)

    def _forget(self, batch: B) -> None:
        self.buffered_bytes -= batch.size
        self.waiting -= batch.count
        if not self.buffered_bytes:
            self.buffered_bytes = 0

    def _is_ready(self, queue: BatchQueue[B], now: float) -> bool:
        if not queue.batches:
            return False
        batch = queue.batches[0]
        if batch.attempts:
            return not queue.in_flight and now >= batch.retry_at_s
        if queue.in_flight and (not queue.is_known or any(sent.attempts > 1 for sent in queue.in_flight)):
            return False
        return (
            batch.is_full
            or len(queue.batches) > 1
            or self.is_flushing
            or now >= batch.created_s + self._config.linger_s
            or self.buffered_bytes >= self._config.buffer_memory - self._config.batch_size
        )


def _has_sequence(batch: Batch) -> bool:
    """Return whether it was sent by the present producer of the partition."""
    return batch.attempts > 0 and batch.sequence != NO_SEQUENCE


def _is_before(batch: Batch, other: Batch) -> bool:
    return (batch.sequence - other.sequence) % _SEQUENCES > _SEQUENCES // 2
