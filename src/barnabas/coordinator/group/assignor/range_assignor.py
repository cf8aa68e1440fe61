"""``range``: each member has a contiguous range of the partitions of each topic (KIP-848).

Static members come first, by their instance ids, then the other members, by their member ids. So topics with equally
many partitions and the same members are co-partitioned, and static members keep their ranges while the number of
members does not change. Earlier assignments and racks do not matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from barnabas.common.stepped_sort import sorted_in_steps
from barnabas.common.steps import whole
from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.assignor.group_spec import (
    GroupAssignment,
    GroupSpec,
    MemberSubscription,
    PartitionAssignorError,
    Steps,
    TopicDescriber,
    WorkMeter,
)
from barnabas.coordinator.group.assignor.hash_order import (
    SpreadHashes,
    apparent_size,
    hash_order,
    in_order,
    java_sort_key,
    single,
    table_size,
    uuid_hash,
)
from barnabas.coordinator.group.assignor.subscribers import subscribers_by_topic

__all__ = ["RangeAssignor"]


class RangeAssignor:
    name = "range"

    def assign(self, spec: GroupSpec, topics: TopicDescriber) -> GroupAssignment:
        return whole(self.assign_in_steps(spec, topics))

    def assign_in_steps(self, spec: GroupSpec, topics: TopicDescriber) -> Steps[GroupAssignment]:
        members = yield from spec.ordered_members()
        return (yield from _Ranges(members, topics, is_homogeneous=spec.is_homogeneous(members)).assign())


class _Ranges:
    def __init__(
        self, members: Mapping[str, MemberSubscription], topics: TopicDescriber, *, is_homogeneous: bool
    ) -> None:
        self._members = members
        self._topics = topics
        self._is_homogeneous = is_homogeneous
        self._spread = SpreadHashes(uuid_hash)
        self._meter = WorkMeter()

    def assign(self) -> Steps[GroupAssignment]:
        member_ids = yield from self._sorted_members()
        subscriptions = [self._members[member_id].topic_ids for member_id in member_ids]
        subscribers = yield from subscribers_by_topic(subscriptions)
        ranges: list[dict[Uuid, frozenset[int]]] = [{} for _ in member_ids]
        for topic_id, numbers in subscribers.items():
            yield from self._assign_topic(topic_id, numbers, ranges)
        yield from self._put_in_order(ranges, subscriptions)
        return dict(zip(member_ids, ranges, strict=True))

    def _sorted_members(self) -> Steps[list[str]]:
        keys: list[tuple[bool, bytes, bytes, str]] = []
        for member_id, member in self._members.items():
            instance_id = member.instance_id
            keys.append((instance_id is None, java_sort_key(instance_id or ""), java_sort_key(member_id), member_id))
            if self._meter.is_full(1):
                yield
        return [key[-1] for key in (yield from sorted_in_steps(keys))]

    def _assign_topic(
        self, topic_id: Uuid, numbers: Sequence[int], ranges: list[dict[Uuid, frozenset[int]]]
    ) -> Steps[None]:
        count = self._topics.partition_count(topic_id)
        if count == -1:
            raise PartitionAssignorError(f"a member subscribes to topic {topic_id}, which does not exist")
        quota, extra = divmod(count, len(numbers))
        begin = 0
        for index, number in enumerate(numbers if quota else numbers[:extra]):
            end = begin + quota + (index < extra)
            ranges[number][topic_id] = single(begin) if end - begin == 1 else frozenset(range(begin, end))
            begin = end
            if self._meter.is_full(1):
                yield

    def _put_in_order(
        self, ranges: list[dict[Uuid, frozenset[int]]], subscriptions: Sequence[frozenset[Uuid]]
    ) -> Steps[None]:
        """Put the topics of each member into the order in which Kafka writes them."""
        places: dict[int, dict[Uuid, int]] = {}
        for number, found in enumerate(ranges):
            topic_ids = subscriptions[0 if self._is_homogeneous else number]
            if id(topic_ids) not in places:
                places[id(topic_ids)] = self._places(topic_ids)
            if len(found) > 1:
                place_of = places[id(topic_ids)].__getitem__
                ranges[number] = {topic_id: found[topic_id] for topic_id in sorted(found, key=place_of)}
            if self._meter.is_full(1 + len(found)):
                yield

    def _places(self, topic_ids: frozenset[Uuid]) -> dict[Uuid, int]:
        size = len(topic_ids) if self._is_homogeneous else apparent_size(topic_ids)
        in_table = hash_order(in_order(topic_ids), self._spread, table_size(size * 4 // 3 + 1))
        return {topic_id: place for place, topic_id in enumerate(in_table)}
