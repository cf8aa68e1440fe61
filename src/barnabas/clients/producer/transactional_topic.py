"""The records of one topic in a producer's transactions. Its sender stays from one transaction to the next."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from barnabas.clients.errors import RequestTimedOut
from barnabas.clients.producer.stream_producer import StreamProducer
from barnabas.clients.producer.transaction_verdicts import produce_error
from barnabas.clients.producer.transactional_accumulator import TransactionalAccumulator
from barnabas.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.clients.network_client import NetworkClient
    from barnabas.clients.producer.batch import ProducerId
    from barnabas.clients.producer.config import ProducerConfig
    from barnabas.clients.producer.stream_batches import StreamAccumulator, StreamBatch
    from barnabas.clients.producer.transaction_errors import TransactionError
    from barnabas.clients.producer.transaction_manager import TransactionManager

__all__ = ["TransactionalTopic"]

_VERSION_1_MAX = 11
"""The last version of Produce whose partitions were added before (KIP-890)."""


class TransactionalTopic(StreamProducer):
    """``touched`` is called when the transaction has records for new partitions, ``failed`` when it can't be committed.

    After ``stop`` nothing is sent until ``begin``.
    """

    def __init__(
        self,
        network: NetworkClient,
        topic: str,
        config: ProducerConfig,
        manager: TransactionManager,
        delivered: Callable[[StreamBatch], None],
        *,
        touched: Callable[[], None],
        failed: Callable[[TransactionError], None],
        epoch_time: Callable[[], float] = time.time,
    ) -> None:
        # Batches that are too old are taken out in take_expired: they abort the transaction, and not the sender.
        super().__init__(
            network, topic, replace(config, delivery_timeout_s=float("inf")), delivered, epoch_time=epoch_time
        )
        self.is_ended = False
        """Whether the sender has failed. Another object must take its place."""
        self._delivery_timeout_s = config.delivery_timeout_s
        self._manager = manager
        self._touched = touched
        self._failed = failed
        self._waiting_records: TransactionalAccumulator

    async def new_producer(self) -> ProducerId:
        return self._manager.producer

    def _new_accumulator(self, producer: ProducerId) -> StreamAccumulator:
        self._waiting_records = TransactionalAccumulator(
            self.partitions,
            self._config,
            producer=producer,
            may_send=lambda partition: self._manager.may_send(TopicPartition(self.topic, partition)),
            lost_sequence=self._manager.lost_sequence,
        )
        return self._waiting_records

    def begin(self) -> None:
        """Take records of another transaction."""
        self.failure = None
        self._sender.version_max = None if self._manager.is_version_2 else _VERSION_1_MAX
        self._waiting_records.open(self._manager.producer)

    def stop(self, error: Exception | None = None) -> None:
        """Drop what was not sent, because of this error, or because the transaction is over."""
        if error is not None:
            super()._fail(error)
        self._waiting_records.close()

    async def settled(self) -> None:
        """Wait until no request with records is in flight."""
        await self._waiting_records.idle.wait()

    def wake_all(self) -> None:
        """Send records of partitions that were added to the transaction."""
        self._sender.wake_all()

    def take_expired(self) -> None:
        """Fail if records wait longer than delivery.timeout.ms."""
        expired = self._waiting_records.take_expired(self._loop.time() - self._delivery_timeout_s)
        if expired:
            reason = self._sender.why_waiting(expired[0].partition)
            self._fail(RequestTimedOut(
                f"{sum(batch.count for batch in expired):,} records of topic {self.topic} were not delivered in "
                f"{self._delivery_timeout_s:g} s (delivery.timeout.ms)" + (f": {reason}" if reason else "")
            ))  # fmt: skip

    def _wake(self, partitions: set[int]) -> None:
        self._manager.touch(TopicPartition(self.topic, partition) for partition in partitions)
        self._touched()
        super()._wake(partitions)

    # --- failures

    def sender_ended(self, error: Exception) -> None:
        self.is_ended = True
        self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._failed(produce_error(error))
