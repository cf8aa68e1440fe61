"""Shares partitions evenly among members: of a whole group with one subscription, or the partitions of one topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil
from typing import Generic, TypeVar

from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.assignor.group_spec import (
    GroupSpec,
    PartitionAssignorError,
    Steps,
    TopicDescriber,
    WorkMeter,
)
from barnabas.coordinator.group.assignor.hash_order import (
    SpreadHashes,
    capacity_of_map,
    filled_capacity,
    grown_capacity,
    hash_order,
    hash_order_in_steps,
    in_partition_order,
)

__all__ = ["Sharing", "assignable_partitions"]

P = TypeVar("P")


def assignable_partitions(spec: GroupSpec, topics: TopicDescriber, topic_id: Uuid) -> Sequence[int]:
    """Return the partitions of a topic that may be assigned; raise PartitionAssignorError if it does not exist."""
    count = topics.partition_count(topic_id)
    if count == -1:
        raise PartitionAssignorError(
            f"the members subscribe to topic {topic_id}, which does not exist in the topic metadata"
        )
    return spec.assignable_partitions(topic_id, count)


class Sharing(Generic[P]):
    """``partitions`` are those that may be assigned; ``members`` the numbers of the members, in order.

    ``desired_sharing`` is the number of members that each partition shall have, so that each member has a partition;
    the desired counts add up to the number of partitions times this.
    """

    def __init__(
        self,
        partitions: Sequence[P],
        members: Sequence[int],
        *,
        group_size: int,
        spread: Mapping[P, int],
        meter: WorkMeter,
    ) -> None:
        self._partitions = partitions
        self._members = members
        self._group_size = group_size
        self._spread = spread
        self._member_spread = SpreadHashes[int](int)
        self._meter = meter
        self._desired_sharing = -(-len(members) // len(partitions)) if partitions else 0
        self._desired = _desired_counts(members, self._desired_sharing * len(partitions))
        self._members_of: dict[P, dict[int, None]] = {}
        self._partitions_of: dict[int, dict[P, None]] = {}

    def keep(self, member: int, partitions: Iterable[P]) -> None:
        """Tell what a member has, before ``share``; the members in order."""
        kept = self._partitions_of.setdefault(member, {})
        for partition in partitions:
            self._members_of.setdefault(partition, {})[member] = None
            kept[partition] = None

    def share(self, assign: Callable[[int, P], None], revoke: Callable[[int, P], None]) -> Steps[None]:
        """Call these for each partition that a member receives or loses."""
        overshared = [
            partition for partition, members in self._members_of.items() if len(members) > self._desired_sharing
        ]
        for partition in overshared:
            members = self._members_of[partition]
            capacity = filled_capacity(members, self._member_spread)
            self._members_of[partition] = dict.fromkeys(hash_order(members, self._member_spread, capacity))
            if self._meter.is_full(1):
                yield
        yield from self._revoke_overfilled(revoke)
        yield from self._revoke_overshared(overshared, revoke)
        yield from self._assign_rest(assign)

    def _revoke_overfilled(self, revoke: Callable[[int, P], None]) -> Steps[None]:
        for member, kept in self._partitions_of.items():
            excess = len(kept) - self._desired.get(member, 0)
            if excess > 0:
                for partition in hash_order(kept, self._spread, filled_capacity(kept, self._spread))[:excess]:
                    revoke(member, partition)
                    del kept[partition]
                    del self._members_of[partition][member]
            if self._meter.is_full(1 + len(kept)):
                yield

    def _revoke_overshared(self, overshared: Sequence[P], revoke: Callable[[int, P], None]) -> Steps[None]:
        for partition in overshared:
            members = self._members_of[partition]
            for member in list(members)[: max(len(members) - self._desired_sharing, 0)]:
                revoke(member, partition)
                del members[member]
                del self._partitions_of[member][partition]
            if self._meter.is_full(1):
                yield

    def _assign_rest(self, assign: Callable[[int, P], None]) -> Steps[None]:
        in_order = yield from self._all_in_order()
        unfilled = _Unfilled(
            in_partition_order(
                [member for member in self._members if self._remaining(member) > 0], capacity_of_map(self._group_size)
            )
        )
        for partition in in_order:
            if not unfilled.count:
                return
            members = self._members_of[partition]
            missing = self._desired_sharing - len(members)
            while missing > 0 and (member := unfilled.next()) is not None:
                if member in members:
                    continue
                assign(member, partition)
                self._partitions_of.setdefault(member, {})[partition] = None
                missing -= 1
                unfilled.has_progress = True
                if self._remaining(member) <= 0:
                    unfilled.remove(member)
            if self._meter.is_full(1):
                yield

    def _remaining(self, member: int) -> int:
        return self._desired[member] - len(self._partitions_of.get(member, ()))

    def _all_in_order(self) -> Steps[list[P]]:
        """Return the partitions that may be assigned, and those that are: Kafka shares the latter, too."""
        members_of = self._members_of
        size = len(members_of)
        for partition in self._partitions:
            size = len(members_of)
            members_of.setdefault(partition, {})
        capacity = grown_capacity(size, capacity_of_map(len(self._partitions)))
        # computeIfAbsent puts a key before the others of its bin.
        return (yield from hash_order_in_steps(list(reversed(members_of)), self._spread, capacity))


class _Unfilled:
    """Members that may receive more partitions, in turns."""

    def __init__(self, members: list[int]) -> None:
        self._members = members
        self._next = 0
        self._removed: set[int] = set()
        self.count = len(members)
        self.has_progress = False
        """Whether a member received a partition since the first of them had its turn."""

    def next(self) -> int | None:
        """Return None when all had a turn without progress, or none are left."""
        if self._next == len(self._members):
            if not self.has_progress or not self.count:
                return None
            self._members = [member for member in self._members if member not in self._removed]
            self._next = 0
            self.has_progress = False
        member = self._members[self._next]
        self._next += 1
        return member

    def remove(self, member: int) -> None:
        """Remove the member that ``next`` returned last."""
        self._removed.add(member)
        self.count -= 1


def _desired_counts(members: Sequence[int], total: int) -> dict[int, int]:
    each = total / len(members)
    return {member: ceil(each * (place + 1)) - ceil(each * place) for place, member in enumerate(members)}
