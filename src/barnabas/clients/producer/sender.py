"""Sends what the accumulator holds: one task for each leader, several requests under way on each connection.

What a broker says decides: delivered, to be sent again (after the leader was looked up anew, where it moved), or given
up. The first batch that is given up ends everything: ``failure`` says why. A broker that throttles gets nothing more
before its time is over, whether or not it would have held back the answers itself (KIP-219).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from barnabas.clients.admin.errors import AdminError, admin_error
from barnabas.clients.client_config import Address
from barnabas.clients.errors import ClientError, RequestTimedOut
from barnabas.clients.leader_tracker import ThrottleStatistics, TopicFollower, start_guarded
from barnabas.clients.producer.batch import NO_PRODUCER, ProducerBatch, ProducerId
from barnabas.common.error_code import ErrorCode
from barnabas.common.errors import Transient
from barnabas.common.uuid import Uuid
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

if TYPE_CHECKING:
    from barnabas.clients.network_client import NetworkClient
    from barnabas.clients.node_connection import NodeConnection
    from barnabas.clients.producer.accumulator import RecordAccumulator
    from barnabas.clients.producer.config import ProducerConfig
    from barnabas.clients.topic_metadata import TopicMetadata, TopicMetadataSource

__all__ = ["Sender", "SenderStatistics"]

_LEADER_MOVED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
_PASSING = _LEADER_MOVED | {
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
}
_LAST_VERSION_BY_NAME = 12
_CLIENT_WAITS_SINCE = 6
_CHECK_EVERY_S = 0.2


@dataclass(slots=True)
class SenderStatistics(ThrottleStatistics):
    requests: int = 0
    retries: int = 0
    sent_bytes: int = 0
    """Of batches, after compression."""
    retried: dict[str, int] = field(default_factory=dict)
    """Batches sent again, by the reason's name."""


class _Leader:
    """One node, and the partitions that it leads."""

    __slots__ = ("address", "in_flight", "partitions", "task", "throttled_until", "timer", "wake")

    def __init__(self, address: Address) -> None:
        self.address = address
        self.partitions: list[int] = []
        self.in_flight = 0
        self.throttled_until = 0.0
        self.wake = asyncio.Event()
        self.timer: asyncio.TimerHandle | None = None
        self.task: asyncio.Task[None] | None = None


