"""Static members: a process that returns under the same instance id takes the place of its predecessor (KIP-345)."""

from __future__ import annotations

from dataclasses import replace

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.coordinator.coordinator_result import CoordinatorRecord
from barnabas.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.coordinator.group.consumer.consumer_group_member import ConsumerGroupMember
from barnabas.coordinator.group.consumer.consumer_group_records import (
    current_assignment_record,
    member_record,
    member_tombstones,
    target_assignment_record,
)

__all__ = ["check_instance", "replace_static", "require_static"]


def require_static(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerGroupMember:
    """Return the static member; raises UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if it was replaced."""
    member = group.static_member(instance_id)
    if member is None:
        raise ApiException(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    check_instance(member, member_id, instance_id)
    return member


def check_instance(member: ConsumerGroupMember, member_id: str, instance_id: str) -> None:
    """Raise FENCED_INSTANCE_ID if another member has this instance id now."""
    if member.member_id != member_id:
        raise ApiException(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}.",
        )


def replace_static(
    group: ConsumerGroup, present: ConsumerGroupMember, member_id: str, records: list[CoordinatorRecord]
) -> ConsumerGroupMember:
    """Give a static member's place, with its assignments, to the process that returned in its name."""
    member = replace(present, member_id=member_id, member_epoch=0, previous_member_epoch=0)
    group_id = group.group_id
    records += member_tombstones(group_id, present.member_id)
    records.append(member_record(group_id, member))
    records.append(target_assignment_record(group_id, member_id, group.target.get(present.member_id, {})))
    records.append(current_assignment_record(group_id, member))
    return member
