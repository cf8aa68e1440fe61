"""Simple assignment of members that subscribe to different topics: each topic is shared for itself."""

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
)
from barnabas.coordinator.group.assignor.hash_order import (
    SpreadHashes,
    capacity_of_copy,
    grown_capacity,
    hash_order,
    in_order,
    in_partition_order,
)
from barnabas.coordinator.group.assignor.member_assignment import TargetAssignment
from barnabas.coordinator.group.assignor.sharing import Sharing, assignable_partitions
from barnabas.coordinator.group.assignor.subscribers import subscribers_by_topic

__all__ = ["SimpleHeterogeneousBuilder"]


class SimpleHeterogeneousBuilder:
    """``members`` are in Kafka's order."""

    def __init__(self, spec: GroupSpec, members: Mapping[str, MemberSubscription], topics: TopicDescriber) -> None:
        self._spec = spec
        self._members = list(members.values())
        self._topics = topics
        self._target = TargetAssignment(members)
        self._spread = SpreadHashes[int](int)
        self._meter = WorkMeter()

    def build(self) -> Steps[GroupAssignment]:
        subscribers = yield from subscribers_by_topic(member.topic_ids for member in self._members)
        if not subscribers:
            return {}
        assignable = {topic_id: assignable_partitions(self._spec, self._topics, topic_id) for topic_id in subscribers}
        holders = yield from self._holders()
        for topic_id in self._in_order(subscribers):
            yield from self._share(topic_id, assignable[topic_id], subscribers[topic_id], holders.get(topic_id, []))
        return (yield from self._target.frozen(self._meter))

    def _holders(self) -> Steps[dict[Uuid, list[int]]]:
        """Return who has partitions of each topic, subscribed or not."""
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
        self, topic_id: Uuid, partitions: Sequence[int], subscribers: Sequence[int], holders: Sequence[int]
    ) -> Steps[None]:
        target = self._target
        sharing: Sharing[int] = Sharing(
            partitions, subscribers, group_size=len(self._members), spread=self._spread, meter=self._meter
        )
        for number in holders:
            held = self._members[number].assigned[topic_id]
            sharing.keep(number, in_partition_order(in_order(held), capacity_of_copy(len(held))))
            if self._meter.is_full(1 + len(held)):
                yield

        def assign(number: int, partition: int) -> None:
            target.of(number).add(topic_id, partition)

        def revoke(number: int, partition: int) -> None:
            target.of(number).discard(topic_id, partition)

        yield from sharing.share(assign, revoke)