class Sender:
    """``delivered(batch, now)`` is called for each batch that the cluster has taken (or, with acks=0, was sent)."""

    def __init__(
        self,
        network: NetworkClient,
        source: TopicMetadataSource,
        config: ProducerConfig,
        accumulator: RecordAccumulator,
        delivered: Callable[[ProducerBatch, float], None],
        *,
        producer: ProducerId = NO_PRODUCER,
    ) -> None:
        self.statistics = SenderStatistics()
        self.failure: Exception | None = None
        self.progressed = asyncio.Event()
        """Set whenever memory became free, and at the end."""
        self._network = network
        self._source = source
        self._config = config
        self._accumulator = accumulator
        self._delivered = delivered
        self._producer = producer
        self._loop = asyncio.get_running_loop()
        self._leaders: dict[Address, _Leader] = {}
        self._leader_of: dict[int, _Leader] = {}
        self._topic_id = Uuid.ZERO
        self._follower = TopicFollower(
            source,
            take=self._take,
            fail=self._fail,
            passing=_PASSING,
            backoff_s=config.retry_backoff_s,
            backoff_max_s=config.retry_backoff_max_s,
        )
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, metadata: TopicMetadata) -> None:
        self._take(metadata)
        self._tasks = [
            start_guarded(self._follower.follow(), self._fail),
            start_guarded(self._keep_deadlines(), self._fail),
        ]

    async def close(self) -> None:
        """What is still under way is forgotten."""
        tasks = [*self._tasks, *(each.task for each in self._leaders.values() if each.task is not None)]
        for leader in self._leaders.values():
            if leader.timer is not None:
                leader.timer.cancel()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def wake(self, partition: int) -> None:
        """Something was appended for it."""
        leader = self._leader_of.get(partition)
        if leader is not None:
            leader.wake.set()

    def wake_all(self) -> None:
        for leader in self._leaders.values():
            leader.wake.set()

    # --- who leads what

    def _take(self, metadata: TopicMetadata) -> None:
        self._topic_id = metadata.topic_id
        self._leader_of.clear()
        for leader in self._leaders.values():
            leader.partitions = []
        self._accumulator.add_partitions(metadata.partitions)
        for partition in metadata.partitions:
            address = metadata.address_of(partition)
            if address is None:
                self._follower.is_stale.set()
                continue
            leader = self._leader_at(address)
            leader.partitions.append(partition)
            self._leader_of[partition] = leader
        self._accumulator.set_available(self._leader_of.keys())
        self.wake_all()

    def _leader_at(self, address: Address) -> _Leader:
        known = self._leaders.get(address)
        if known is None:
            known = self._leaders[address] = _Leader(address)
            known.task = start_guarded(self._serve(known), self._fail)
        return known

    async def _keep_deadlines(self) -> None:
        while True:
            await asyncio.sleep(_CHECK_EVERY_S)
            expired = self._accumulator.take_expired(self._loop.time() - self._config.delivery_timeout_s)
            if expired:
                self._fail(self._expiry(sum(batch.count for batch in expired)))

    def _expiry(self, count: int) -> Exception:
        """Says why it took so long, if a broker told."""
        within = f"in {self._config.delivery_timeout_s:g} s (delivery.timeout.ms)"
        text = f"{count:,} records were not delivered {within}"
        retried = self.statistics.retried
        why = max(retried, key=retried.__getitem__, default="")
        if why in ErrorCode.__members__:
            return AdminError(ErrorCode[why], f"{text}: {why}", self._source.topic)
        return RequestTimedOut(text + (f": {why}" if why else ""))

    # --- one leader

    async def _serve(self, leader: _Leader) -> None:
        while True:
            await leader.wake.wait()
            leader.wake.clear()
            while self._may_send(leader):
                try:
                    connection = await self._network.connection_to(leader.address)
                    await connection.ready()
                except ClientError as error:
                    if not isinstance(error, Transient):
                        self._fail(error)
                        return
                    self._follower.is_stale.set()
                    self._wake_later(leader, self._config.retry_backoff_s)
                    break
                batches = self._accumulator.drain(self._in_turn(leader), self._loop.time())
                if batches:
                    self._send(leader, connection, batches)

    def _may_send(self, leader: _Leader) -> bool:
        """Whether there is something to be sent now. Else whatever changes that wakes us."""
        if leader.in_flight >= self._config.max_in_flight:
            return False
        now = self._loop.time()
        if leader.throttled_until > now:
            self._wake_later(leader, leader.throttled_until - now)
            return False
        if self._accumulator.has_ready(leader.partitions, now):
            return True
        wait = self._accumulator.ready_in_s(leader.partitions, now)
        if wait:
            self._wake_later(leader, wait)
        return False

    def _in_turn(self, leader: _Leader) -> list[int]:
        """The partitions, another one first each time, so that a full request leaves none out for good."""
        if len(leader.partitions) > 1:
            leader.partitions.append(leader.partitions.pop(0))
        return leader.partitions

    def _wake_later(self, leader: _Leader, after_s: float) -> None:
        at = self._loop.time() + after_s
        if leader.timer is not None:
            if not leader.timer.cancelled() and self._loop.time() < leader.timer.when() <= at:
                return
            leader.timer.cancel()
        leader.timer = self._loop.call_at(at, leader.wake.set)

    def _send(self, leader: _Leader, connection: NodeConnection, batches: list[ProducerBatch]) -> None:
        config = self._config
        by_partition = {batch.partition: batch for batch in batches}
        try:
            version = connection.version_of(ProduceRequest.API_KEY)
            if self._topic_id == Uuid.ZERO:
                version = min(version, _LAST_VERSION_BY_NAME)
            request = self._request(batches)
            self.statistics.requests += 1
            if config.acks == 0:
                connection.tell(request, version=version)
                now = self._loop.time()
                for batch in batches:
                    self._settle(batch, now)
                return
            answer = connection.start(request, version=version)
        except ClientError as error:
            self._lost(batches, error)
            return
        leader.in_flight += 1
        answer.add_done_callback(lambda done: self._answered(leader, by_partition, version, done))

    def _request(self, batches: list[ProducerBatch]) -> ProduceRequest:
        config = self._config
        parts: list[PartitionProduceData] = []
        for batch in batches:
            is_new = batch.attempts == 1
            data = batch.encode(config.compression, config.compression_level, self._producer)
            if is_new and config.compression:
                self._accumulator.observe_ratio(batch, len(data))
            self.statistics.sent_bytes += len(data)
            parts.append(PartitionProduceData(index=batch.partition, records=data))
        return ProduceRequest(
            acks=config.acks,
            timeout_ms=config.request_timeout_ms,
            topic_data=[TopicProduceData(name=self._source.topic, topic_id=self._topic_id, partition_data=parts)],
        )

    # --- what came of it

    def _answered(
        self, leader: _Leader, batches: dict[int, ProducerBatch], version: int, done: asyncio.Future[Any]
    ) -> None:
        leader.in_flight -= 1
        leader.wake.set()
        if done.cancelled():
            return
        error = done.exception()
        if error is not None:
            self._lost(list(batches.values()), error)
            return
        response = done.result()
        now = self._loop.time()
        if response.throttle_time_ms:
            self._throttled(leader, response.throttle_time_ms / 1000, now, waits=version >= _CLIENT_WAITS_SINCE)
        for topic in response.responses:
            for each in topic.partition_responses:
                batch = batches.pop(each.index, None)
                if batch is None:
                    continue
                if each.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                    self._settle(batch, now)
                else:
                    self._refused(batch, admin_error(each.error_code, _told(each), self._source.topic), now)
        for batch in batches.values():
            missing = AdminError(ErrorCode.UNKNOWN_SERVER_ERROR, "the answer leaves it out", self._source.topic)
            self._refused(batch, missing, now)

    def _settle(self, batch: ProducerBatch, now: float) -> None:
        self._accumulator.finish(batch)
        self._delivered(batch, now)
        self.progressed.set()

    def _refused(self, batch: ProducerBatch, error: AdminError, now: float) -> None:
        code = error.code
        is_passing = code in _PASSING or (
            code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not self._accumulator.is_first_in_flight(batch)
        )
        if not is_passing or batch.attempts > self._config.retries:
            self._give_up(batch, error)
            return
        if code in _LEADER_MOVED:
            self._follower.is_stale.set()
        self._again(batch, code.name, now)

    def _lost(self, batches: list[ProducerBatch], error: BaseException) -> None:
        """Whether the node has them is not known."""
        now = self._loop.time()
        self._follower.is_stale.set()
        for batch in batches:
            is_over = now - batch.created_s > self._config.delivery_timeout_s
            if isinstance(error, Transient) and not is_over and batch.attempts <= self._config.retries:
                self._again(batch, type(error).__name__, now)
            else:
                self._give_up(batch, error if isinstance(error, ClientError) else ClientError(str(error)))

    def _again(self, batch: ProducerBatch, why: str, now: float) -> None:
        self.statistics.retries += 1
        self.statistics.retried[why] = self.statistics.retried.get(why, 0) + 1
        backoff = self._config.retry_backoff_s * 2 ** min(batch.attempts - 1, 10)
        self._accumulator.requeue(batch, now + min(backoff, self._config.retry_backoff_max_s))
        self.wake(batch.partition)

    def _give_up(self, batch: ProducerBatch, error: Exception) -> None:
        self._accumulator.finish(batch)
        self._fail(error)

    def _fail(self, error: Exception) -> None:
        if self.failure is None:
            self.failure = error
        self.progressed.set()

    def _throttled(self, leader: _Leader, for_s: float, now: float, *, waits: bool) -> None:
        self.statistics.throttled(for_s)
        if waits:
            leader.throttled_until = max(leader.throttled_until, now + for_s)


def _told(response: Any) -> str | None:
    """The broker's own words; those about single records say more."""
    for each in response.record_errors:
        if each.batch_index_error_message:
            return str(each.batch_index_error_message)
    message: str | None = response.error_message
    return message
