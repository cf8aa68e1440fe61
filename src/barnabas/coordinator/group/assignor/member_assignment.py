"""Assignments while they change: in Kafka a ``HashMap`` of ``HashSet``s for each member. Here only changed sets are
copied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.assignor.group_spec import (
    Assignment,
    GroupAssignment,
    MemberSubscription,
    Steps,
    WorkMeter,
)
from barnabas.coordinator.group.assignor.hash_order import (
    DEFAULT_CAPACITY,
    PartitionSet,
    SpreadHashes,
    grown_capacity,
    hash_order,
    in_table_order,
    ordered,
    table_size,
    uuid_hash,
)

__all__ = ["MemberAssignment", "TargetAssignment", "iterated", "topics_in_order"]


def topics_in_order(assigned: Assignment, spread: SpreadHashes[Uuid]) -> Iterable[Uuid]:
    """Return the topics of an assignment that was read from a record, as Kafka iterates them."""
    return assigned if len(assigned) < 2 else hash_order(assigned, spread, grown_capacity(len(assigned)))


def iterated(assigned: Assignment) -> Assignment:
    """Return an assignment that was read from a record in the order in which Kafka would write it again."""
    return {topic_id: _iterated(assigned[topic_id]) for topic_id in topics_in_order(assigned, SpreadHashes(uuid_hash))}


class TargetAssignment:
    """The assignments of all members by number; those of members that do not change are kept as they are."""

    def __init__(self, members: Mapping[str, MemberSubscription]) -> None:
        self.spread = SpreadHashes(uuid_hash)
        self.member_count = len(members)
        self._members = members
        self._assigned = [member.assigned for member in members.values()]
        self._changed: dict[int, MemberAssignment] = {}

    def of(self, number: int) -> MemberAssignment:
        """Return the assignment of a member, to change it."""
        if number not in self._changed:
            self._changed[number] = MemberAssignment(self._assigned[number], self.spread)
        return self._changed[number]

    def frozen(self, meter: WorkMeter) -> Steps[GroupAssignment]:
        """Return all assignments. Call it once, at the end."""
        target: GroupAssignment = {}
        for number, (member_id, member) in enumerate(self._members.items()):
            changed = self._changed.pop(number, None)
            target[member_id] = member.assigned if changed is None else (yield from changed.frozen(meter))
            if meter.is_full(1):
                yield
        return target


class MemberAssignment:
    """Starts as a deep copy of what the member was assigned."""

    __slots__ = ("_added", "_capacity", "_kept", "_spread")

    def __init__(self, assigned: Assignment, spread: SpreadHashes[Uuid]) -> None:
        self._spread = spread
        self._kept: dict[Uuid, PartitionSet | frozenset[int]] = {
            topic_id: assigned[topic_id] for topic_id in topics_in_order(assigned, spread)
        }
        self._added: dict[Uuid, PartitionSet] = {}
        self._capacity = grown_capacity(len(assigned), table_size(len(assigned)))

    def add(self, topic_id: Uuid, partition: int, capacity: int = DEFAULT_CAPACITY) -> None:
        """Add a partition. The set of a new topic receives the capacity."""
        if len(self._kept) + len(self._added) > self._capacity * 3 // 4:
            self._capacity *= 2  # computeIfAbsent grows the table late, with the next call.
        partitions = self._partitions(topic_id)
        if partitions is None:
            self._added[topic_id] = partitions = PartitionSet(capacity)
        partitions.add(partition)

    def discard(self, topic_id: Uuid, partition: int) -> None:
        """Remove a partition. The topic stays, perhaps empty."""
        partitions = self._partitions(topic_id)
        if partitions is not None:
            partitions.discard(partition)

    def remove(self, topic_id: Uuid, partition: int) -> None:
        """Remove a partition, and the topic with its last one."""
        partitions = self._partitions(topic_id)
        if partitions is not None:
            partitions.discard(partition)
            if not partitions:
                self.remove_topic(topic_id)

    def remove_topic(self, topic_id: Uuid) -> None:
        self._kept.pop(topic_id, None)
        self._added.pop(topic_id, None)

    def frozen(self, meter: WorkMeter) -> Steps[Assignment]:
        """Return the assignment in the order of the record that Kafka writes of it."""
        # computeIfAbsent puts a key before the others of its bin.
        topics = {**dict(reversed(self._added.items())), **self._kept}
        frozen: dict[Uuid, frozenset[int]] = {}
        for topic_id in hash_order(topics, self._spread, self._capacity):
            partitions = topics[topic_id]
            frozen[topic_id] = _iterated(partitions) if isinstance(partitions, frozenset) else partitions.frozen()
            if meter.is_full(len(partitions)):
                yield
        return frozen

    def _partitions(self, topic_id: Uuid) -> PartitionSet | None:
        """Return the partitions of a topic, to change them."""
        partitions = self._kept.get(topic_id)
        if partitions is None:
            return self._added.get(topic_id)
        if isinstance(partitions, frozenset):
            self._kept[topic_id] = partitions = PartitionSet.copy_of(partitions)
        return partitions


def _iterated(partitions: frozenset[int]) -> frozenset[int]:
    return partitions if len(partitions) < 2 else ordered(in_table_order(partitions))
