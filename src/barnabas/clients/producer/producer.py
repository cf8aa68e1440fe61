"""A producer of records without keys for one topic, for asyncio: it measures a cluster, or generates load for a test.

``append`` adds as many records as fit now and returns their number; ``room`` waits until some fit. The caller creates
the records and decides when. It receives their results by ``delivered``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from barnabas.clients.errors import UnsupportedVersion
from barnabas.clients.producer.accumulator import RecordAccumulator
from barnabas.clients.producer.batch import NO_PRODUCER, ProducerBatch, ProducerId, Run
from barnabas.clients.producer.producer_ids import request_producer_id
from barnabas.clients.producer.sender import Sender, SenderStatistics
from barnabas.clients.topic_metadata import TopicMetadataSource

if TYPE_CHECKING:
    from barnabas.clients.network_client import NetworkClient
    from barnabas.clients.producer.config import ProducerConfig

__all__ = ["TopicProducer"]


class TopicProducer:
    """Use it as ``async with``; it accepts records inside the block."""

    def __init__(
        self,
        network: NetworkClient,
        topic: str,
        config: ProducerConfig,
        delivered: Callable[[ProducerBatch, float], None],
        *,
        epoch_time: Callable[[], float] = time.time,
    ) -> None:
        self.topic = topic
        self.is_idempotent = False
        self._network = network
        self._config = config
        self._delivered = delivered
        self._epoch_time = epoch_time
        self._source = TopicMetadataSource(network, topic)
        self._accumulator: RecordAccumulator
        self._sender: Sender[ProducerBatch]

    async def open(self) -> None:
        """Connect. Raise AdminError for an unusable topic, ClientError without an answer."""
        metadata = await self._source.load()
        producer = NO_PRODUCER if self._config.idempotence is False else await self._producer_id()
        self.is_idempotent = producer is not NO_PRODUCER
        self._accumulator = RecordAccumulator(metadata.partitions, self._config, producer=producer)
        self._sender = Sender(self._network, self._source, self._config, self._accumulator, self._delivered)
        self._sender.start(metadata)

    @property
    def failure(self) -> Exception | None:
        """Why records could not be delivered: an AdminError or a ClientError. Then nothing more is sent."""
        return self._sender.failure

    @property
    def statistics(self) -> SenderStatistics:
        return self._sender.statistics

    @property
    def waiting(self) -> int:
        """The number of records that are neither delivered nor given up."""
        return self._accumulator.waiting

    def capacity(self, value_size: int) -> int:
        """Return how many records of this size ``append`` accepts now."""
        return self._accumulator.capacity(value_size)

    def append(self, values: Sequence[bytes], first_s: float, interval_s: float, now: float) -> None:
        """Add records with values of one size, at most ``capacity`` of them, due at an interval since ``first_s``.

        Times are the event loop's; ``now`` is the present time.
        """
        run = Run(first_s, interval_s, len(values))
        self._sender.wake(self._accumulator.append(values, run, now, int(self._epoch_time() * 1000)))

    async def room(self) -> None:
        """Wait until memory is free, or an error occurs."""
        self._sender.progressed.clear()
        self._sender.wake_all()
        if self._sender.failure is None:
            await self._sender.progressed.wait()

    async def flush(self) -> None:
        """Wait until everything is delivered, or an error occurs."""
        self._accumulator.is_flushing = True
        while self._accumulator.waiting and self._sender.failure is None:
            await self.room()
        self._accumulator.is_flushing = False

    async def close(self) -> None:
        """Close, and drop undelivered records: call ``flush`` first."""
        await self._sender.close()

    async def _producer_id(self) -> ProducerId:
        """Return a producer id; ``NO_PRODUCER`` if the cluster has none and idempotence is not required."""
        try:
            return await request_producer_id(self._network, backoff_s=self._config.retry_backoff_s)
        except UnsupportedVersion:
            if self._config.idempotence:
                raise
            return NO_PRODUCER

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
