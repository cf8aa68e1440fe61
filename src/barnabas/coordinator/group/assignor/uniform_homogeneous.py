"""Uniform assignment of members that subscribe to the same topics.

Each member has a quota: all partitions divided by the number of members, and one more for as many members as the
remainder. A member keeps assigned partitions up to its quota. Those above it, and those of no member, fill the quotas
of the other members in order.
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.assignor.group_spec import (
    WORK_A_STEP,
    Assignment,
    GroupAssignment,
    MemberSubscription,
    PartitionAssignorError,
    Steps,
    TopicDescriber,
    WorkMeter,
)
from barnabas.coordinator.group.assignor.hash_order import (
    apparent_size,
    capacity_of_copy,
    hash_order,
    in_order,
    in_table_order,
)
from barnabas.coordinator.group.assignor.member_assignment import TargetAssignment, topics_in_order

__all__ = ["UniformHomogeneousBuilder"]


class UniformHomogeneousBuilder:
    """``members`` are in Kafka's order, and at least one."""

    def __init__(self, members: Mapping[str, MemberSubscription], topics: TopicDescriber) -> None:
        self._members = members
        self._topics = topics
        self._topic_ids = next(iter(members.values())).topic_ids
        self._target = TargetAssignment(members)
        self._spread = self._target.spread
        self._meter = WorkMeter()
        self._unfilled: list[tuple[int, int]] = []
        """Members, by number, and how many partitions each may receive."""
        self._unassigned: list[tuple[Uuid, int]] = []
        self._quota_min = 0
        self._extra_count = 0
        """How many of the next members may have one partition more."""

    def build(self) -> Steps[GroupAssignment]:
        if not self._topic_ids:
            return {}
        partition_count = yield from self._find_unassigned()
        self._quota_min, self._extra_count = divmod(partition_count, len(self._members))
        yield from self._keep_up_to_quotas()
        yield from self._fill_quotas()
        return (yield from self._target.frozen(self._meter))

    def _find_unassigned(self) -> Steps[int]:
        assigned = yield from self._assigned_partitions()
        total = 0
        capacity = capacity_of_copy(apparent_size(self._topic_ids))
        for topic_id in hash_order(in_order(self._topic_ids), self._spread, capacity):
            count = self._topics.partition_count(topic_id)
            if count == -1:
                raise PartitionAssignorError(
                    f"the members subscribe to topic {topic_id}, which does not exist in the topic metadata"
                )
            total += count
            taken = assigned[topic_id]
            for begin in range(0, count, WORK_A_STEP):
                part = range(begin, min(begin + WORK_A_STEP, count))
                self._unassigned += [(topic_id, partition) for partition in part if partition not in taken]
                if self._meter.is_full(len(part)):
                    yield
        return total

    def _assigned_partitions(self) -> Steps[dict[Uuid, set[int]]]:
        assigned: dict[Uuid, set[int]] = {topic_id: set() for topic_id in self._topic_ids}
        for member in self._members.values():
            for topic_id, partitions in member.assigned.items():
                if topic_id in assigned:
                    assigned[topic_id] |= partitions
            if self._meter.is_full(1 + len(member.assigned)):
                yield
        return assigned

    def _keep_up_to_quotas(self) -> Steps[None]:
        for number, member in enumerate(self._members.values()):
            has_extra = self._extra_count > 0
            left = self._quota_min + has_extra - sum(map(len, member.assigned.values()))
            if left < 0 or not member.assigned.keys() <= self._topic_ids:
                left = yield from self._revoke(number, member.assigned, self._quota_min + has_extra)
            if left and has_extra and len(self._members) - number > self._extra_count:
                # Enough other members can have the partition more.
                left -= 1
                has_extra = False
            if left:
                self._unfilled.append((number, left))
            self._extra_count -= has_extra
            if self._meter.is_full(1 + len(member.assigned)):
                yield

    def _revoke(self, number: int, assigned: Assignment, quota: int) -> Steps[int]:
        """Revoke the topics without a subscription, and what is above the quota. Return what is left of the quota."""
        assignment = self._target.of(number)
        for topic_id in topics_in_order(assigned, self._spread):
            partitions = assigned[topic_id]
            if topic_id not in self._topic_ids:
                assignment.remove_topic(topic_id)
                continue
            for partition in in_table_order(partitions)[quota:] if len(partitions) > quota else ():
                assignment.remove(topic_id, partition)
                self._unassigned.append((topic_id, partition))
                if self._meter.is_full(1):
                    yield
            quota = max(quota - len(partitions), 0)
        return quota

    def _fill_quotas(self) -> Steps[None]:
        begin = 0
        for number, quota in self._unfilled:
            added = self._unassigned[begin : begin + quota]
            if not added:
                break
            assignment = self._target.of(number)
            for topic_id, partition in added:
                assignment.add(topic_id, partition)
                if self._meter.is_full(1):
                    yield
            begin += quota
            if self._meter.is_full(2):
                yield
        if begin < len(self._unassigned):
            raise PartitionAssignorError("the quotas of the members leave partitions unassigned")
