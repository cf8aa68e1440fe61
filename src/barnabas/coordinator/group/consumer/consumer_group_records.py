"""The records of consumer groups in ``__consumer_offsets``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.assignor.hash_order import in_order
from barnabas.coordinator.group.consumer.consumer_group_member import ConsumerGroupMember
from barnabas.coordinator.group.consumer.regular_expression import ResolvedRegularExpression
from barnabas.coordinator.group.group_records import KeyedRecord
from barnabas.coordinator.group.group_state import GroupType
from barnabas.coordinator.group.member_tombstones import MemberTombstones
from barnabas.protocol.records.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from barnabas.protocol.records.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from barnabas.protocol.records.consumer_group_metadata_key import ConsumerGroupMetadataKey
from barnabas.protocol.records.consumer_group_metadata_value import ConsumerGroupMetadataValue
from barnabas.protocol.records.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from barnabas.protocol.records.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from barnabas.protocol.records.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from barnabas.protocol.records.consumer_group_target_assignment_member_key import ConsumerGroupTargetAssignmentMemberKey
from barnabas.protocol.records.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from barnabas.protocol.records.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from barnabas.protocol.records.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)
from barnabas.protocol.schema import Message

__all__ = [
    "current_assignment_record",
    "epoch_record",
    "group_tombstones",
    "member_record",
    "member_tombstones",
    "partition_metadata_tombstone",
    "regular_expression_record",
    "target_assignment_epoch_record",
    "target_assignment_record",
]


def _record(key: Message, value: Message | None) -> KeyedRecord:
    return KeyedRecord(GroupType.CONSUMER, key, value)


_MEMBER_TOMBSTONES = MemberTombstones(
    GroupType.CONSUMER,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupMemberMetadataKey,
)


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> KeyedRecord:
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return _record(ConsumerGroupMetadataKey(group_id=group_id), value)


def member_record(group_id: str, member: ConsumerGroupMember) -> KeyedRecord:
    key = ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id)
    return _record(key, member.metadata_value())


def current_assignment_record(group_id: str, member: ConsumerGroupMember) -> KeyedRecord:
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return _record(key, member.current_assignment_value())


def target_assignment_record(group_id: str, member_id: str, partitions: Mapping[Uuid, frozenset[int]]) -> KeyedRecord:
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TopicPartition(topic_id=topic_id, partitions=list(in_order(of_topic)))
            for topic_id, of_topic in partitions.items()
        ]
    )
    return _record(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value)


def target_assignment_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> KeyedRecord:
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return _record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def regular_expression_record(group_id: str, pattern: str, resolved: ResolvedRegularExpression | None) -> KeyedRecord:
    value = (
        None
        if resolved is None
        else ConsumerGroupRegularExpressionValue(
            topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
        )
    )
    return _record(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern), value)


def partition_metadata_tombstone(group_id: str) -> KeyedRecord:
    """Kafka before 4.1 stored the partitions of subscribed topics; the hash in the epoch's record replaces that."""
    return _record(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def member_tombstones(group_id: str, member_id: str) -> list[KeyedRecord]:
    return _MEMBER_TOMBSTONES.of_member(group_id, member_id)


def group_tombstones(group_id: str, member_ids: Iterable[str], patterns: Iterable[str]) -> list[KeyedRecord]:
    """Remove a group and all of its parts, the group last."""
    records = _MEMBER_TOMBSTONES.of_all_members(group_id, member_ids)
    records += [regular_expression_record(group_id, pattern, None) for pattern in patterns]
    records.append(partition_metadata_tombstone(group_id))
    records.append(_record(ConsumerGroupMetadataKey(group_id=group_id), None))
    return records
