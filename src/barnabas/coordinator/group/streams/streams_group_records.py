"""The records of streams groups in ``__consumer_offsets``; ``streams_group_values`` makes and reads their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from barnabas.coordinator.group.group_records import KeyedRecord
from barnabas.coordinator.group.group_state import GroupType
from barnabas.coordinator.group.member_tombstones import MemberTombstones
from barnabas.coordinator.group.streams.streams_group_member import StreamsGroupMember
from barnabas.coordinator.group.streams.streams_group_values import (
    current_assignment_value,
    group_metadata_value,
    member_metadata_value,
    target_assignment_value,
)
from barnabas.coordinator.group.streams.tasks import TasksTuple
from barnabas.protocol.records.streams_group_current_member_assignment_key import StreamsGroupCurrentMemberAssignmentKey
from barnabas.protocol.records.streams_group_member_metadata_key import StreamsGroupMemberMetadataKey
from barnabas.protocol.records.streams_group_metadata_key import StreamsGroupMetadataKey
from barnabas.protocol.records.streams_group_target_assignment_member_key import StreamsGroupTargetAssignmentMemberKey
from barnabas.protocol.records.streams_group_target_assignment_metadata_key import (
    StreamsGroupTargetAssignmentMetadataKey,
)
from barnabas.protocol.records.streams_group_target_assignment_metadata_value import (
    StreamsGroupTargetAssignmentMetadataValue,
)
from barnabas.protocol.records.streams_group_topology_key import StreamsGroupTopologyKey
from barnabas.protocol.records.streams_group_topology_value import StreamsGroupTopologyValue
from barnabas.protocol.schema import Message

__all__ = [
    "current_assignment_record",
    "epoch_record",
    "group_tombstones",
    "member_record",
    "member_tombstones",
    "target_assignment_epoch_record",
    "target_assignment_record",
    "topology_record",
]


def _record(key: Message, value: Message | None) -> KeyedRecord:
    return KeyedRecord(GroupType.STREAMS, key, value)


_MEMBER_TOMBSTONES = MemberTombstones(
    GroupType.STREAMS,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupMemberMetadataKey,
)


def epoch_record(
    group_id: str,
    *,
    epoch: int,
    metadata_hash: int,
    validated_topology_epoch: int,
    assignment_configs: Mapping[str, str],
) -> KeyedRecord:
    value = group_metadata_value(
        epoch=epoch,
        metadata_hash=metadata_hash,
        validated_topology_epoch=validated_topology_epoch,
        assignment_configs=assignment_configs,
    )
    return _record(StreamsGroupMetadataKey(group_id=group_id), value)


def topology_record(group_id: str, value: StreamsGroupTopologyValue) -> KeyedRecord:
    return _record(StreamsGroupTopologyKey(group_id=group_id), value)


def member_record(group_id: str, member: StreamsGroupMember) -> KeyedRecord:
    key = StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id)
    return _record(key, member_metadata_value(member))


def current_assignment_record(group_id: str, member: StreamsGroupMember) -> KeyedRecord:
    key = StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return _record(key, current_assignment_value(member))


def target_assignment_record(group_id: str, member_id: str, target: TasksTuple) -> KeyedRecord:
    key = StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return _record(key, target_assignment_value(target))


def target_assignment_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> KeyedRecord:
    value = StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return _record(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def member_tombstones(group_id: str, member_id: str) -> list[KeyedRecord]:
    return _MEMBER_TOMBSTONES.of_member(group_id, member_id)


def group_tombstones(group_id: str, member_ids: Iterable[str]) -> list[KeyedRecord]:
    """Remove a group and all of its parts."""
    records = _MEMBER_TOMBSTONES.of_all_members(group_id, member_ids)
    records.append(_record(StreamsGroupMetadataKey(group_id=group_id), None))
    records.append(_record(StreamsGroupTopologyKey(group_id=group_id), None))
    return records
