"""The target assignment of a consumer group, computed by one of the coordinator's assignors."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.assignor.assignors import assignor_named
from barnabas.coordinator.group.assignor.group_spec import GroupSpec, MemberSubscription, PartitionAssignorError
from barnabas.coordinator.group.cluster_view import ClusterView
from barnabas.coordinator.group.consumer.consumer_group import ConsumerGroup, Partitions
from barnabas.coordinator.group.consumer.consumer_group_member import ConsumerGroupMember
from barnabas.coordinator.group.consumer.consumer_group_records import (
    target_assignment_epoch_record,
    target_assignment_record,
)
from barnabas.coordinator.group.group_records import KeyedRecord

__all__ = ["new_target"]

_NONE: Partitions = {}


def new_target(
    group: ConsumerGroup,
    epoch: int,
    assignor: str,
    view: ClusterView,
    changed: ConsumerGroupMember,
    now_ms: int,
) -> tuple[Mapping[str, Partitions], list[KeyedRecord]]:
    """Return the target of each member for an epoch, and the records that store what has changed.

    ``changed`` joins or replaces the member of its id; a static member also replaces the one of its instance id.
    """
    subscriptions = _Subscriptions(group, view)
    replaced = None if changed.instance_id is None else group.static_members.get(changed.instance_id)
    if replaced == changed.member_id:
        replaced = None
    present = group.target.get(replaced or changed.member_id, _NONE)
    updates: dict[str, MemberSubscription | None] = {changed.member_id: subscriptions.of(changed, present)}
    if replaced is not None:
        updates[replaced] = None
    spec = GroupSpec(
        {
            member_id: subscriptions.of(member, group.target.get(member_id, _NONE))
            for member_id, member in group.members.items()
        },
        updates=updates,
        is_homogeneous=group.is_homogeneous_with(group.members.get(replaced or changed.member_id), changed),
    )
    chosen = assignor_named(assignor)
    if chosen is None:
        raise ApiException(ErrorCode.UNSUPPORTED_ASSIGNOR, f"ServerAssignor {assignor} is not supported.")
    try:
        assigned = chosen.assign(spec, view)
    except PartitionAssignorError as error:
        raise ApiException(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"Failed to compute a new target assignment for epoch {epoch}: {error}",
        ) from error
    members = {**group.members, changed.member_id: changed}
    if replaced is not None:
        del members[replaced]
    records = [
        target_assignment_record(group.group_id, member_id, assigned.get(member_id, _NONE))
        for member_id in members
        if group.target.get(member_id) != assigned.get(member_id, _NONE)
    ]
    records.append(target_assignment_epoch_record(group.group_id, epoch, now_ms))
    return assigned, records


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
            topic_ids = self._by_subscription[key] = self._view.ids_of(self._group.topics_of(member))
        return MemberSubscription(member.rack_id, member.instance_id, topic_ids, assigned)
