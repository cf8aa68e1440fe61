"""Shares partitions evenly among members: of a whole group with one subscription, or the partitions of one topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import ceil

from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.assignor.group_spec import (
    GroupSpec,
    PartitionAssignorError,
    Steps,
    TopicDescriber,
    WorkMeter,
    cleared,
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
from barnabas.coordinator.group.assignor.member_assignment import TargetAssignment

__all__ = ["Sharing", "TopicPartition", "assignable_partitions"]

TopicPartition = tuple[Uuid, int]


def assignable_partitions(spec: GroupSpec, topics: TopicDescriber, topic_id: Uuid) -> list[TopicPartition]:
    """Return the partitions of a topic that may be assigned; raise PartitionAssignorError if it does not exist."""
    count = topics.partition_count(topic_id)
    if count == -1:
        raise PartitionAssignorError(
            f"the members subscribe to topic {topic_id}, which does not exist in the topic metadata"
        )
    return [(topic_id, partition) for partition in spec.assignable_partitions(topic_id, count)]


class Sharing:
    """``partitions`` are those that may be assigned, ``members`` the numbers of the members, in order.

    All partitions have equally many places, as few as give each member one. The members share the places evenly.
    ``spread`` has the hashes by which Kafka orders the partitions.
    """

    def __init__(
        self,
        partitions: Sequence[TopicPartition],
        members: Sequence[int],
        *,
        target: TargetAssignment,
        spread: Mapping[TopicPartition, int],
        meter: WorkMeter,
    ) -> None:
        self._partitions = partitions
        self._members = members
        self._target = target
        self._spread = spread
        self._meter = meter
        self._desired_sharing = -(-len(members) // len(partitions)) if partitions else 0
        self._places = _places(len(members), self._desired_sharing * len(partitions))
        self._members_of: dict[TopicPartition, dict[int, None]] = {}
        self._partitions_of: dict[int, dict[TopicPartition, None]] = {}

    def keep(self, member: int, partitions: Sequence[TopicPartition]) -> Steps[None]:
        """Add what a member has. Call it for the members in order, before ``share``."""
        self._partitions_of[member] = dict.fromkeys(partitions)
        for partition in partitions:
            self._members_of.setdefault(partition, {})[member] = None
            if self._meter.is_full(1):
                yield

    def share(self) -> Steps[None]:
        overshared = yield from self._find_overshared()
        yield from self._revoke_overfilled()
        yield from self._revoke_overshared(overshared)
        yield from self._assign_rest()
        yield from cleared(self._members_of)
        yield from cleared(self._partitions_of)

    def _find_overshared(self) -> Steps[list[TopicPartition]]:
        """Return the partitions with too many members, and put these into the order in which Kafka revokes them."""
        overshared: list[TopicPartition] = []
        spread = SpreadHashes[int](int)
        for partition, members in self._members_of.items():
            if len(members) > self._desired_sharing:
                in_order = hash_order(members, spread, filled_capacity(members, spread))
                self._members_of[partition] = dict.fromkeys(in_order)
                overshared.append(partition)
                if self._meter.is_full(len(members)):
                    yield
            if self._meter.is_full(1):
                yield
        return overshared

    def _revoke_overfilled(self) -> Steps[None]:
        desired = dict(zip(self._members, self._places, strict=True))
        for member, kept in self._partitions_of.items():
            excess = len(kept) - desired.get(member, 0)
            if excess > 0:
                capacity = filled_capacity(kept, self._spread)
                in_order = yield from hash_order_in_steps(list(kept), self._spread, capacity)
                for partition in in_order[:excess]:
                    self._revoke(member, partition)
                    if self._meter.is_full(4):
                        yield
            if self._meter.is_full(1):
                yield

    def _revoke_overshared(self, overshared: Sequence[TopicPartition]) -> Steps[None]:
        for partition in overshared:
            members = self._members_of[partition]
            excess = max(len(members) - self._desired_sharing, 0)
            for member in list(members)[:excess]:
                self._revoke(member, partition)
            if self._meter.is_full(1 + 4 * excess):
                yield

    def _revoke(self, member: int, partition: TopicPartition) -> None:
        self._target.of(member).discard(*partition)
        del self._members_of[partition][member]
        del self._partitions_of[member][partition]

    def _assign_rest(self) -> Steps[None]:
        in_order = yield from self._all_in_order()
        remaining = {
            member: places - len(self._partitions_of.get(member, ()))
            for member, places in zip(self._members, self._places, strict=True)
        }
        unfilled = _Unfilled(
            in_partition_order(
                [member for member in self._members if remaining[member] > 0],
                capacity_of_map(self._target.member_count),
            )
        )
        for partition in in_order:
            if not unfilled.count:
                return
            members = self._members_of[partition]
            added: set[int] = set()
            missing = self._desired_sharing - len(members)
            while missing > 0 and (member := unfilled.next()) is not None:
                if member in members:
                    continue
                missing -= 1
                unfilled.has_progress = True
                if member not in added:  # Kafka also counts a member that has just received the partition.
                    added.add(member)
                    self._target.of(member).add(*partition)
                    remaining[member] -= 1
                    if remaining[member] <= 0:
                        unfilled.remove(member)
            if self._meter.is_full(1 + len(added)):
                yield

    def _all_in_order(self) -> Steps[list[TopicPartition]]:
        """Return all partitions that may be assigned or are assigned: Kafka shares the latter as well."""
        members_of = self._members_of
        size = len(members_of)
        for partition in self._partitions:
            size = len(members_of)
            members_of.setdefault(partition, {})
            if self._meter.is_full(1):
                yield
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


@lru_cache(maxsize=4)
def _places(member_count: int, total: int) -> tuple[int, ...]:
    """Return how many of all places each member has."""
    each = total / member_count
    return tuple(ceil(each * (number + 1)) - ceil(each * number) for number in range(member_count))
