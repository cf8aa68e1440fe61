"""Simple assignment of members that subscribe to different topics: each topic is shared separately."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.assignor.group_spec import (
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
    grown_capacity,
    hash_order,
    in_order,
    in_table_order,
)
from barnabas.coordinator.group.assignor.member_assignment import TargetAssignment
from barnabas.coordinator.group.assignor.sharing import Sharing, TopicPartition, assignable_partitions
from barnabas.coordinator.group.assignor.subscribers import subscribers_by_topic

__all__ = ["SimpleHeterogeneousBuilder"]


class SimpleHeterogeneousBuilder:
    """``members`` are in Kafka's order."""

    def __init__(self, spec: GroupSpec, members: Mapping[str, MemberSubscription], topics: TopicDescriber) -> None:
        self._spec = spec
        self._members = list(members.values())
        self._topics = topics
        self._target = TargetAssignment(members)
        self._spread = SpreadHashes(_hash)
        self._meter = WorkMeter()

    def build(self) -> Steps[GroupAssignment]:
        subscribers = yield from subscribers_by_topic(member.topic_ids for member in self._members)
        if not subscribers:
            return {}
        assignable = {topic_id: assignable_partitions(self._spec, self._topics, topic_id) for topic_id in subscribers}
        holders = yield from self._holders()
        for topic_id in self._in_order(subscribers):
            yield from self._share(assignable[topic_id], subscribers[topic_id], topic_id, holders.get(topic_id, []))
            yield from cleared(assignable[topic_id])
        yield from cleared(self._spread)
        return (yield from self._target.frozen(self._meter))

    def _holders(self) -> Steps[dict[Uuid, list[int]]]:
        """Return the members that have partitions of each topic, subscribed or not."""
        holders: dict[Uuid, list[int]] = {}
        for number, member in enumerate(self._members):
            for topic_id in member.assigned:
                holders.setdefault(topic_id, []).append(number)
            if self._meter.is_full(1 + len(member.assigned)):
                yield
        return holders

    def _in_order(self, subscribers: Mapping[Uuid, list[int]]) -> list[Uuid]:
        """Return the topics as Kafka collects them, subscription by subscription."""
        subscriptions = dict.fromkeys(member.topic_ids for member in self._members)
        topic_ids = dict.fromkeys(topic_id for subscription in subscriptions for topic_id in in_order(subscription))
        return hash_order(topic_ids, self._target.spread, grown_capacity(len(subscribers)))

    def _share(
        self, partitions: Sequence[TopicPartition], subscribers: Sequence[int], topic_id: Uuid, holders: Sequence[int]
    ) -> Steps[None]:
        sharing = Sharing(partitions, subscribers, target=self._target, spread=self._spread, meter=self._meter)
        for number in holders:
            held = self._members[number].assigned[topic_id]
            yield from sharing.keep(number, [(topic_id, partition) for partition in in_table_order(held)])
        yield from sharing.share()


def _hash(partition: TopicPartition) -> int:
    """Kafka's table of one topic has partition numbers as its keys."""
    return partition[1]
