"""Send the accumulator's batches: one task for each leader, several requests in flight on each connection.

The broker's answer decides: a batch is delivered, sent again (after looking up the leader, if it moved), or given
up. The first batch that is given up ends everything: ``failure`` says why. With a ``Recovery`` only that batch is
affected: a batch that is too large is divided, and a producer that the cluster has forgotten is replaced. A broker that
throttles receives nothing more until its time is over, whether or not it would have delayed the answers itself
(KIP-219).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from barnabas.clients.admin.errors import AdminError, admin_error
from barnabas.clients.client_config import Address
from barnabas.clients.errors import ClientError, RequestTimedOut
from barnabas.clients.leader_tracker import UNKNOWN_TOPIC_FOR_S, ThrottleStatistics, TopicFollower, start_guarded
from barnabas.clients.producer.batch import NO_PRODUCER, Batch, ProducerId
from barnabas.common.error_code import ErrorCode
from barnabas.common.errors import Transient
from barnabas.common.uuid import Uuid
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

if TYPE_CHECKING:
    from barnabas.clients.network_client import NetworkClient
    from barnabas.clients.node_connection import NodeConnection
    from barnabas.clients.producer.batch_queues import BatchQueues
    from barnabas.clients.producer.config import ProducerConfig
    from barnabas.clients.topic_metadata import TopicMetadata, TopicMetadataSource
    from barnabas.protocol.messages.produce import PartitionProduceResponse, ProduceResponse

__all__ = ["Recovery", "Sender", "SenderStatistics"]

B = TypeVar("B", bound=Batch)
B_contra = TypeVar("B_contra", bound=Batch, contravariant=True)

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
_RETRIABLE = _LEADER_MOVED | {
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
}
_RETRIABLE_IN_TRANSACTIONS = _RETRIABLE | {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
_RETRIABLE_OF_PRODUCER_IDS = _RETRIABLE | {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE}
_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
_PRODUCER_FORGOTTEN = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
_LAST_VERSION_BY_NAME = 12
_CLIENT_WAITS_SINCE = 6
_CHECK_EVERY_S = 0.2
_MARKERS_PAUSE_S = 0.002
"""The first pause while markers of the previous transaction are written. They take a millisecond or less."""


@dataclass(slots=True)
class SenderStatistics(ThrottleStatistics):
    requests: int = 0
    retries: int = 0
    sent_bytes: int = 0
    """The bytes of batches, after compression."""
    retried: dict[str, int] = field(default_factory=dict)
    """Batches sent again, by the reason's name."""


class Recovery(Protocol[B_contra]):
    """The calls by which a sender continues after a failure."""

    async def new_producer(self) -> ProducerId:
        """Assign one to partitions without one, or with an unusable one. Raise AdminError, ClientError."""

    def divide(self, batch: B_contra) -> None:
        """Divide a batch of several records that was refused as too large."""

    def gave_up(self, batch: B_contra, error: Exception) -> None:
        """Note that it will not be delivered, or that this is unknown."""

    def sender_ended(self, error: Exception) -> None:
        """Note that the sender has ended. It does not give up waiting batches or those in flight one by one."""


class _Leader:
    """One node, and the partitions that it leads."""

    __slots__ = ("address", "error", "in_flight", "partitions", "task", "throttled_until", "timer", "wake")

    def __init__(self, address: Address) -> None:
        self.address = address
        self.partitions: list[int] = []
        self.in_flight = 0
        self.throttled_until = 0.0
        self.error = ""
        """Why it is unreachable."""
        self.wake = asyncio.Event()
        self.timer: asyncio.TimerHandle | None = None
        self.task: asyncio.Task[None] | None = None


