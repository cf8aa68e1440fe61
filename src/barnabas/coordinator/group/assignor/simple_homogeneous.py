"""Simple assignment of members that subscribe to the same topics: all partitions are shared together."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.assignor.group_spec import (
    Assignment,
    GroupAssignment,
    GroupSpec,
    MemberSubscription,
    Steps,
    TopicDescriber,
    WorkMeter,
)
from barnabas.coordinator.group.assignor.hash_order import (
    SpreadHashes,
    capacity_of_copy,
    in_order,
    in_partition_order,
    uuid_hash,
)
from barnabas.coordinator.group.assignor.member_assignment import TargetAssignment, topics_in_order
from barnabas.coordinator.group.assignor.sharing import Sharing, assignable_partitions

__all__ = ["SimpleHomogeneousBuilder"]

TopicPartition = tuple[Uuid, int]


class SimpleHomogeneousBuilder:
    """``members`` are in Kafka's order, and at least one."""

    def __init__(self, spec: GroupSpec, members: Mapping[str, MemberSubscription], topics: TopicDescriber) -> None:
        self._spec = spec
        self._members = members
        self._topics = topics
        self._topic_ids = next(iter(members.values())).topic_ids
        self._target = TargetAssignment(members)
        self._meter = WorkMeter()

    def build(self) -> Steps[GroupAssignment]:
        partitions = yield from self._assignable()
        if not self._topic_ids:
            return {}
        sharing: Sharing[TopicPartition] = Sharing(
            partitions,
            range(len(self._members)),
            group_size=len(self._members),
            spread=SpreadHashes(_hash),
            meter=self._meter,
        )
        for number, member in enumerate(self._members.values()):
            sharing.keep(number, self._subscribed(number, member.assigned))
            if self._meter.is_full(1 + len(member.assigned)):
                yield
        yield from sharing.share(self._assign, self._revoke)
        return (yield from self._target.frozen(self._meter))

    def _assignable(self) -> Steps[list[TopicPartition]]:
        found: list[TopicPartition] = []
        for topic_id in in_order(self._topic_ids):
            partitions = assignable_partitions(self._spec, self._topics, topic_id)
            found += [(topic_id, partition) for partition in partitions]
            if self._meter.is_full(len(partitions)):
                yield
        return found

    def _subscribed(self, number: int, assigned: Assignment) -> list[TopicPartition]:
        """Return what a member has of its topics. It loses the others."""
        kept: list[TopicPartition] = []
        for topic_id in topics_in_order(assigned, self._target.spread):
            if topic_id not in self._topic_ids:
                self._target.of(number).remove_topic(topic_id)
                continue
            partitions = assigned[topic_id]
            ordered = in_partition_order(in_order(partitions), capacity_of_copy(len(partitions)))
            kept += [(topic_id, partition) for partition in ordered]
        return kept

    def _assign(self, number: int, partition: TopicPartition) -> None:
        self._target.of(number).add(*partition)

    def _revoke(self, number: int, partition: TopicPartition) -> None:
        self._target.of(number).discard(*partition)


def _hash(partition: TopicPartition) -> int:
    """``TopicIdPartition.hashCode``."""
    return uuid_hash(partition[0]) * 31 + partition[1]
