"""The records of share groups in ``__consumer_offsets``."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.assignor.hash_order import in_order
from barnabas.coordinator.group.group_records import KeyedRecord
from barnabas.coordinator.group.group_state import GroupType
from barnabas.coordinator.group.member_tombstones import MemberTombstones
from barnabas.coordinator.group.modern_group import Partitions
from barnabas.coordinator.group.share.share_group_member import ShareGroupMember
from barnabas.coordinator.group.share.state_partitions import StatePartitions
from barnabas.protocol.records.share_group_current_member_assignment_key import ShareGroupCurrentMemberAssignmentKey
from barnabas.protocol.records.share_group_member_metadata_key import ShareGroupMemberMetadataKey
from barnabas.protocol.records.share_group_metadata_key import ShareGroupMetadataKey
from barnabas.protocol.records.share_group_metadata_value import ShareGroupMetadataValue
from barnabas.protocol.records.share_group_state_partition_metadata_key import ShareGroupStatePartitionMetadataKey
from barnabas.protocol.records.share_group_target_assignment_member_key import ShareGroupTargetAssignmentMemberKey
from barnabas.protocol.records.share_group_target_assignment_member_value import (
    ShareGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from barnabas.protocol.records.share_group_target_assignment_metadata_key import ShareGroupTargetAssignmentMetadataKey
from barnabas.protocol.records.share_group_target_assignment_metadata_value import (
    ShareGroupTargetAssignmentMetadataValue,
)
from barnabas.protocol.schema import Message

__all__ = [
    "current_assignment_record",
    "epoch_record",
    "group_tombstones",
    "member_record",
    "member_tombstones",
    "state_partitions_record",
    "target_assignment_epoch_record",
    "target_assignment_record",
]


def _record(key: Message, value: Message | None) -> KeyedRecord:
    return KeyedRecord(GroupType.SHARE, key, value)


_MEMBER_TOMBSTONES = MemberTombstones(
    GroupType.SHARE,
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupMemberMetadataKey,
)


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> KeyedRecord:
    value = ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return _record(ShareGroupMetadataKey(group_id=group_id), value)


def member_record(group_id: str, member: ShareGroupMember) -> KeyedRecord:
    key = ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id)
    return _record(key, member.metadata_value())


def current_assignment_record(group_id: str, member: ShareGroupMember) -> KeyedRecord:
    key = ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return _record(key, member.current_assignment_value())


def target_assignment_record(group_id: str, member_id: str, partitions: Partitions) -> KeyedRecord:
    value = ShareGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TopicPartition(topic_id=topic_id, partitions=list(in_order(of_topic)))
            for topic_id, of_topic in partitions.items()
        ]
    )
    return _record(ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def target_assignment_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> KeyedRecord:
    value = ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return _record(ShareGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def state_partitions_record(
    group_id: str, partitions: StatePartitions, name_of: Callable[[Uuid], str | None]
) -> KeyedRecord:
    """``name_of``: the name of a topic that is being deleted, if it is known."""
    return _record(ShareGroupStatePartitionMetadataKey(group_id=group_id), partitions.to_record(name_of))


def member_tombstones(group_id: str, member_id: str) -> list[KeyedRecord]:
    return _MEMBER_TOMBSTONES.of_member(group_id, member_id)


def group_tombstones(group_id: str, member_ids: Iterable[str]) -> list[KeyedRecord]:
    """Remove a group and all of its parts, the group last."""
    records = _MEMBER_TOMBSTONES.of_all_members(group_id, member_ids)
    records.append(_record(ShareGroupStatePartitionMetadataKey(group_id=group_id), None))
    records.append(_record(ShareGroupMetadataKey(group_id=group_id), None))
    return records
