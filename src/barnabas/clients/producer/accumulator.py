"""Records that wait to be sent, a queue of batches for each partition. Decides what goes when; sends nothing.

A batch goes when it is full, when its first record has waited ``linger.ms``, when memory is used up, or when
everything is to go. Records without keys stay with a partition for ``batch.size`` bytes and then go on to the one with
the least to send among the next few, as Kafka's producer does (KIP-480, KIP-794). ``batch.size`` is what a batch has
after compression, by what earlier ones were compressed to.

A batch that goes again goes alone, so that no later one of its partition overtakes it. So does the first batch of a
partition: a broker that does not know the producer yet takes any sequence number for its first.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from barnabas.clients.producer.batch import ProducerBatch, Run, record_size_max
from barnabas.protocol.record_batch import BATCH_HEADER_SIZE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from barnabas.clients.producer.config import ProducerConfig

__all__ = ["RecordAccumulator"]

_LOOKED_AT = 8
_RATIO_STEP = 0.1
_SEQUENCES = 1 << 31


class _Queue:
    __slots__ = ("batches", "in_flight", "is_known", "next_sequence", "partition", "queued_bytes")

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.batches: deque[ProducerBatch] = deque()
        self.queued_bytes = 0
        self.in_flight: list[ProducerBatch] = []
        self.next_sequence = 0
        self.is_known = False
        """Whether the leader has taken a batch."""


class RecordAccumulator:
    """Times are seconds on a clock of the caller's."""

    def __init__(self, partitions: Iterable[int], config: ProducerConfig) -> None:
        self._config = config
        self._queues = {partition: _Queue(partition) for partition in partitions}
        self._available = list(self._queues.values())
        self._cursor = 0
        self._sticky = self._available[0]
        self._sticky_bytes = 0
        self._ratio = 1.0
        self.buffered_bytes = 0
        self.waiting = 0
        """Records that are not yet delivered or given up."""
        self.is_flushing = False

    def set_available(self, partitions: Collection[int]) -> None:
        """The partitions that have a leader; new records go there as long as there are any."""
        self._available = [self._queues[each] for each in self._queues if each in partitions] or list(
            self._queues.values()
        )
        if self._sticky not in self._available:
            self._move_on()

    def add_partitions(self, partitions: Iterable[int]) -> None:
        """The topic has grown."""
        for partition in partitions:
            self._queues.setdefault(partition, _Queue(partition))

    def capacity(self, value_size: int) -> int:
        """How many values of this size can be appended now to one batch; 0 while the memory is used up."""
        room = self._config.buffer_memory - self.buffered_bytes
        size = record_size_max(value_size)
        if room < size and self.buffered_bytes:
            return 0
        queue = self._sticky
        batch = queue.batches[-1] if queue.batches else None
        used = batch.size if batch is not None and not batch.is_full and not batch.attempts else BATCH_HEADER_SIZE
        return max(1, (self._batch_limit - used) // size)

    def append(self, values: Sequence[bytes], run: Run, now: float, timestamp_ms: int) -> int:
        """Add values of one size, not more than ``capacity`` said; the partition that they went to."""
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
        queue.queued_bytes += added
        self.buffered_bytes += added
        self.waiting += len(values)
        self._sticky_bytes += added
        if batch.is_full or self._sticky_bytes >= self._batch_limit:
            self._move_on()
        return queue.partition

    def drain(self, partitions: Iterable[int], now: float) -> list[ProducerBatch]:
        """What goes in one request to the leader of these partitions: a batch of each, first come first."""
        drained: list[ProducerBatch] = []
        size = 0
        for partition in partitions:
            queue = self._queues[partition]
            if not self._is_ready(queue, now):
                continue
            batch = queue.batches[0]
            if drained and size + batch.size > self._config.max_request_size:
                break
            size += batch.size
            queue.batches.popleft()
            queue.queued_bytes -= batch.size
            queue.in_flight.append(batch)
            if not batch.attempts:
                batch.is_full = True
                batch.sequence = queue.next_sequence
                queue.next_sequence = (queue.next_sequence + batch.count) % _SEQUENCES
            batch.attempts += 1
            drained.append(batch)
        return drained

    def has_ready(self, partitions: Iterable[int], now: float) -> bool:
        return any(self._is_ready(self._queues[partition], now) for partition in partitions)

    def ready_in_s(self, partitions: Iterable[int], now: float) -> float | None:
        """How long until a batch of these partitions becomes ready by itself; None if there is none."""
        waits = [
            max(batch.retry_at_s, 0 if batch.attempts else batch.created_s + self._config.linger_s) - now
            for partition in partitions
            if (batches := self._queues[partition].batches)
            for batch in (batches[0],)
        ]
        return max(0.0, min(waits)) if waits else None

    def requeue(self, batch: ProducerBatch, retry_at_s: float) -> None:
        """It goes again, before everything that was to come after it."""
        queue = self._queues[batch.partition]
        queue.in_flight.remove(batch)
        batch.retry_at_s = retry_at_s
        queue.queued_bytes += batch.size
        place = 0
        while place < len(queue.batches) and (other := queue.batches[place]).attempts:
            if (batch.sequence - other.sequence) % _SEQUENCES > _SEQUENCES // 2:
                break
            place += 1
        queue.batches.insert(place, batch)

    def finish(self, batch: ProducerBatch) -> None:
        """It is delivered or given up: its memory is free."""
        queue = self._queues[batch.partition]
        queue.in_flight.remove(batch)
        queue.is_known = True
        self._forget(batch)

    def is_first_in_flight(self, batch: ProducerBatch) -> bool:
        """Whether everything that was sent to its partition before it is settled."""
        queue = self._queues[batch.partition]
        earlier = [*queue.in_flight, *(each for each in queue.batches if each.attempts)]
        return all(each is batch or (batch.sequence - each.sequence) % _SEQUENCES > _SEQUENCES // 2 for each in earlier)

    def observe_ratio(self, batch: ProducerBatch, sent_bytes: int) -> None:
        """What compression made of a batch tells how much fits into the next ones."""
        self._ratio += (sent_bytes / batch.size - self._ratio) * _RATIO_STEP

    def take_expired(self, created_before_s: float) -> list[ProducerBatch]:
        """Batches that wait since before this time are taken out."""
        expired = [batch for batch in self._queued() if batch.created_s < created_before_s]
        for batch in expired:
            queue = self._queues[batch.partition]
            queue.batches.remove(batch)
            queue.queued_bytes -= batch.size
            self._forget(batch)
        return expired

    @property
    def _batch_limit(self) -> int:
        return int(min(self._config.batch_size / self._ratio, self._config.max_request_size))

    def _queued(self) -> Iterator[ProducerBatch]:
        for queue in self._queues.values():
            yield from queue.batches

    def _forget(self, batch: ProducerBatch) -> None:
        self.buffered_bytes -= batch.size
        self.waiting -= batch.count
        if not self.buffered_bytes:
            self.buffered_bytes = 0

    def _is_ready(self, queue: _Queue, now: float) -> bool:
        if not queue.batches:
            return False
        batch = queue.batches[0]
        if batch.attempts:
            return not queue.in_flight and now >= batch.retry_at_s
        if queue.in_flight and (not queue.is_known or any(each.attempts > 1 for each in queue.in_flight)):
            return False
        return (
            batch.is_full
            or len(queue.batches) > 1
            or self.is_flushing
            or now >= batch.created_s + self._config.linger_s
            or self.buffered_bytes >= self._config.buffer_memory - self._config.batch_size
        )

    def _move_on(self) -> None:
        available = self._available
        looked_at = [
            available[(self._cursor + step) % len(available)] for step in range(min(_LOOKED_AT, len(available)))
        ]
        best = min(range(len(looked_at)), key=lambda index: looked_at[index].queued_bytes)
        self._sticky = looked_at[best]
        self._cursor = (self._cursor + best + 1) % len(available)
        self._sticky_bytes = 0
