"""Write records with keys to a topic, acknowledged by all replicas in sync, in each partition in the order of calls.

One request is under way for each partition, and takes along what has gathered meanwhile. A batch goes again until the
cluster has it, or its time is over: never past a later one. So that the cluster has it once, however often it was sent,
and that no copy of it that was stuck somewhere turns up behind later records, the writer is an idempotent producer,
wherever the cluster gives it a producer id.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from barnabas.clients.admin.errors import AdminError, admin_error
from barnabas.clients.errors import ClientError, UnsupportedVersion
from barnabas.clients.leader_tracker import start_guarded
from barnabas.clients.producer.batch import NO_PRODUCER, ProducerId
from barnabas.clients.topic_metadata import TopicMetadata, TopicMetadataSource
from barnabas.common.error_code import ErrorCode
from barnabas.common.errors import Transient
from barnabas.common.murmur2 import partition_for_key
from barnabas.common.uuid import Uuid
from barnabas.connect.errors import ConnectError
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.record_batch import NO_SEQUENCE, increment_sequence
from barnabas.protocol.record_batch_builder import RecordBatchBuilder

if TYPE_CHECKING:
    from barnabas.clients.network_client import NetworkClient

__all__ = ["TopicWriter", "WriteFailed"]

log = logging.getLogger(__name__)

_LAST_VERSION_BY_NAME = 12
_INIT_VERSION = 5
_BATCH_BYTES_MAX = 1_000_000
"""Just below the default of ``max.message.bytes``."""
_ACKS_ALL = -1
_PASSING = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    }
)
_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
_PRODUCER_FORGOTTEN = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
_MAY_NOT_BE_IDEMPOTENT = frozenset(
    {ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
)


class WriteFailed(ConnectError):
    """Not all records were acknowledged. What was under way may be in the topic all the same."""


class _Write:
    """One call: ``offsets`` fill up as partitions are acknowledged."""

    __slots__ = ("done", "left", "offsets")

    def __init__(self, count: int) -> None:
        self.offsets = [-1] * count
        self.left = count
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wrote(self, place: int, offset: int) -> None:
        self.offsets[place] = offset
        self.left -= 1
        if not self.left and not self.done.done():
            self.done.set_result(None)

    def fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)


class _Entry(NamedTuple):
    write: _Write
    place: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    give_up_at: float


class TopicWriter:
    """``write`` may be called from several tasks at a time."""

    def __init__(self, network: NetworkClient, topic: str, *, epoch_time: Callable[[], float] = time.time) -> None:
        self.topic = topic
        self._network = network
        self._source = TopicMetadataSource(network, topic)
        self._metadata: TopicMetadata | None = None
        self._partition_count = 0
        self._epoch_time = epoch_time
        self._lanes: dict[int, _Lane] = {}

    def start(self, metadata: TopicMetadata) -> None:
        self._metadata = metadata
        self._partition_count = len(metadata.partitions)

    async def write(self, records: Sequence[tuple[bytes | None, bytes | None]], *, timeout_s: float) -> list[int]:
        """The offsets of the records. A key always goes to the partition that Kafka's producer takes for it.

        Records of one call that go to one partition are in one batch if they fit, so that they are there together.
        Raises WriteFailed when they were not acknowledged in time, or never will be.
        """
        if not records:
            return []
        if not self._partition_count:
            raise WriteFailed(f"topic {self.topic} can't be written before it was read to its end once")
        loop = asyncio.get_running_loop()
        write = _Write(len(records))
        timestamp_ms = int(self._epoch_time() * 1000)
        give_up_at = loop.time() + timeout_s
        lanes: set[_Lane] = set()
        for place, (key, value) in enumerate(records):
            lane = self._lane(partition_for_key(key, self._partition_count) if key is not None else 0)
            lane.queue.append(_Entry(write, place, key, value, timestamp_ms, give_up_at))
            lanes.add(lane)
        for lane in lanes:
            lane.wake()
        try:
            async with asyncio.timeout(timeout_s):
                await write.done
        except TimeoutError as error:
            trouble = next((lane.trouble for lane in lanes if lane.trouble), "no answer came")
            raise WriteFailed(
                f"{len(records):,} records were not written to topic {self.topic} in {timeout_s:g} s: {trouble}"
            ) from error
        return write.offsets

    async def close(self) -> None:
        """What is still under way is forgotten."""
        for lane in self._lanes.values():
            await lane.close()

    def _lane(self, partition: int) -> _Lane:
        lane = self._lanes.get(partition)
        if lane is None:
            lane = self._lanes[partition] = _Lane(self, partition)
        return lane

    # --- what lanes ask

    async def metadata(self, *, is_stale: bool) -> TopicMetadata:
        if is_stale or self._metadata is None:
            self._metadata = await self._source.load()
        return self._metadata

    @property
    def network(self) -> NetworkClient:
        return self._network


class _Lane:
    """One partition: what waits for it, and the producer that its batches are from."""

    def __init__(self, writer: TopicWriter, partition: int) -> None:
        self.queue: deque[_Entry] = deque()
        self.trouble = ""
        """Why nothing has come through since the last success."""
        self._writer = writer
        self._partition = partition
        self._producer: ProducerId | None = None
        self._sequence = 0
        self._topic = writer.topic
        self._under_way: list[_Entry] = []
        self._bytes_max = _BATCH_BYTES_MAX
        self._is_stale = False
        self._throttled_until = 0.0
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None

    def wake(self) -> None:
        if self._task is None or self._task.done():
            self._task = start_guarded(self._run(), self._fault)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._give_up([*self._under_way, *self.queue], WriteFailed(f"the writer of topic {self._topic} was closed"))

    def _fault(self, error: Exception) -> None:
        log.error("writing to topic %s failed by a fault", self._topic, exc_info=error)
        self._producer = None
        self._give_up([*self._under_way, *self.queue], error)
        self.queue.clear()

    async def _run(self) -> None:
        while entries := self._next_entries():
            self._under_way = entries
            try:
                await self._deliver(entries)
            except (AdminError, ClientError, TimeoutError) as error:
                if isinstance(error, AdminError) and error.code in _TOO_LARGE and len(entries) > 1:
                    self._bytes_max = max(1, self._bytes_max // 2)
                    self.queue.extendleft(reversed(entries))
                    continue
                self._producer = None  # Whether the cluster has the batch is not known, nor what its next sequence is.
                self._give_up(entries, self._failure(error))
            while self.queue and self.queue[0].write.done.done():
                self.queue.popleft()  # The rest of a call that has failed.

    def _next_entries(self) -> list[_Entry]:
        """What goes in one batch. A call that waits no more is left out."""
        entries: list[_Entry] = []
        size = 0
        while self.queue:
            entry = self.queue[0]
            if not entry.write.done.done():
                size += len(entry.key or b"") + len(entry.value or b"") + 20
                if entries and size > self._bytes_max:
                    break
                entries.append(entry)
            self.queue.popleft()
        return entries

    async def _deliver(self, entries: list[_Entry]) -> None:
        config = self._writer.network.config
        pause_s = float(config.values["retry.backoff.ms"]) / 1000
        pause_max_s = float(config.values["retry.backoff.max.ms"]) / 1000
        batch: bytes | None = None
        async with asyncio.timeout_at(max(entry.give_up_at for entry in entries)):
            while True:
                try:
                    if batch is None:
                        batch = self._encode(entries, await self._producer_id())
                    base_offset = await self._send(batch)
                    break
                except AdminError as error:
                    if error.code in _PRODUCER_FORGOTTEN and self._producer not in (None, NO_PRODUCER):
                        self._producer = batch = None
                    elif error.code not in _PASSING:
                        raise
                    self.trouble = str(error)
                except ClientError as error:
                    if not isinstance(error, Transient):
                        raise
                    self.trouble = str(error)
                self._is_stale = True
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, pause_max_s)
        self.trouble = ""
        self._sequence = increment_sequence(self._sequence, len(entries))
        for step, entry in enumerate(entries):
            entry.write.wrote(entry.place, base_offset + step if base_offset >= 0 else -1)

    def _encode(self, entries: list[_Entry], producer: ProducerId) -> bytes:
        builder = RecordBatchBuilder(
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            base_sequence=NO_SEQUENCE if producer == NO_PRODUCER else self._sequence,
        )
        for step, entry in enumerate(entries):
            builder.append(step, entry.timestamp_ms, entry.key, entry.value)
        return builder.build()

    async def _send(self, batch: bytes) -> int:
        """The offset of its first record. Raises AdminError, ClientError."""
        topic = self._topic
        if (throttled_s := self._throttled_until - self._loop.time()) > 0:
            await asyncio.sleep(throttled_s)
        metadata = await self._writer.metadata(is_stale=self._is_stale)
        self._is_stale = False
        address = metadata.address_of(self._partition)
        if address is None:
            raise AdminError(ErrorCode.LEADER_NOT_AVAILABLE, "there is no leader", f"{topic}-{self._partition}")
        connection = await self._writer.network.connection_to(address)
        version = connection.version_of(ProduceRequest.API_KEY)
        if metadata.topic_id == Uuid.ZERO:
            version = min(version, _LAST_VERSION_BY_NAME)
        part = PartitionProduceData(index=self._partition, records=batch)
        request = ProduceRequest(
            acks=_ACKS_ALL,
            timeout_ms=int(self._writer.network.config.values["request.timeout.ms"]),
            topic_data=[TopicProduceData(name=topic, topic_id=metadata.topic_id, partition_data=[part])],
        )
        response = await connection.request(request, version=version)
        self._throttled_until = self._loop.time() + response.throttle_time_ms / 1000
        (answer,) = [each for answered in response.responses for each in answered.partition_responses]
        if answer.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            return int(answer.base_offset)
        raise admin_error(answer.error_code, answer.error_message, f"{topic}-{self._partition}")

    async def _producer_id(self) -> ProducerId:
        """A new one after every loss of the old one; its first batch has sequence 0."""
        if self._producer is not None:
            return self._producer
        self._sequence = 0
        try:
            connection = await self._writer.network.connect()
            version = min(connection.version_of(InitProducerIdRequest.API_KEY), _INIT_VERSION)
        except UnsupportedVersion:
            self._producer = NO_PRODUCER
            return NO_PRODUCER
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        response = await connection.request(request, version=version)
        if response.error_code in _MAY_NOT_BE_IDEMPOTENT:
            log.info(
                "topic %s is written without a producer id, which this worker may not have (IDEMPOTENT_WRITE on the "
                "cluster): a record that is sent again may be there twice",
                self._topic,
            )
            self._producer = NO_PRODUCER
        elif response.error_code:
            raise admin_error(response.error_code, None, "a producer id")
        else:
            self._producer = ProducerId(response.producer_id, response.producer_epoch)
        return self._producer

    def _give_up(self, entries: list[_Entry], error: Exception) -> None:
        for entry in entries:
            entry.write.fail(error)

    def _failure(self, error: Exception) -> WriteFailed:
        why = (self.trouble or "no answer came in time") if isinstance(error, TimeoutError) else str(error)
        hint = ""
        if isinstance(error, AdminError) and error.code in _TOO_LARGE:
            hint = " -> raise max.message.bytes of the topic, or make the configuration smaller"
        elif isinstance(error, AdminError) and error.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            hint = " -> the worker's principal needs WRITE on it"
        return WriteFailed(f"topic {self._topic} can't be written: {why}{hint}")
