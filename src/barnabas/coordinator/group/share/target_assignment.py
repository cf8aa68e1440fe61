"""The target assignment of a share group, computed by the coordinator's assignor of share groups."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.assignor.group_spec import GroupSpec, MemberSubscription
from barnabas.coordinator.group.assignor.hash_order import names_in_order, ordered
from barnabas.coordinator.group.cluster_view import ClusterView
from barnabas.coordinator.group.computed_assignment import computed_assignment
from barnabas.coordinator.group.group_records import KeyedRecord
from barnabas.coordinator.group.group_state import GroupType
from barnabas.coordinator.group.modern_group import NO_PARTITIONS, Partitions
from barnabas.coordinator.group.share.share_group import ShareGroup
from barnabas.coordinator.group.share.share_group_member import ShareGroupMember
from barnabas.coordinator.group.share.share_group_records import (
    target_assignment_epoch_record,
    target_assignment_record,
)

__all__ = ["ASSIGNOR", "new_target"]

ASSIGNOR = "simple"


def new_target(
    group: ShareGroup,
    epoch: int,
    view: ClusterView,
    changed: ShareGroupMember,
    subscribers: Mapping[str, int],
    now_ms: int,
) -> tuple[Mapping[str, Partitions], list[KeyedRecord]]:
    """Return the target of each member for an epoch, and the records that store what has changed.

    ``changed`` joins or replaces the member of its id, ``subscribers`` are those of the group with it.
    """
    subscriptions = _Subscriptions(view)
    members = {**group.members, changed.member_id: changed}
    spec = GroupSpec(
        {
            member_id: subscriptions.of(member, group.target.get(member_id, NO_PARTITIONS))
            for member_id, member in members.items()
        },
        member_count_max=group.member_count_max,
        is_homogeneous=all(count == len(members) for count in subscribers.values()),
        assignable=group.assignable,
    )
    assigned = computed_assignment(GroupType.SHARE, ASSIGNOR, spec, view, epoch)
    records = [
        target_assignment_record(group.group_id, member_id, assigned.get(member_id, NO_PARTITIONS))
        for member_id in members
        if group.target.get(member_id) != assigned.get(member_id, NO_PARTITIONS)
    ]
    records.append(target_assignment_epoch_record(group.group_id, epoch, now_ms))
    return assigned, records


class _Subscriptions:
    """Members with equal subscriptions share one set of topic ids."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._by_names: dict[frozenset[str], frozenset[Uuid]] = {}

    def of(self, member: ShareGroupMember, assigned: Partitions) -> MemberSubscription:
        topic_ids = self._by_names.get(member.topic_names)
        if topic_ids is None:
            names = names_in_order(sorted(member.topic_names))
            found = [topic_id for name in names if (topic_id := self._view.id_of(name)) is not None]
            topic_ids = self._by_names[member.topic_names] = ordered(found, len(names))
        return MemberSubscription(member.rack_id, None, topic_ids, assigned)
