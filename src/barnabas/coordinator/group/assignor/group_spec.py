"""The input and output of the assignors of consumer groups and share groups (KIP-848, KIP-932).

A ``GroupSpec`` is a snapshot. Neither it nor the topics may change while an assignment is computed in steps. Kafka's
results depend on the order in which it iterates members, topics and partitions. Therefore the order counts in:

- ``members``: the order in which the coordinator added the members to the group. ``updates`` follow.
- ``topic_ids``: the order of the subscribed names, which is that of ``names_in_order``. ``ordered`` keeps it.
- ``assigned``: the order of topics, and of the partitions of each (``ordered``), in the record of the assignment.

With another order the assignment is equally good, but may differ from Kafka's where members are equal. The result has
the order in which Kafka writes it into a record: that of the dict, and ``in_order`` of its partitions.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence, Set
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.assignor.hash_order import (
    SpreadHashes,
    grown_capacity,
    hash_order,
    hash_order_in_steps,
    in_timeline_order,
)
from barnabas.coordinator.partitioner import java_string_hash

__all__ = [
    "Assignment",
    "GroupAssignment",
    "GroupSpec",
    "MemberSubscription",
    "PartitionAssignor",
    "PartitionAssignorError",
    "Steps",
    "TopicDescriber",
    "WorkMeter",
    "cleared",
    "members_in_order",
]

T = TypeVar("T")
M = TypeVar("M")
Steps: TypeAlias = Generator[None, None, T]
Assignment: TypeAlias = Mapping[Uuid, frozenset[int]]
GroupAssignment: TypeAlias = dict[str, Assignment]
"""A member that is absent has no partitions. ``uniform`` and ``simple`` return the ``assigned`` of a member, the same
object, if it does not change."""

WORK_A_STEP = 2_000
"""The number of partitions or members that a step visits, in some milliseconds."""


class PartitionAssignorError(Exception):
    """No assignment can be computed, where Kafka raises a PartitionAssignorException."""


class MemberSubscription(NamedTuple):
    """Members with equal subscriptions share one ``topic_ids``. ``assigned`` is the present target assignment."""

    rack_id: str | None
    instance_id: str | None
    topic_ids: frozenset[Uuid]
    assigned: Assignment


class TopicDescriber(Protocol):
    def partition_count(self, topic_id: Uuid) -> int:
        """Return -1 for an unknown topic."""

    def racks(self, topic_id: Uuid, partition: int) -> frozenset[str]:
        """Return the racks of the partition's replicas. The assignors of Kafka 4.3 do not use them."""


class GroupSpec:
    """The members of a group, and the changes of the present request.

    ``updates`` has the members that join or change with this request, and None for a static member that one of them
    replaces. The ``assigned`` of the new member is then that of the old one (``iterated``). ``member_count_max`` is the
    largest number of members that the group had, because Kafka's tables do not shrink.

    ``is_homogeneous`` states whether all members have one subscription. Kafka compares names, so the coordinator should
    pass it; by default the ids are compared. ``assignable`` has the partitions that may be assigned: in a share group
    those with an initialized share state. None stands for all partitions.
    """

    def __init__(
        self,
        members: Mapping[str, MemberSubscription],
        *,
        updates: Mapping[str, MemberSubscription | None] | None = None,
        member_count_max: int = 0,
        is_homogeneous: bool | None = None,
        assignable: Mapping[Uuid, Set[int]] | None = None,
    ) -> None:
        self.members = members
        self.updates = updates or {}
        self.member_count_max = member_count_max
        self._is_homogeneous = is_homogeneous
        self._assignable = assignable

    def ordered_members(self) -> Steps[dict[str, MemberSubscription]]:
        """Return the members after the updates, in the order in which Kafka's assignors iterate them."""
        return members_in_order(self.members, self.updates, self.member_count_max)

    def is_homogeneous(self, members: Mapping[str, MemberSubscription]) -> bool:
        """Return whether these members, those of the group, have one subscription."""
        if self._is_homogeneous is not None:
            return self._is_homogeneous
        subscriptions = iter({id(member.topic_ids): member.topic_ids for member in members.values()}.values())
        first = next(subscriptions, None)
        return all(topic_ids == first for topic_ids in subscriptions)

    def assignable_partitions(self, topic_id: Uuid, partition_count: int) -> Sequence[int]:
        """Return the partitions of a topic that may be assigned, in order."""
        partitions = range(partition_count)
        if self._assignable is None:
            return partitions
        allowed = self._assignable.get(topic_id, frozenset())
        return [partition for partition in partitions if partition in allowed]


class PartitionAssignor(Protocol):
    @property
    def name(self) -> str: ...

    def assign(self, spec: GroupSpec, topics: TopicDescriber) -> GroupAssignment:
        """Compute the target assignment of all members. Raise PartitionAssignorError."""

    def assign_in_steps(self, spec: GroupSpec, topics: TopicDescriber) -> Steps[GroupAssignment]:
        """Do the same in steps of a few milliseconds."""


class WorkMeter:
    """Measures the work of a step: one unit takes some microseconds."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = WORK_A_STEP

    def is_full(self, work: int) -> bool:
        """Count work that was done. True ends the step: yield."""
        self._left -= work
        if self._left > 0:
            return False
        self._left = WORK_A_STEP
        return True


def cleared(items: dict[Any, Any] | list[Any]) -> Steps[None]:
    """Remove all items in steps: to free a hundred thousand at once takes some 20 ms."""
    while items:
        if isinstance(items, list):
            del items[-WORK_A_STEP:]
        else:
            for _ in range(min(WORK_A_STEP, len(items))):
                items.popitem()
        yield


def members_in_order(
    members: Mapping[str, M], updates: Mapping[str, M | None], size_max: int = 0
) -> Steps[dict[str, M]]:
    """Apply the updates; return the members in the order of the ``HashMap`` in which Kafka collects them.

    Kafka first adds the members of the group, which are in a timeline table, then applies the updates, which are in
    another ``HashMap``. A member that was replaced stays counted in the capacity. ``size_max`` is the largest number of
    members that the group had.
    """
    spread = SpreadHashes(java_string_hash)
    collected: dict[str, M] = {}
    for member_id in (yield from in_timeline_order(list(members), size_max)):
        collected[member_id] = members[member_id]
    largest = len(collected)
    for member_id in hash_order(updates, spread, grown_capacity(len(updates))):
        update = updates[member_id]
        if update is None:
            collected.pop(member_id, None)
        else:
            collected[member_id] = update
        largest = max(largest, len(collected))
    ordered = yield from hash_order_in_steps(list(collected), spread, grown_capacity(largest))
    return {member_id: collected[member_id] for member_id in ordered}
