"""A producer of a stream of records for one topic: the caller adds lists of records, and waits only for memory.

The first batch that can't be delivered ends the stream: ``failure`` says why. Batches that were in flight at that time
may be in the topic nevertheless. A batch that is too large for the topic is divided; a single record is not.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from barnabas.clients.errors import UnsupportedVersion
from barnabas.clients.producer.batch import NO_PRODUCER, ProducerId
from barnabas.clients.producer.producer_ids import request_producer_id
from barnabas.clients.producer.sender import Sender
from barnabas.clients.producer.stream_batches import Pair, StreamAccumulator, StreamBatch, StreamRecord
from barnabas.clients.topic_metadata import TopicMetadataSource
from barnabas.common.murmur2 import partition_for_key

if TYPE_CHECKING:
    from barnabas.clients.network_client import NetworkClient
    from barnabas.clients.producer.config import ProducerConfig

__all__ = ["StreamProducer"]

T = TypeVar("T")

_KEYS_REMEMBERED = 65_536


class StreamProducer:
    """Use it as ``async with``. ``delivered`` receives each acknowledged batch."""

    def __init__(
        self,
        network: NetworkClient,
        topic: str,
        config: ProducerConfig,
        delivered: Callable[[StreamBatch], None],
        *,
        epoch_time: Callable[[], float] = time.time,
    ) -> None:
        self.topic = topic
        self.failure: Exception | None = None
        """Why a batch could not be delivered: an AdminError or a ClientError. Then nothing more is sent."""
        self.partitions: Sequence[int] = ()
        self._network = network
        self._config = config
        self._delivered = delivered
        self._epoch_time = epoch_time
        self._loop = asyncio.get_running_loop()
        self._source = TopicMetadataSource(network, topic)
        self._partition_of_key: dict[bytes, int] = {}
        self._accumulator: StreamAccumulator
        self._sender: Sender[StreamBatch]

    async def open(self) -> None:
        """Connect. Raise AdminError for an unusable topic, ClientError without an answer."""
        metadata = await self._source.load()
        self.partitions = metadata.partitions
        producer = NO_PRODUCER if self._config.idempotence is False else await self.new_producer()
        self._accumulator = self._new_accumulator(producer)
        self._sender = Sender(
            self._network, self._source, self._config, self._accumulator, lambda batch, _: self._delivered(batch),
            recovery=self,
        )  # fmt: skip
        self._sender.start(metadata)

    def _new_accumulator(self, producer: ProducerId) -> StreamAccumulator:
        return StreamAccumulator(self.partitions, self._config, producer=producer)

    @property
    def waiting(self) -> int:
        """The number of records that are neither delivered nor given up."""
        return self._accumulator.waiting

    @property
    def is_full(self) -> bool:
        """Whether the memory for unsent records is used up: wait for ``room`` before adding more."""
        return self._accumulator.is_full

    def now_ms(self) -> int:
        return int(self._epoch_time() * 1000)

    def append_values(self, values: Sequence[bytes], timestamp_ms: int, *, partition: int | None = None) -> None:
        """Add values as records without keys, in their order."""
        self._wake(self._accumulator.append_values(values, timestamp_ms, self._loop.time(), partition))

    def append(self, records: Sequence[StreamRecord], *, partition: int | None = None) -> None:
        """Add records. Without ``partition``, a key always goes to the partition that Kafka's producer chooses."""
        now = self._loop.time()
        if partition is not None or len(self.partitions) == 1:
            self._wake(self._accumulator.append(records, now, partition))
            return
        for chosen, its_records in self._by_partition(records, [record.key for record in records]).items():
            self._wake(self._accumulator.append(its_records, now, chosen))

    def append_pairs(self, pairs: Sequence[Pair], timestamp_ms: int, *, partition: int | None = None) -> None:
        """Add records of these keys and values, as ``append`` does."""
        now = self._loop.time()
        if partition is not None or len(self.partitions) == 1:
            self._wake(self._accumulator.append_pairs(pairs, timestamp_ms, now, partition))
            return
        for chosen, its_pairs in self._by_partition(pairs, [key for key, _ in pairs]).items():
            self._wake(self._accumulator.append_pairs(its_pairs, timestamp_ms, now, chosen))

    async def room(self) -> None:
        """Wait until something was delivered, or an error occurs."""
        self._sender.progressed.clear()
        self._sender.wake_all()
        if self.failure is None:
            await self._sender.progressed.wait()

    async def flush(self) -> None:
        """Wait until everything is delivered, or an error occurs."""
        self._accumulator.is_flushing = True
        while self._accumulator.waiting and self.failure is None:
            await self.room()
        self._accumulator.is_flushing = False

    async def close(self) -> None:
        """Close, and drop undelivered records: call ``flush`` first."""
        await self._sender.close()

    def _by_partition(self, records: Sequence[T], keys: Sequence[bytes | None]) -> dict[int | None, list[T]]:
        """Group records by the partition of their key; None for those without."""
        known, count = self._partition_of_key, len(self.partitions)
        if len(known) > _KEYS_REMEMBERED:
            known.clear()
        chosen: dict[int | None, list[T]] = {None: [], **{partition: [] for partition in range(count)}}
        for key, record in zip(keys, records, strict=True):
            if key is None:
                chosen[None].append(record)
                continue
            partition = known.get(key)
            if partition is None:
                partition = known[key] = partition_for_key(key, count)
            chosen[partition].append(record)
        return {partition: its_records for partition, its_records in chosen.items() if its_records}

    def _wake(self, partitions: set[int]) -> None:
        for partition in partitions:
            self._sender.wake(partition)

    # --- calls of the sender (Recovery)

    async def new_producer(self) -> ProducerId:
        """Return a producer id; ``NO_PRODUCER`` if the cluster has none and idempotence is not required."""
        try:
            return await request_producer_id(self._network, backoff_s=self._config.retry_backoff_s)
        except UnsupportedVersion:
            if self._config.idempotence:
                raise
            return NO_PRODUCER

    def divide(self, batch: StreamBatch) -> None:
        self._accumulator.divide(batch)

    def gave_up(self, batch: StreamBatch, error: Exception) -> None:
        self._fail(error)

    def sender_ended(self, error: Exception) -> None:
        self._fail(error)

    def _fail(self, error: Exception) -> None:
        self.failure = self.failure or error
        self._sender.progressed.set()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
