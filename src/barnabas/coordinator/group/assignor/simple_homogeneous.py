"""Simple assignment of members that subscribe to the same topics: all partitions are shared together."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.coordinator.group.assignor.group_spec import (
    Assignment,
    GroupAssignment,
    GroupSpec,
    MemberSubscription,
    Steps,
    TopicDescriber,
    WorkMeter,
    cleared,
)
from barnabas.coordinator.group.assignor.hash_order import (
    SpreadHashes,
    in_order,
    in_table_order,
    uuid_hash,
)
from barnabas.coordinator.group.assignor.member_assignment import TargetAssignment, topics_in_order
from barnabas.coordinator.group.assignor.sharing import Sharing, TopicPartition, assignable_partitions

__all__ = ["SimpleHomogeneousBuilder"]


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
        spread = SpreadHashes(_hash)
        sharing = Sharing(
            partitions,
            range(len(self._members)),
            target=self._target,
            spread=spread,
            meter=self._meter,
        )
        for number, member in enumerate(self._members.values()):
            yield from sharing.keep(number, self._subscribed(number, member.assigned))
        yield from sharing.share()
        yield from cleared(partitions)
        yield from cleared(spread)
        return (yield from self._target.frozen(self._meter))

    def _assignable(self) -> Steps[list[TopicPartition]]:
        found: list[TopicPartition] = []
        for topic_id in in_order(self._topic_ids):
            partitions = assignable_partitions(self._spec, self._topics, topic_id)
            found += partitions
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
            kept += [(topic_id, partition) for partition in in_table_order(assigned[topic_id])]
        return kept


def _hash(partition: TopicPartition) -> int:
    """``TopicIdPartition.hashCode``."""
    return uuid_hash(partition[0]) * 31 + partition[1]
