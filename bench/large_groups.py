"""A large group of the consumer protocol in our coordinator: CPU to reconcile, and the longest turn of the event loop.

A turn is one request or one tick of the timers. Times are CPU time of the process, without sockets and disks, and with
the automatic garbage collection off, as a node runs its own.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from time import process_time
from typing import TypeVar

from barnabas.common.errors import ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.cluster_view import ClusterView
from barnabas.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.coordinator.group.group_coordinator import GroupCoordinator
from barnabas.coordinator.group.group_coordinator_config import GroupCoordinatorConfig
from barnabas.coordinator.group.group_request_context import GroupRequestContext
from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage, MetadataProvenance
from barnabas.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from barnabas.protocol.messages.list_groups import ListGroupsRequest
from barnabas.protocol.records.partition_record import PartitionRecord
from barnabas.protocol.records.register_broker_record import RegisterBrokerRecord
from barnabas.protocol.records.topic_record import TopicRecord
from barnabas.protocol.stepped_writing import write_in_steps

__all__ = ["LargeGroup", "measure_large_group"]

Figures = dict[str, float]
T = TypeVar("T")

_GROUP = "large"
_INTERVAL_MS = 5_000
_CONTEXT = GroupRequestContext(1, "bench", "/127.0.0.1")


class _Log:
    """Accepts every batch, and commits it at once."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.end = 0
        self.coordinator: GroupCoordinator | None = None

    def append(self, partition: int, batch: bytes) -> int:
        base, self.end = self.end, self.end + int.from_bytes(batch[57:61], "big")
        self.batches.append(batch)
        assert self.coordinator is not None
        self.coordinator.runtime.on_high_watermark(partition, self.end, 0)
        return base


class _Member:
    def __init__(self, member_id: str, topics: list[str]) -> None:
        self.member_id = member_id
        self.topics = topics
        self.epoch = 0
        self.owned: dict[Uuid, list[int]] = {}

    def request(self, *, joins: bool = False) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest(
            group_id=_GROUP, member_id=self.member_id, member_epoch=0 if joins else self.epoch
        )
        request.topic_partitions = [
            TopicPartitions(topic_id=topic_id, partitions=of_topic) for topic_id, of_topic in self.owned.items()
        ]
        if joins:
            request.rebalance_timeout_ms, request.subscribed_topic_names = 300_000, self.topics
        return request

    def receive(self, response: ConsumerGroupHeartbeatResponse) -> bool:
        """Return whether something has changed for the member."""
        assert response.error_code == ErrorCode.NONE, response
        has_changed = response.member_epoch != self.epoch or response.assignment is not None
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.owned = {topic.topic_id: topic.partitions for topic in response.assignment.topic_partitions}
        return has_changed