class Sender(Generic[B]):
    """``delivered(batch, now)`` is called for each batch that the cluster has (or, with acks=0, that was sent)."""

    def __init__(
        self,
        network: NetworkClient,
        source: TopicMetadataSource,
        config: ProducerConfig,
        accumulator: BatchQueues[B],
        delivered: Callable[[B, float], None],
        *,
        recovery: Recovery[B] | None = None,
    ) -> None:
        self.statistics = SenderStatistics()
        self.version_max: int | None = None
        """The highest version of Produce to use."""
        self.failure: Exception | None = None
        self.progressed = asyncio.Event()
        """Set whenever memory was freed, and at the end."""
        self._network = network
        self._source = source
        self._config = config
        self._accumulator = accumulator
        self._delivered = delivered
        self._recovery = recovery
        self._retriable = _RETRIABLE if config.transactional_id is None else _RETRIABLE_IN_TRANSACTIONS
        self._errors: dict[int, str] = {}
        """The last error of each partition since its last success."""
        self._assigning = asyncio.Lock()
        self._loop = asyncio.get_running_loop()
        self._leaders: dict[Address, _Leader] = {}
        self._leader_of: dict[int, _Leader] = {}
        self._topic_id = Uuid.ZERO
        self._follower = TopicFollower(
            source.load,
            take=self._take,
            fail=self._fail,
            retriable=_RETRIABLE,
            backoff_s=config.retry_backoff_s,
            backoff_max_s=config.retry_backoff_max_s,
            unknown_for_s=UNKNOWN_TOPIC_FOR_S if recovery is None else math.inf,
        )
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, metadata: TopicMetadata) -> None:
        self._take(metadata)
        self._tasks = [start_guarded(self._follower.follow(), self._fail)]
        if math.isfinite(self._config.delivery_timeout_s):
            self._tasks.append(start_guarded(self._keep_deadlines(), self._fail))

    async def close(self) -> None:
        """Close, and drop batches in flight."""
        tasks = [*self._tasks, *(leader.task for leader in self._leaders.values() if leader.task is not None)]
        for leader in self._leaders.values():
            if leader.timer is not None:
                leader.timer.cancel()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def wake(self, partition: int) -> None:
        """Wake the sender after records were appended."""
        leader = self._leader_of.get(partition)
        if leader is not None:
            leader.wake.set()

    def wake_all(self) -> None:
        for leader in self._leaders.values():
            leader.wake.set()

    def why_waiting(self, partition: int) -> str:
        """Return why the partition's batches wait; empty if unknown."""
        if error := self._errors.get(partition):
            return error
        leader = self._leader_of.get(partition)
        return leader.error if leader is not None else str(self._no_leader(partition))

    def _no_leader(self, partition: int) -> AdminError:
        return AdminError(
            ErrorCode.LEADER_NOT_AVAILABLE, "the partition has no leader", f"{self._source.topic}-{partition}"
        )

    # --- leaders of partitions

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
        """Return the time-out error, with the broker's reason if any."""
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
                    if self._accumulator.unassigned and not await self._assign_producers():
                        self._wake_later(leader, self._config.retry_backoff_s)
                        break
                    leader.error = ""
                except ClientError as error:
                    if not isinstance(error, Transient):
                        self._fail(error)
                        return
                    leader.error = str(error)
                    self._follower.is_stale.set()
                    self._wake_later(leader, self._config.retry_backoff_s)
                    break
                batches = self._accumulator.drain(self._in_turn(leader), self._loop.time())
                if batches:
                    self._send(leader, connection, batches)

    async def _assign_producers(self) -> bool:
        """Assign a producer id to all partitions that need one. Return False if the cluster has none at the moment."""
        assert self._recovery is not None
        async with self._assigning:
            if not self._accumulator.assignable():
                return True
            try:
                producer = await self._recovery.new_producer()
            except AdminError as error:
                partitions = self._accumulator.assignable()
                for partition in partitions:
                    self._errors[partition] = str(error)
                if error.code in _RETRIABLE_OF_PRODUCER_IDS:
                    return False
                for partition in partitions:
                    for batch in self._accumulator.take_queued(partition):
                        self._recovery.gave_up(batch, error)
                return True
            self._accumulator.assign_producer(self._accumulator.assignable(), producer)
            return True

    def _may_send(self, leader: _Leader) -> bool:
        """Return whether a batch can be sent now. Otherwise every event that changes this wakes the task."""
        if self.failure is not None or leader.in_flight >= self._config.max_in_flight:
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
        """Return the partitions, starting with another one each time, so that a full request starves none."""
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

    def _send(self, leader: _Leader, connection: NodeConnection, batches: list[B]) -> None:
        config = self._config
        by_partition = {batch.partition: batch for batch in batches}
        try:
            version = connection.version_of(ProduceRequest.API_KEY)
            if self._topic_id == Uuid.ZERO:
                version = min(version, _LAST_VERSION_BY_NAME)
            if self.version_max is not None:
                version = min(version, self.version_max)
            request = self._request(batches)
            self.statistics.requests += 1
            if config.acks == 0:
                connection.send_unanswered(request, version=version)
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

    def _request(self, batches: list[B]) -> ProduceRequest:
        config = self._config
        parts: list[PartitionProduceData] = []
        for batch in batches:
            is_new = batch.attempts == 1
            data = batch.encode(
                config.compression,
                config.compression_level,
                self._accumulator.producer_of(batch.partition),
                is_transactional=config.transactional_id is not None,
            )
            if is_new and config.compression:
                self._accumulator.observe_ratio(batch, len(data))
            self.statistics.sent_bytes += len(data)
            parts.append(PartitionProduceData(index=batch.partition, records=data))
        return ProduceRequest(
            transactional_id=config.transactional_id,
            acks=config.acks,
            timeout_ms=config.request_timeout_ms,
            topic_data=[TopicProduceData(name=self._source.topic, topic_id=self._topic_id, partition_data=parts)],
        )

    # --- results

    def _answered(
        self, leader: _Leader, batches: dict[int, B], version: int, done: asyncio.Future[ProduceResponse]
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
            for partition_response in topic.partition_responses:
                batch = batches.pop(partition_response.index, None)
                if batch is None:
                    continue
                if partition_response.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                    batch.base_offset = partition_response.base_offset
                    self._settle(batch, now)
                else:
                    partition = f"{self._source.topic}-{partition_response.index}"
                    self._refused(
                        batch, admin_error(partition_response.error_code, _text_of(partition_response), partition), now
                    )
        for batch in batches.values():
            missing = AdminError(ErrorCode.UNKNOWN_SERVER_ERROR, "the answer omits it", self._source.topic)
            self._refused(batch, missing, now)

    def _settle(self, batch: B, now: float) -> None:
        if self._errors:
            self._errors.pop(batch.partition, None)
        self._accumulator.finish(batch)
        self._delivered(batch, now)
        self.progressed.set()

    def _refused(self, batch: B, error: AdminError, now: float) -> None:
        code, recovery = error.code, self._recovery
        if recovery is not None and code in _TOO_LARGE and batch.count > 1:
            recovery.divide(batch)
            self.wake(batch.partition)
            return
        is_retriable = code in self._retriable or (
            code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not self._accumulator.is_first_in_flight(batch)
        )
        if not is_retriable and code in _PRODUCER_FORGOTTEN and self._can_be_replaced(batch):
            self._accumulator.forget_producer(batch.partition)
            is_retriable = True
        if not is_retriable or batch.attempts > self._config.retries or not batch.is_wanted():
            self._give_up(batch, error)
            return
        if code in _LEADER_MOVED:
            self._follower.is_stale.set()
        self._again(batch, code.name, str(error), now)

    def _can_be_replaced(self, batch: B) -> bool:
        """Return whether another producer id can take the place of one that the cluster has forgotten."""
        has_id = self._accumulator.producer_of(batch.partition) != NO_PRODUCER
        return self._recovery is not None and has_id and self._config.transactional_id is None

    def _lost(self, batches: list[B], error: BaseException) -> None:
        """Handle a lost request: it is unknown whether the node has the batches."""
        now = self._loop.time()
        self._follower.is_stale.set()
        for batch in batches:
            is_over = now - batch.created_s > self._config.delivery_timeout_s
            if (
                isinstance(error, Transient)
                and not is_over
                and batch.attempts <= self._config.retries
                and batch.is_wanted()
            ):
                self._again(batch, type(error).__name__, str(error), now)
            else:
                self._give_up(batch, error if isinstance(error, ClientError) else ClientError(str(error)))

    def _again(self, batch: B, why: str, message: str, now: float) -> None:
        self._errors[batch.partition] = message
        self.statistics.retries += 1
        self.statistics.retried[why] = self.statistics.retried.get(why, 0) + 1
        is_short = why == ErrorCode.CONCURRENT_TRANSACTIONS.name
        first = _MARKERS_PAUSE_S if is_short else self._config.retry_backoff_s
        backoff = first * 2 ** min(batch.attempts - 1, 10)
        self._accumulator.requeue(batch, now + min(backoff, self._config.retry_backoff_max_s))
        self.wake(batch.partition)

    def _give_up(self, batch: B, error: Exception) -> None:
        self._accumulator.finish(batch)
        if self._recovery is None:
            self._fail(error)
            return
        # It is unknown whether the cluster has the batch, and what its next sequence is.
        self._accumulator.forget_producer(batch.partition)
        self._recovery.gave_up(batch, error)
        self.wake(batch.partition)

    def _fail(self, error: Exception) -> None:
        is_first = self.failure is None
        self.failure = self.failure or error
        self.progressed.set()
        if is_first and self._recovery is not None:
            self._recovery.sender_ended(error)

    def _throttled(self, leader: _Leader, for_s: float, now: float, *, waits: bool) -> None:
        self.statistics.throttled(for_s)
        if waits:
            leader.throttled_until = max(leader.throttled_until, now + for_s)


def _text_of(response: PartitionProduceResponse) -> str | None:
    """Return the broker's own message; that about single records is more specific."""
    for record_error in response.record_errors:
        if record_error.batch_index_error_message:
            return record_error.batch_index_error_message
    return response.error_message
