"""The groups of one partition of ``__consumer_offsets``, their offsets and their timers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.coordinator.coordinator_result import CoordinatorRecord, CoordinatorResult, TimerAction
from barnabas.coordinator.group.group_coordinator_config import GroupCoordinatorConfig
from barnabas.coordinator.group.group_metadata_manager import GroupMetadataManager
from barnabas.coordinator.group.group_records import (
    ForeignGroupRecord,
    GroupMetadataRecord,
    OffsetCommitRecord,
    TopicOffsetsRecord,
    UnknownRecord,
    decode_record,
)
from barnabas.coordinator.group.group_state import GroupState, GroupType
from barnabas.coordinator.group.offset_metadata_manager import OffsetMetadataManager
from barnabas.coordinator.timer_queue import Timer, TimerQueue
from barnabas.protocol.messages.delete_groups import DeletableGroupResult
from barnabas.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from barnabas.protocol.messages.list_groups import ListedGroup

__all__ = ["GroupCoordinatorShard"]

_GROUP_NOT_FOUND_SINCE = 6
"""DescribeGroups version from which a missing group is an error; before, it is a group in state Dead."""


class GroupCoordinatorShard:
    def __init__(self, config: GroupCoordinatorConfig, new_uuid: Callable[[], str]) -> None:
        self._config = config
        self.timers: TimerQueue[TimerAction] = TimerQueue()
        self.groups = GroupMetadataManager(config, self.timers, new_uuid)
        self.offsets = OffsetMetadataManager(config, self.groups)
        self.unknown_record_types: dict[int, int] = {}
        """Record types newer than this code, and how many of each the log held."""
        self._expiry_timer: Timer[TimerAction] = Timer(self._expire_and_reschedule)

    # -- replay

    def decode(self, key: bytes, value: bytes | None) -> CoordinatorRecord | None:
        """Return a record of the log; None for one to skip, which is counted by its type."""
        record = decode_record(key, value)
        if isinstance(record, UnknownRecord):
            record_type = record.record_type
            self.unknown_record_types[record_type] = self.unknown_record_types.get(record_type, 0) + 1
            return None
        return record

    def replay(self, record: CoordinatorRecord, record_offset: int, producer_id: int, now_ms: int) -> None:
        if isinstance(record, TopicOffsetsRecord):
            self.offsets.replay_topic(record, record_offset, now_ms)
        elif isinstance(record, OffsetCommitRecord):
            self.offsets.replay(record, record_offset, producer_id, now_ms)
        elif isinstance(record, GroupMetadataRecord):
            self.groups.replay(record, now_ms)
        elif isinstance(record, ForeignGroupRecord):
            self.groups.replay_foreign(record)

    def replay_end_transaction_marker(self, producer_id: int, *, committed: bool, now_ms: int) -> None:
        for group_id, _, _ in self.offsets.offsets.end_transaction(producer_id, committed=committed):
            self.groups.ensure_group(group_id, now_ms)

    def on_loaded(self, now_ms: int) -> list[CoordinatorResult[None]]:
        self.timers.schedule(self._expiry_timer, now_ms + self._config.offsets_retention_check_interval_ms)
        self.offsets.commit_count = self.offsets.deletion_count = 0  # Records that were read are not replayed again.
        return self.groups.on_loaded(now_ms)

    def on_unloaded(self, now_ms: int) -> None:
        self._expiry_timer.cancel()
        self.groups.on_unloaded(now_ms)

    # -- reading groups

    def list_groups(self, states: frozenset[str], types: frozenset[str]) -> list[ListedGroup]:
        """``states`` and ``types`` are lower case; empty means all."""
        listed: list[ListedGroup] = []
        if not types or GroupType.CLASSIC.value in types:
            listed += [
                ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type or "",
                    group_state=group.state.value,
                    group_type=GroupType.CLASSIC.value,
                )
                for group in self.groups.groups()
                if not states or group.state.value.lower() in states
            ]
        if not states or GroupState.EMPTY.value.lower() in states:
            listed += [
                ListedGroup(
                    group_id=group_id,
                    protocol_type=group_type.value,
                    group_state=GroupState.EMPTY.value,
                    group_type=group_type.value,
                )
                for group_id, group_type in self.groups.foreign_groups.items()
                if (not types or group_type.value in types) and self.groups.find(group_id) is None
            ]
        return listed

    def describe_group(self, group_id: str, api_version: int) -> DescribedGroup:
        group = self.groups.find(group_id)
        if group is None:
            foreign = self.groups.foreign_groups.type_of(group_id)
            described = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
            if api_version >= _GROUP_NOT_FOUND_SINCE:
                described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
                described.error_message = (
                    f"Group {group_id} not found." if foreign is None else f"Group {group_id} is not a classic group."
                )
            return described
        # Before it is Stable a group has no protocol to show metadata of; assignments are those of the last generation.
        protocol = group.protocol_name if group.state is GroupState.STABLE else None
        return DescribedGroup(
            group_id=group_id,
            group_state=group.state.value,
            protocol_type=group.protocol_type or "",
            protocol_data=protocol or "",
            members=[
                DescribedGroupMember(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=b"" if protocol is None else member.protocols[protocol],
                    member_assignment=member.assignment,
                )
                for member in group.members.values()
            ],
        )

    # -- removing groups and offsets

    def delete_groups(self, group_ids: Iterable[str]) -> CoordinatorResult[list[DeletableGroupResult]]:
        records: list[CoordinatorRecord] = []
        results: list[DeletableGroupResult] = []
        for group_id in group_ids:
            code = ErrorCode.NONE
            try:
                self.groups.validate_delete_group(group_id)
                records += self.offsets.tombstones(group_id)
                records += self.groups.tombstones(group_id)
            except ApiException as error:
                code = error.code
            results.append(DeletableGroupResult(group_id=group_id, error_code=code))
        return CoordinatorResult(records, results, is_atomic=False)

    def delete_partitions(self, partitions: Iterable[tuple[str, int]]) -> CoordinatorResult[None]:
        return CoordinatorResult(self.offsets.tombstones_of_partitions(partitions), is_atomic=False)

    def expire(self, now_ms: int) -> CoordinatorResult[None]:
        """Remove expired offsets, and empty groups that have none left."""
        records: list[CoordinatorRecord] = []
        for group in self.groups.groups():
            is_bare = self.offsets.expire(group, now_ms, records)
            if is_bare and group.state is GroupState.EMPTY and not group.pending_join_members:
                records += self.groups.tombstones(group.group_id)
        return CoordinatorResult(records, is_atomic=False)

    def _expire_and_reschedule(self, now_ms: int) -> CoordinatorResult[None]:
        self.timers.schedule(self._expiry_timer, now_ms + self._config.offsets_retention_check_interval_ms)
        return self.expire(now_ms)