class LargeGroup:
    """``turns_s`` has the CPU time of each turn since it was cleared."""

    def __init__(self, *, members: int, topics: int, partitions: int, racks: int = 3) -> None:
        """``partitions`` are those of each topic."""
        self.turns_s: list[float] = []
        self.now_ms = 1_000_000
        self._log = _Log()
        ids = count(1)
        self.coordinator = GroupCoordinator(
            GroupCoordinatorConfig(offsets_topic_num_partitions=1),
            writer=self._log,
            new_uuid=lambda: f"member-{next(ids)}",
            view=ClusterView(MetadataImage.EMPTY),
        )
        self._log.coordinator = self.coordinator
        self.coordinator.start()
        shard = self.coordinator.runtime.start_loading(0, 0, self.now_ms)
        assert shard is not None
        self.coordinator.runtime.finish_loading(0, shard, 0, self.now_ms)
        self._image = MetadataImage.EMPTY
        self.topics = [f"topic-{number:04}" for number in range(topics)]
        self._create(partitions, racks)
        self.members = [_Member(f"consumer-{number:05}", self.topics) for number in range(members)]

    def _create(self, partitions: int, racks: int) -> None:
        records: list[object] = [
            RegisterBrokerRecord(broker_id=broker, broker_epoch=broker, rack=f"rack-{broker}", fenced=False)
            for broker in range(racks)
        ]
        for number, topic in enumerate(self.topics):
            topic_id = Uuid.from_int((number + 1) * 7_919 << 64 | number)
            records.append(TopicRecord(name=topic, topic_id=topic_id))
            records += [_partition(topic_id, index, racks) for index in range(partitions)]
        self._publish(records)

    def _publish(self, records: list[object]) -> None:
        delta = MetadataDelta(self._image)
        for record in records:
            delta.replay(record)
        self._image = delta.apply(MetadataProvenance(self._image.offset + len(records), 1, 1))
        self._turn(lambda: self.coordinator.follow_metadata(delta, self._image))

    def add_partition(self) -> None:
        """Let the first topic grow by one partition."""
        topic = self._image.topics.by_name[self.topics[0]]
        self._publish([_partition(topic.id, len(topic.partitions), 3)])

    def _turn(self, work: Callable[[], T]) -> T:
        began = process_time()
        try:
            return work()
        finally:
            self.turns_s.append(process_time() - began)

    def send(self, member: _Member, *, joins: bool = False) -> bool:
        """Return whether something has changed for the member."""
        request = member.request(joins=joins)
        while True:
            answer = self._turn(
                lambda: self.coordinator.consumer_group_heartbeat(_CONTEXT, request, _no_match, self.now_ms)
            )
            if answer.value.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return member.receive(answer.value)
            self.advance(100)  # Its topics are being read.

    def join(self, member: _Member) -> None:
        self.members.append(member)
        self.send(member, joins=True)

    def leave(self) -> None:
        member = self.members.pop()
        request = ConsumerGroupHeartbeatRequest(group_id=_GROUP, member_id=member.member_id, member_epoch=-1)
        self._turn(lambda: self.coordinator.consumer_group_heartbeat(_CONTEXT, request, _no_match, self.now_ms))

    def advance(self, by_ms: int) -> None:
        end_ms = self.now_ms + by_ms
        while (deadline := self.coordinator.runtime.next_deadline_ms()) is not None and deadline <= end_ms:
            self.now_ms = max(self.now_ms, deadline)
            self._turn(lambda: self.coordinator.runtime.tick(self.now_ms))
        self.now_ms = end_ms

    def settle(self) -> int:
        """Let all heartbeat until nothing changes; return the number of rounds."""
        for rounds in count(1):
            self.advance(_INTERVAL_MS)
            changes = [self.send(member) for member in self.members]
            if not any(changes) and self.is_assigned:
                return rounds
        raise AssertionError

    @property
    def is_assigned(self) -> bool:
        group = self.coordinator.runtime.shard(0).groups.find(_GROUP)
        assert isinstance(group, ConsumerGroup)
        return group.assignment_epoch == group.epoch

    def describe(self) -> None:
        """Describe the group and encode the answer, each step in a turn."""
        steps = self.coordinator.describe_consumer_group(_GROUP)
        response = ConsumerGroupDescribeResponse()
        while not response.groups:
            try:
                self._turn(lambda: next(steps))
            except StopIteration as end:
                response.groups = [end.value]
        writing = write_in_steps(response, 1, [])
        while self._turn(lambda: next(writing, self)) is not self:
            pass

    def list(self) -> None:
        self._turn(lambda: self.coordinator.list_groups(ListGroupsRequest()))

    def log_bytes(self) -> int:
        return sum(map(len, self._log.batches))


def _partition(topic_id: Uuid, index: int, racks: int) -> PartitionRecord:
    replicas = [index % racks, (index + 1) % racks]
    return PartitionRecord(partition_id=index, topic_id=topic_id, replicas=replicas, isr=replicas, leader=replicas[0])


def _no_match(group_id: str, patterns: frozenset[str]) -> None:
    raise AssertionError("the members have no regular expressions")


@contextmanager
def _measured(group: LargeGroup, figures: Figures, what: str) -> Iterator[None]:
    group.turns_s.clear()
    gc.collect()
    yield
    figures[f"{what}: CPU, s"] = sum(group.turns_s)
    figures[f"{what}: longest turn, ms"] = max(group.turns_s) * 1_000


def measure_large_group(*, members: int = 10_000, topics: int = 100, partitions: int = 1_000) -> Figures:
    """Return CPU seconds and the longest turn of what a group lives through."""
    figures: Figures = {}
    gc.disable()
    try:
        _warm_up()
        group = LargeGroup(members=members, topics=topics, partitions=partitions)
        with _measured(group, figures, "all join"):
            for number, member in enumerate(group.members):
                group.send(member, joins=True)
                if number % 1_000 == 0:
                    group.advance(100)
        with _measured(group, figures, "all reach their target"):
            figures["rounds"] = group.settle()
        with _measured(group, figures, "nothing changes"):
            group.settle()
        with _measured(group, figures, "one joins"):
            group.join(_Member("newcomer", group.topics))
            group.settle()
        with _measured(group, figures, "one leaves"):
            group.leave()
            group.settle()
        with _measured(group, figures, "a topic grows"):
            group.add_partition()
            group.settle()
        with _measured(group, figures, "list"):
            group.list()
        with _measured(group, figures, "describe"):
            group.describe()
    finally:
        gc.enable()
    return figures


def _warm_up() -> None:
    """Compile the codecs of messages and records."""
    group = LargeGroup(members=2, topics=1, partitions=5_000)
    for member in group.members:
        group.send(member, joins=True)
    group.settle()
    group.leave()
    group.describe()


if __name__ == "__main__":
    for name, value in measure_large_group(members=int(sys.argv[1]) if len(sys.argv) > 1 else 10_000).items():
        print(f"{name:45} {value:10.3f}")
