"""A group coordinator with many topics, whose turns of the event loop are measured.

A turn is one request, one tick of the timers, or one step of work. Times are CPU time of the process, without sockets
and disks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from time import monotonic, process_time
from typing import Any, TypeVar

from barnabas.common.uuid import Uuid
from barnabas.coordinator.coordinator_loader import CoordinatorLoader
from barnabas.coordinator.deferred import Deferred
from barnabas.coordinator.group.cluster_view import ClusterView
from barnabas.coordinator.group.group import Group
from barnabas.coordinator.group.group_coordinator import GroupCoordinator
from barnabas.coordinator.group.group_coordinator_config import GroupCoordinatorConfig
from barnabas.coordinator.group.group_request_context import GroupRequestContext
from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage, MetadataProvenance
from barnabas.protocol.records.partition_record import PartitionRecord
from barnabas.protocol.records.register_broker_record import RegisterBrokerRecord
from barnabas.protocol.records.topic_record import TopicRecord
from barnabas.protocol.stepped_writing import write_in_steps

__all__ = ["GROUP", "LargeCoordinator"]

T = TypeVar("T")

GROUP = "large"
_RACKS = 3
_TICK_S = 0.005
"""That of a broker."""
_END = object()


class _Log:
    """Accepts every batch, and commits it at once."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.ends: list[int] = []
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.coordinator: GroupCoordinator | None = None

    @property
    def high_watermark(self) -> int:
        return self.log_end_offset

    def append(self, partition: int, batch: bytes) -> int:
        base = self.log_end_offset
        self.log_end_offset += int.from_bytes(batch[57:61], "big")
        self.batches.append(base.to_bytes(8, "big") + batch[8:])
        self.ends.append(self.log_end_offset)
        assert self.coordinator is not None
        self.coordinator.runtime.on_high_watermark(partition, self.log_end_offset, 0)
        return base

    def read_batches(self, offset: int, max_bytes: int) -> bytes:
        first = next(number for number, end in enumerate(self.ends) if end > offset) if offset else 0
        size, chunks = 0, []
        for batch in self.batches[first:]:
            size += len(batch)
            if chunks and size > max_bytes:
                break
            chunks.append(batch)
        return b"".join(chunks)


class LargeCoordinator:
    """``turns_s`` has the CPU time of each turn since it was cleared."""

    def __init__(self, *, topics: int, partitions: int) -> None:
        """``partitions`` are those of each topic."""
        self.turns_s: list[float] = []
        self.now_ms = 1_000_000
        self.view = ClusterView(MetadataImage.EMPTY)
        self._log = _Log()
        self._image = MetadataImage.EMPTY
        self.topics = [f"topic-{number:04}" for number in range(topics)]
        self.coordinator = self._started()
        self._load()
        self._create(partitions)

    def _started(self) -> GroupCoordinator:
        ids = count(1)
        config = GroupCoordinatorConfig(
            offsets_topic_num_partitions=1,
            group_share_max_size=1_000_000,
            group_streams_max_size=1_000_000,
            group_max_pending_members=1_000_000,
            groups_max_pending_members=1_000_000,
        )
        coordinator = GroupCoordinator(config, writer=self._log, new_uuid=lambda: f"member-{next(ids)}", view=self.view)
        self._log.coordinator = coordinator
        coordinator.start()
        return coordinator

    def _load(self) -> None:
        shard = self.coordinator.runtime.start_loading(0, 0, self.now_ms)
        assert shard is not None
        loader = CoordinatorLoader(self.coordinator.runtime, 0, shard, self._log)
        while not self.turn(lambda: loader.step(self.now_ms)):
            pass

    def restart(self) -> None:
        """Let another coordinator read the log."""
        self.coordinator = self._started()
        self._load()

    def _create(self, partitions: int) -> None:
        records: list[object] = [
            RegisterBrokerRecord(broker_id=broker, broker_epoch=broker, rack=f"rack-{broker}", fenced=False)
            for broker in range(_RACKS)
        ]
        for number, topic in enumerate(self.topics):
            topic_id = Uuid.from_int((number + 1) * 7_919 << 64 | number)
            records.append(TopicRecord(name=topic, topic_id=topic_id))
            records += [_partition(topic_id, index) for index in range(partitions)]
        self._publish(records)

    def _publish(self, records: list[object]) -> None:
        delta = MetadataDelta(self._image)
        for record in records:
            delta.replay(record)
        self._image = delta.apply(MetadataProvenance(self._image.offset + len(records), 1, 1))
        self.turn(lambda: self.coordinator.follow_metadata(delta, self._image))

    def add_partition(self) -> None:
        """Let the first topic grow by one partition."""
        topic = self._image.topics.by_name[self.topics[0]]
        self._publish([_partition(topic.id, len(topic.partitions))])

    @property
    def group(self) -> Group:
        return self.coordinator.runtime.shard(0).groups.require(GROUP)

    def context(self, api_version: int) -> GroupRequestContext:
        return GroupRequestContext(api_version, "bench", "/127.0.0.1")

    def turn(self, work: Callable[[], T]) -> T:
        began = process_time()
        try:
            return work()
        finally:
            self.turns_s.append(process_time() - began)

    def answered(self, request: Callable[[], Deferred[T]]) -> T:
        """Return the answer of a request that waits for no other member."""
        answer = self.turn(request)
        while not answer.is_complete:
            self.advance(1)
        return answer.value

    def advance(self, by_ms: int) -> None:
        end_ms = self.now_ms + by_ms
        while (deadline := self.coordinator.runtime.next_deadline_ms()) is not None and deadline <= end_ms:
            self.now_ms = max(self.now_ms, deadline)
            self.turn(self._tick)
        self.now_ms = end_ms

    def _tick(self) -> None:
        end_s = monotonic() + _TICK_S
        self.coordinator.runtime.tick(self.now_ms, is_over=lambda: monotonic() >= end_s)

    def write(self, message: Any, version: int) -> None:
        """Encode an answer, each step in a turn."""
        self.exhaust(write_in_steps(message, version, []))

    def exhaust(self, steps: Iterator[None]) -> Any:
        """Take each step in a turn; return the result of a generator."""
        while True:
            try:
                self.turn(lambda: next(steps))
            except StopIteration as end:
                return end.value

    def log_bytes(self) -> int:
        return sum(map(len, self._log.batches))


def _partition(topic_id: Uuid, index: int) -> PartitionRecord:
    replicas = [index % _RACKS, (index + 1) % _RACKS]
    return PartitionRecord(partition_id=index, topic_id=topic_id, replicas=replicas, isr=replicas, leader=replicas[0])
