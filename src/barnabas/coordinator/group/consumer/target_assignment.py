"""The target assignment of a consumer group, computed by one of the coordinator's assignors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.steps import whole
from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.assignor.assignors import assignor_named
from barnabas.coordinator.group.assignor.group_spec import (
    GroupSpec,
    MemberSubscription,
    PartitionAssignorError,
    Steps,
    WorkMeter,
)
from barnabas.coordinator.group.assignor.hash_order import names_in_order, ordered
from barnabas.coordinator.group.assignor.member_assignment import iterated
from barnabas.coordinator.group.cluster_view import ClusterView
from barnabas.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.coordinator.group.consumer.consumer_group_member import ConsumerGroupMember
from barnabas.coordinator.group.consumer.consumer_group_records import (
    target_assignment_epoch_record,
    target_assignment_record,
)
from barnabas.coordinator.group.group_records import KeyedRecord
from barnabas.coordinator.group.modern_group import NO_PARTITIONS, Partitions

__all__ = ["NewTarget", "new_target", "new_target_in_steps"]


class NewTarget(NamedTuple):
    partitions: Mapping[str, Partitions]
    """By member; one that is absent has none."""
    records: list[KeyedRecord]
    """What has changed, and last the epoch: without it the group is assigned again."""


def new_target(
    group: ConsumerGroup, epoch: int, assignor: str, view: ClusterView, changed: ConsumerGroupMember, now_ms: int
) -> NewTarget:
    """Compute the target of each member for an epoch.

    ``changed`` joins or replaces the member of its id; a static member also replaces the one of its instance id.
    """
    return whole(new_target_in_steps(group, epoch, assignor, view, changed, now_ms))


def new_target_in_steps(
    group: ConsumerGroup, epoch: int, assignor: str, view: ClusterView, changed: ConsumerGroupMember, now_ms: int
) -> Steps[NewTarget]:
    """Do the same in steps of a few milliseconds, in which the group may not change."""
    found = assignor_named(assignor)
    if found is None:
        raise ApiException(ErrorCode.UNSUPPORTED_ASSIGNOR, f"ServerAssignor {assignor} is not supported.")
    meter = WorkMeter()
    spec = yield from _spec(group, view, changed, meter)
    try:
        assigned = yield from found.assign_in_steps(spec, view)
    except PartitionAssignorError as error:
        raise ApiException(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"Failed to compute a new target assignment for epoch {epoch}: {error}",
        ) from error
    records = []
    for member_id in (yield from spec.ordered_members()):
        target = assigned.get(member_id, NO_PARTITIONS)
        if group.target.get(member_id) != target:
            records.append(target_assignment_record(group.group_id, member_id, target))
        if meter.is_full(1):
            yield
    records.append(target_assignment_epoch_record(group.group_id, epoch, now_ms))
    return NewTarget(assigned, records)


def _spec(group: ConsumerGroup, view: ClusterView, changed: ConsumerGroupMember, meter: WorkMeter) -> Steps[GroupSpec]:
    subscriptions = _Subscriptions(group, view)
    members: dict[str, MemberSubscription] = {}
    for member_id, member in group.members.items():
        members[member_id] = subscriptions.of(member, group.target.get(member_id, NO_PARTITIONS))
        if meter.is_full(1):
            yield
    replaced = None if changed.instance_id is None else group.static_members.get(changed.instance_id)
    updates: dict[str, MemberSubscription | None] = {}
    if replaced is None or replaced == changed.member_id:
        updates[changed.member_id] = subscriptions.of(changed, group.target.get(changed.member_id, NO_PARTITIONS))
    else:
        updates[changed.member_id] = subscriptions.of(changed, iterated(group.target.get(replaced, NO_PARTITIONS)))
        updates[replaced] = None
    return GroupSpec(
        members,
        updates=updates,
        member_count_max=group.member_count_max,
        is_homogeneous=group.is_homogeneous_with(group.members.get(replaced or changed.member_id), changed),
    )


class _Subscriptions:
    """Members with equal subscriptions share one set of topic ids."""

    def __init__(self, group: ConsumerGroup, view: ClusterView) -> None:
        self._group = group
        self._view = view
        self._by_subscription: dict[tuple[frozenset[str], str | None], frozenset[Uuid]] = {}

    def of(self, member: ConsumerGroupMember, assigned: Partitions) -> MemberSubscription:
        key = (member.topic_names, member.topic_regex)
        topic_ids = self._by_subscription.get(key)
        if topic_ids is None:
            names = sorted(self._group.topics_of(member))
            found = (self._view.id_of(name) for name in names_in_order(names))
            topic_ids = ordered([topic_id for topic_id in found if topic_id is not None], len(names))
            self._by_subscription[key] = topic_ids
        return MemberSubscription(member.rack_id, member.instance_id, topic_ids, assigned)
