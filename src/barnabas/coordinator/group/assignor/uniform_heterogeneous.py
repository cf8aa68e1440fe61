"""Uniform assignment of members that subscribe to different topics.

Members keep what they have of the topics that they still subscribe to. The other partitions are assigned topic by
topic, each to the subscriber with the fewest partitions; topics with the most partitions for each subscriber come
first. Then partitions of each topic move from the subscriber with the most partitions to the one with the fewest. This
is repeated for all topics until no partition moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.assignor.group_spec import (
    GroupAssignment,
    MemberSubscription,
    PartitionAssignorError,
    Steps,
    TopicDescriber,
    WorkMeter,
)
from barnabas.coordinator.group.assignor.hash_order import table_size
from barnabas.coordinator.group.assignor.load_balancer import LoadBalancer
from barnabas.coordinator.group.assignor.member_assignment import TargetAssignment
from barnabas.coordinator.group.assignor.subscribers import subscribers_by_topic

__all__ = ["UniformHeterogeneousBuilder"]

ROUNDS_MAX = 16
_NO_MEMBER = -1
_SIGN = 1 << 63


class UniformHeterogeneousBuilder:
    """``members`` are in Kafka's order, and have a number each."""

    def __init__(self, members: Mapping[str, MemberSubscription], topics: TopicDescriber) -> None:
        self._members = list(members.values())
        self._topics = topics
        self._subscribers: dict[Uuid, list[int]] = {}
        self._owners: dict[Uuid, list[int]] = {}
        self._loads = [0] * len(members)
        self._balancer = LoadBalancer(self._loads)
        self._target = TargetAssignment(members)
        self._meter = WorkMeter()

    def build(self) -> Steps[GroupAssignment]:
        self._subscribers = yield from subscribers_by_topic(member.topic_ids for member in self._members)
        if not self._subscribers:
            return {}
        for topic_id in self._subscribers:
            self._owners[topic_id] = [_NO_MEMBER] * self._partition_count(topic_id)
        yield from self._keep_subscribed()
        yield from self._assign_rest()
        yield from self._balance()
        return (yield from self._target.frozen(self._meter))

    def _partition_count(self, topic_id: Uuid) -> int:
        count = self._topics.partition_count(topic_id)
        if count == -1:
            raise PartitionAssignorError(
                f"the members subscribe to topic {topic_id}, which does not exist in the topic metadata"
            )
        return count

    def _keep_subscribed(self) -> Steps[None]:
        for number, member in enumerate(self._members):
            for topic_id, partitions in member.assigned.items():
                if topic_id not in member.topic_ids:
                    self._target.of(number).remove_topic(topic_id)
                    continue
                self._loads[number] += len(partitions)
                owners = self._owners[topic_id]
                for partition in partitions:
                    if partition < len(owners):  # The metadata of a new coordinator may be older than the assignment.
                        owners[partition] = number
                if self._meter.is_full(len(partitions)):
                    yield
            if self._meter.is_full(1):
                yield

    def _assign_rest(self) -> Steps[None]:
        unassigned = [topic_id for topic_id, owners in self._owners.items() if _NO_MEMBER in owners]
        for topic_id in self._by_load(unassigned):
            self._balancer.begin(self._subscribers[topic_id])
            for partition, owner in enumerate(self._owners[topic_id]):
                if owner == _NO_MEMBER:
                    self._assign(topic_id, partition, self._balancer.next_least_loaded())
                if self._meter.is_full(1):
                    yield

    def _balance(self) -> Steps[None]:
        topics = self._by_load(topic_id for topic_id, members in self._subscribers.items() if len(members) > 1)
        last_moved = -1
        """The place of the last topic with a move, or of the first topic: the next round may end there."""
        for _ in range(ROUNDS_MAX):
            for place, topic_id in enumerate(topics):
                if place == last_moved:
                    return
                moved_count = yield from self._balance_topic(topic_id)
                if moved_count or last_moved == -1:
                    last_moved = place

    def _balance_topic(self, topic_id: Uuid) -> Steps[int]:
        members = self._subscribers[topic_id]
        owners = self._owners[topic_id]
        balancer = self._balancer
        spread = balancer.begin(members)
        if self._meter.is_full(1 + len(members) // 8):
            yield
        if spread <= 1:
            return 0
        partitions = sorted(range(len(owners)), key=owners.__getitem__)
        owned: dict[int, list[int]] = {}
        for partition in partitions:
            owned.setdefault(owners[partition], []).append(partition)
            if self._meter.is_full(1):
                yield
        moved_count = 0
        while not balancer.is_balanced:
            giver = balancer.next_most_loaded()
            while giver is not None and not owned.get(giver):
                balancer.exclude_most_loaded()
                giver = balancer.next_most_loaded()
            if giver is None:
                break
            taker = balancer.next_least_loaded()
            if balancer.is_balanced:
                break
            self._assign(topic_id, owned[giver].pop(), taker)
            moved_count += 1
            if self._meter.is_full(1):
                yield
        return moved_count

    def _by_load(self, topic_ids: Iterable[Uuid]) -> list[Uuid]:
        """Put topics with many partitions for each subscriber first."""

        def key(topic_id: Uuid) -> tuple[float, int, int]:
            subscriber_count = len(self._subscribers[topic_id])
            # Java compares the halves of a topic id as signed numbers.
            halves = topic_id.to_int() ^ (_SIGN << 64 | _SIGN)
            return -(len(self._owners[topic_id]) / subscriber_count), subscriber_count, halves

        return sorted(topic_ids, key=key)

    def _assign(self, topic_id: Uuid, partition: int, number: int) -> None:
        owners = self._owners[topic_id]
        owner = owners[partition]
        if owner != _NO_MEMBER:
            self._target.of(owner).remove(topic_id, partition)
            self._loads[owner] -= 1
        expected = -(-len(owners) // len(self._subscribers[topic_id]))
        self._target.of(number).add(topic_id, partition, table_size(expected * 4 // 3 + 1))
        self._loads[number] += 1
        owners[partition] = number
        self._balancer.loads_changed()
