"""Runs a coordinator's shards in a broker, on the log of the coordinator's topic and the clock of the event loop.

Shards follow the leadership of their partitions, from ``start`` on. A starting broker reads in the metadata log which
partitions its earlier processes led: their coordinators would act again, and write in epochs that have ended. Loading
reads the log in slices between other work. A partition without a log is empty and loaded immediately, so that the 50
partitions of a new topic cost nothing.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from barnabas.broker.forwarding_stats import Latencies
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.topic_partition import TopicPartition
from barnabas.coordinator.coordinator_loader import CoordinatorLoader
from barnabas.network.promised_answer import PromisedAnswer
from barnabas.storage.produced_batch import AppendOrigin

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from barnabas.broker.partition import Partition
    from barnabas.broker.replica_manager import ReplicaManager
    from barnabas.broker.replication.leader_replica import LeaderReplica
    from barnabas.common.clock import Clock
    from barnabas.coordinator.coordinator_runtime import CoordinatorRuntime, PartitionWriter
    from barnabas.coordinator.deferred import Deferred
    from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage
    from barnabas.metadata.image.topics import TopicImage

__all__ = ["CoordinatorHost"]

log = logging.getLogger(__name__)

T = TypeVar("T")

_TICK_S = 0.005
"""Deadlines that are due at once, as those of a group that has lost its network, are met between requests."""


class _Coordinator(Protocol):
    """A group or a transaction coordinator."""

    @property
    def runtime(self) -> CoordinatorRuntime[Any]: ...

    def set_partition_count(self, partition_count: int) -> None: ...


C = TypeVar("C", bound=_Coordinator)


class CoordinatorHost(Generic[C]):
    """It is the ``PartitionWriter`` of its ``coordinator``."""

    def __init__(
        self,
        topic: str,
        *,
        broker_id: int,
        replicas: ReplicaManager,
        clock: Clock,
        new_coordinator: Callable[[PartitionWriter], C],
        on_lost: Callable[[], None] | None = None,
    ) -> None:
        """``on_lost`` is called when logs of any topic are lost, after their partitions were unloaded."""
        self._topic = topic
        self._broker_id = broker_id
        self._replicas = replicas
        self._clock = clock
        self._on_lost = on_lost
        self.load_times = Latencies()
        """Times in which partitions were read."""
        # Setting the wall clock must neither end sessions nor keep them open: it advances evenly from the start.
        self._wall_offset_ms = clock.now_ms() - clock.monotonic_ms()
        self._leader_epochs: dict[int, int] = {}
        self._is_started = False
        self._image: TopicImage | None = None
        """The coordinator's topic in the last image."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_ms: int | None = None
        self.coordinator = new_coordinator(self)
        self.coordinator.runtime.append_soon = self._append_soon
        replicas.add_lost_logs_listener(self._logs_lost)

    def now_ms(self) -> int:
        """Return wall-clock milliseconds that advance as the monotonic clock does."""
        return self._clock.monotonic_ms() + self._wall_offset_ms

    def start(self) -> None:
        """Load the partitions that this broker leads. It has caught up with the metadata log."""
        self._is_started = True
        if self._image is None:
            return
        self.coordinator.set_partition_count(len(self._image.partitions))
        for partition, registration in self._image.partitions.items():
            if registration.leader == self._broker_id:
                self._lead(partition, registration.leader_epoch)
        self.schedule()

    def stop(self) -> None:
        self._is_started = False
        if self._timer is not None:
            self._timer.cancel()

    # --- following the metadata log

    def publish(self, delta: MetadataDelta, new_image: MetadataImage) -> None:
        """Load the partitions that this broker leads now, and unload those that it leads no longer."""
        if delta.topics is None:
            return
        topic = self._image = new_image.topics.by_name.get(self._topic)
        if not self._is_started:
            return
        topics = (images.by_name.get(self._topic) for images in (delta.topics.image, new_image.topics))
        ids = dict.fromkeys(topic.id for topic in topics if topic is not None)
        changes = delta.topics.local_changes(self._broker_id, ids)
        for _, partition in changes.deletes:
            self._leader_epochs.pop(partition, None)
            self.coordinator.runtime.unload(partition, self.now_ms())
        if topic is None:
            return
        self.coordinator.set_partition_count(len(topic.partitions))
        for key, registration in (*changes.leaders.items(), *changes.followers.items()):
            if key[0] != topic.id:
                continue
            partition = key[1]
            if registration.leader != self._broker_id:
                self._leader_epochs.pop(partition, None)
                self.coordinator.runtime.unload(partition, self.now_ms(), registration.leader_epoch)
                continue
            self._lead(partition, registration.leader_epoch)
        self.schedule()

    def _lead(self, partition: int, leader_epoch: int) -> None:
        self._follow_high_watermark(partition)
        if self._leader_epochs.get(partition) != leader_epoch:
            self._leader_epochs[partition] = leader_epoch
            self._load(partition, leader_epoch)

    def _logs_lost(self, lost: Sequence[TopicPartition]) -> None:
        """Fail the requests of these partitions: the controller assigns their keys to other coordinators."""
        for topic_partition in lost:
            if topic_partition.topic == self._topic:
                self._leader_epochs.pop(topic_partition.partition, None)
                self.coordinator.runtime.unload(topic_partition.partition, self.now_ms())
        if self._on_lost is not None:
            self._on_lost()

    def _load(self, partition: int, leader_epoch: int) -> None:
        runtime = self.coordinator.runtime
        shard = runtime.start_loading(partition, leader_epoch, self.now_ms())
        if shard is None:
            return
        replica = self._replica(partition)
        if replica is not None and self._replicas.is_offline(replica):
            runtime.fail_loading(partition, shard)  # A log may exist that cannot be read.
            return
        if replica is None or replica.log_or_none is None:
            runtime.finish_loading(partition, shard, 0, self.now_ms())
            return
        loader = CoordinatorLoader(runtime, partition, shard, _Reader(replica, self._replicas))
        self._continue_loading(loader, self._clock.monotonic_ms())

    def _continue_loading(self, loader: CoordinatorLoader[Any], began_ms: int) -> None:
        if loader.step(self.now_ms()):
            self.load_times.record(self._clock.monotonic_ms() - began_ms)
            self.schedule()
            return
        leader = None if loader.awaited_offset is None else self.leader_replica(loader.partition)
        if loader.awaited_offset is not None and leader is not None:
            leader.wait_for(loader.awaited_offset, lambda error: self._committed_up_to(loader, began_ms, error))
        else:
            asyncio.get_running_loop().call_soon(self._continue_loading, loader, began_ms)

    def _committed_up_to(self, loader: CoordinatorLoader[Any], began_ms: int, error: ErrorCode) -> None:
        if error in (ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND):
            self._continue_loading(loader, began_ms)

    def _replica(self, partition: int) -> Partition | None:
        return self._replicas.partitions.get(TopicPartition(self._topic, partition))

    def leader_replica(self, partition: int) -> LeaderReplica | None:
        """None also if this broker is the partition's only replica."""
        replica = self._replica(partition)
        return None if replica is None else replica.leader_replica

    def _follow_high_watermark(self, partition: int) -> None:
        def moved(offset: int) -> None:
            self.coordinator.runtime.on_high_watermark(partition, offset, self.now_ms())
            self.schedule()

        leader = self.leader_replica(partition)
        if leader is not None:
            leader.on_high_watermark = moved

    # --- PartitionWriter

    def append(self, partition: int, batch: bytes) -> int:
        replica = self._replicas.leader_of(TopicPartition(self._topic, partition))
        info = self._replicas.append(replica, batch, requires_all_in_sync=True, origin=AppendOrigin.COORDINATOR)
        self.coordinator.runtime.on_high_watermark(partition, replica.log.high_watermark, self.now_ms())
        return info.first_offset

    def _append_soon(self) -> None:
        """Append what is decided in this turn of the loop: after the requests that have been received."""
        asyncio.get_running_loop().call_soon(self._append_shared)

    def _append_shared(self) -> None:
        self.coordinator.runtime.append_shared()
        self.schedule()

    # --- answers and time

    def promise(self, deferred: Deferred[T]) -> T | PromisedAnswer[T]:
        """Return the result of a handler whose request does not delay the next ones of its kind."""
        if deferred.is_complete:
            return deferred.value
        promised: PromisedAnswer[T] = PromisedAnswer()
        deferred.on_complete(promised.give)
        return promised

    def answer(self, deferred: Deferred[T]) -> T | Awaitable[T]:
        """Return a handler's result: the value if it is complete, else an awaitable of it."""
        self.schedule()
        if deferred.is_complete:
            return deferred.value
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        deferred.on_complete(lambda value: None if future.done() else future.set_result(value))
        return future

    def schedule(self) -> None:
        """Set the timer for the next deadline of a shard."""
        due = self.coordinator.runtime.next_deadline_ms()
        if due is None:
            return
        if self._timer is not None:
            if self._timer_due_ms is not None and self._timer_due_ms <= due:
                return
            self._timer.cancel()
        self._timer_due_ms = due
        wait_ms = max(due - self.now_ms(), 0)
        self._timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._timer_due_ms = None
        try:
            loop = asyncio.get_running_loop()
            end_s = loop.time() + _TICK_S
            self.coordinator.runtime.tick(self.now_ms(), is_over=lambda: loop.time() >= end_s)
        except ApiException as error:
            log.warning("a timer of the coordinator on %s failed: %s", self._topic, error)
        self.schedule()


class _Reader:
    """Reads a partition's log for the loader."""

    __slots__ = ("_log", "_replicas")

    def __init__(self, partition: Partition, replicas: ReplicaManager) -> None:
        self._log = partition.log
        self._replicas = replicas

    @property
    def log_start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def high_watermark(self) -> int:
        return self._log.high_watermark

    def read_batches(self, offset: int, max_bytes: int) -> bytes | memoryview:
        """Read batches. Raise ApiException, also on a disk error: then the log's directory has failed."""
        with self._replicas.answered_disk_errors(self._log.topic_partition):
            return self._log.read(offset, max_bytes, min_one_message=True).records
