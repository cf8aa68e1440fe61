"""Waiting records of one topic in a transaction: only those of partitions that the transaction has are sent.

Between two transactions, and after a failure, the accumulator is closed: records that wait are dropped, and a batch
whose request fails is not sent again. All partitions have the same producer.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from barnabas.clients.producer.stream_batches import StreamAccumulator, StreamBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from barnabas.clients.producer.batch import ProducerId
    from barnabas.clients.producer.config import ProducerConfig

__all__ = ["TransactionalAccumulator"]


class TransactionalAccumulator(StreamAccumulator):
    """``may_send`` says whether a partition belongs to the transaction.

    ``lost_sequence`` is called when a batch that was sent is given up, so that the next one of its partition can't
    continue the sequence.
    """

    def __init__(
        self,
        partitions: Iterable[int],
        config: ProducerConfig,
        *,
        producer: ProducerId,
        may_send: Callable[[int], bool],
        lost_sequence: Callable[[], None],
    ) -> None:
        super().__init__(partitions, config, producer=producer)
        self._may_send = may_send
        self._lost_sequence = lost_sequence
        self._is_open = True
        self.idle = asyncio.Event()
        """Set while no batch is in flight."""
        self.idle.set()

    def open(self, producer: ProducerId) -> None:
        """Begin a transaction. Sequences restart if it has another producer, or another epoch of it."""
        self._is_open = True
        self.is_flushing = False
        if producer == self._first_producer:
            return
        self._first_producer = producer
        for queue in self._queues.values():
            queue.is_known = False
        self.assign_producer(list(self._queues), producer)

    def close(self) -> None:
        """Drop waiting records. Batches in flight stay until their requests are answered or lost."""
        self._is_open = False
        for partition in self._queues:
            self._drop(self.take_queued(partition))

    # --- what the sender calls

    def drain(self, partitions: Iterable[int], now: float) -> list[StreamBatch]:
        drained = super().drain(filter(self._may_send, partitions), now)
        if drained:
            self.idle.clear()
        return drained

    def has_ready(self, partitions: Iterable[int], now: float) -> bool:
        return super().has_ready(filter(self._may_send, partitions), now)

    def ready_in_s(self, partitions: Iterable[int], now: float) -> float | None:
        return super().ready_in_s(filter(self._may_send, partitions), now)

    def requeue(self, batch: StreamBatch, retry_at_s: float) -> None:
        if self._is_open:
            super().requeue(batch, retry_at_s)
        else:
            super().finish(batch)
            self._lost_sequence()
        self._note_idle()

    def finish(self, batch: StreamBatch) -> None:
        super().finish(batch)
        self._note_idle()

    def divide(self, batch: StreamBatch) -> None:
        super().divide(batch)
        if not self._is_open:
            self.close()
        self._note_idle()

    def forget_producer(self, partition: int) -> None:
        """Note that a batch was given up. The transaction ends, and the next one has another epoch."""
        self._lost_sequence()

    def take_expired(self, created_before_s: float) -> list[StreamBatch]:
        expired = super().take_expired(created_before_s)
        self._drop(expired)
        return expired

    def _drop(self, batches: Iterable[StreamBatch]) -> None:
        if any(batch.attempts for batch in batches):
            self._lost_sequence()

    def _note_idle(self) -> None:
        if not any(queue.in_flight for queue in self._queues.values()):
            self.idle.set()
