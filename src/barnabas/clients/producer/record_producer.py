"""A producer of records with keys for one topic: each call waits until the cluster has its records.

All replicas in sync acknowledge records, which are in each partition in the order of the calls. One request is
in flight to each leader, and the next one includes all records that wait by then. A batch is retried until the cluster
has it, or its calls no longer wait, and never after a later one was sent. The producer is idempotent if the cluster
returns a producer id. So the cluster has a batch once, however often it was sent, and a delayed copy of it never
appears after later records.

The calls concerned receive errors. Later calls are attempted independently.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from barnabas.clients.admin.errors import AdminError
from barnabas.clients.errors import ClientError, UnsupportedVersion
from barnabas.clients.producer.batch import NO_PRODUCER, ProducerId
from barnabas.clients.producer.config import ProducerConfig
from barnabas.clients.producer.keyed_batches import KeyedAccumulator, KeyedBatch, KeyedRecord, ProduceCall
from barnabas.clients.producer.producer_ids import request_producer_id
from barnabas.clients.producer.sender import Sender
from barnabas.clients.topic_metadata import TopicMetadata, TopicMetadataSource
from barnabas.common.error_code import ErrorCode
from barnabas.common.murmur2 import partition_for_key

if TYPE_CHECKING:
    from barnabas.clients.network_client import NetworkClient

__all__ = ["NotDelivered", "RecordProducer"]

log = logging.getLogger(__name__)

_BATCH_BYTES_MAX = 1_000_000
"""Just below the default of ``max.message.bytes``."""
_MAY_NOT_BE_IDEMPOTENT = frozenset(
    {ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
)


class NotDelivered(Exception):
    """Not all records were acknowledged. The others may be in the topic nevertheless.

    ``__cause__`` is the AdminError, ClientError or TimeoutError that says why.
    """


class RecordProducer:
    """``produce`` may be called concurrently, after ``start``."""

    def __init__(self, network: NetworkClient, topic: str, *, epoch_time: Callable[[], float] = time.time) -> None:
        self.topic = topic
        self._network = network
        self._source = TopicMetadataSource(network, topic)
        self._epoch_time = epoch_time
        self._metadata: TopicMetadata | None = None
        self._running: _Running | None = None
        self._closing: set[asyncio.Task[None]] = set()

    def start(self, metadata: TopicMetadata) -> None:
        """Start. Keys are spread over the partitions that exist now."""
        self._metadata = metadata

    async def produce(self, records: Sequence[tuple[bytes | None, bytes | None]], *, timeout_s: float) -> list[int]:
        """Write records and return their offsets; -1 for a record that the cluster already had.

        A key always maps to the partition that Kafka's producer chooses for it, a record without a key to the first.

        Raises NotDelivered when they were not acknowledged in time, or never will be.
        """
        if not records:
            return []
        running = self._run()
        call = ProduceCall(len(records))
        by_partition = self._by_partition(call, records)
        running.append(call, by_partition)
        try:
            async with asyncio.timeout(timeout_s):
                await call.done
        except TimeoutError as error:
            reasons = (running.sender.why_waiting(partition) for partition in by_partition)
            raise NotDelivered(
                f"{len(records):,} records were not written to topic {self.topic} in {timeout_s:g} s: "
                f"{next(filter(None, reasons), 'no answer came')}"
            ) from error
        except (AdminError, ClientError) as error:
            raise NotDelivered(f"topic {self.topic} can't be written: {error}") from error
        finally:
            running.end(call, by_partition)
        return call.offsets

    async def close(self) -> None:
        """Close. Calls that still wait fail with NotDelivered."""
        if self._running is not None:
            self._stop(self._running, NotDelivered(f"the producer of topic {self.topic} was closed"))
        await asyncio.gather(*self._closing)

    def _by_partition(
        self, call: ProduceCall, records: Sequence[tuple[bytes | None, bytes | None]]
    ) -> dict[int, list[KeyedRecord]]:
        assert self._metadata is not None
        count = len(self._metadata.partitions)
        timestamp_ms = int(self._epoch_time() * 1000)
        by_partition: dict[int, list[KeyedRecord]] = {}
        for place, (key, value) in enumerate(records):
            partition = partition_for_key(key, count) if key is not None else 0
            by_partition.setdefault(partition, []).append(KeyedRecord(call, place, key, value, timestamp_ms))
        return by_partition

    def _run(self) -> _Running:
        if self._metadata is None:
            raise NotDelivered(f"topic {self.topic} can't be written before its partitions are known")
        if self._running is None:
            self._running = _Running(self._network, self._source, self._metadata, self._ended)
        return self._running

    def _ended(self, running: _Running, error: Exception) -> None:
        """Note that the sender has ended; the next call starts another one."""
        if not isinstance(error, (AdminError, ClientError)):
            log.error("writing to topic %s failed unexpectedly", self.topic, exc_info=error)
        self._stop(running, error)

    def _stop(self, running: _Running, error: Exception) -> None:
        if self._running is running:
            self._running = None
        running.fail(error)
        task = asyncio.get_running_loop().create_task(running.sender.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


class _Running:
    """A sender and its records. It survives failed batches; ``ended`` is called when the sender itself fails."""

    def __init__(
        self,
        network: NetworkClient,
        source: TopicMetadataSource,
        metadata: TopicMetadata,
        ended: Callable[[_Running, Exception], None],
    ) -> None:
        self._network = network
        self._topic = source.topic
        self._ended = ended
        self._calls: set[ProduceCall] = set()
        self._config = _config(network)
        self._accumulator = KeyedAccumulator(metadata.partitions, self._config)
        self.sender: Sender[KeyedBatch] = Sender(
            network, source, self._config, self._accumulator, lambda batch, now: batch.delivered(), recovery=self
        )
        self.sender.start(metadata)

    def append(self, call: ProduceCall, by_partition: dict[int, list[KeyedRecord]]) -> None:
        self._calls.add(call)
        now = asyncio.get_running_loop().time()
        for partition, records in by_partition.items():
            self._accumulator.append(partition, records, now)
            self.sender.wake(partition)

    def end(self, call: ProduceCall, by_partition: dict[int, list[KeyedRecord]]) -> None:
        self._calls.discard(call)
        call.done.cancel()  # Cancelling an ended one has no effect.
        if call.done.cancelled() or call.done.exception() is not None:
            self._accumulator.withdraw(by_partition)

    def fail(self, error: Exception) -> None:
        for call in list(self._calls):
            call.fail(error)

    # --- calls of a sender that continues (Recovery)

    async def new_producer(self) -> ProducerId:
        try:
            return await request_producer_id(self._network, backoff_s=self._config.retry_backoff_s)
        except UnsupportedVersion:
            return NO_PRODUCER
        except AdminError as error:
            if error.code not in _MAY_NOT_BE_IDEMPOTENT:
                raise
            log.info(
                "topic %s is written without a producer id, which this client may not have (IDEMPOTENT_WRITE on the "
                "cluster): a record that is sent again may be written twice",
                self._topic,
            )
            return NO_PRODUCER

    def divide(self, batch: KeyedBatch) -> None:
        self._accumulator.divide(batch)

    def gave_up(self, batch: KeyedBatch, error: Exception) -> None:
        batch.fail(error)

    def sender_ended(self, error: Exception) -> None:
        self._ended(self, error)


def _config(network: NetworkClient) -> ProducerConfig:
    """Return the settings. A call has its own time limit, so none applies here."""
    values = network.config.values
    return ProducerConfig(
        batch_size=_BATCH_BYTES_MAX,
        linger_s=0.0,
        max_in_flight=1,
        request_timeout_ms=int(values["request.timeout.ms"]),
        delivery_timeout_s=float("inf"),
        retry_backoff_s=float(values["retry.backoff.ms"]) / 1000,
        retry_backoff_max_s=float(values["retry.backoff.max.ms"]) / 1000,
    )
