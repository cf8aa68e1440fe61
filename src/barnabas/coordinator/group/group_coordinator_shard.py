"""The groups of one partition of ``__consumer_offsets``, their offsets and their timers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.coordinator.coordinator_result import CoordinatorRecord, CoordinatorResult, TimerAction
from barnabas.coordinator.deferred import Deferred
from barnabas.coordinator.group.assignor.group_spec import Steps
from barnabas.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.coordinator.group.classic.classic_group_member import ClassicGroupMember
from barnabas.coordinator.group.classic.classic_groups import ClassicGroups
from barnabas.coordinator.group.cluster_view import ClusterView
from barnabas.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.coordinator.group.consumer.consumer_groups import ConsumerGroups
from barnabas.coordinator.group.described_members import described_in_steps
from barnabas.coordinator.group.group_coordinator_config import GroupCoordinatorConfig
from barnabas.coordinator.group.group_records import (
    GroupMetadataRecord,
    KeyedRecord,
    OffsetCommitRecord,
    TopicOffsetsRecord,
    UnknownRecord,
    decode_record,
)
from barnabas.coordinator.group.group_request_context import GroupRequestContext
from barnabas.coordinator.group.group_state import GroupState, GroupType
from barnabas.coordinator.group.groups import Groups
from barnabas.coordinator.group.offset_metadata_manager import OffsetMetadataManager
from barnabas.coordinator.group.share.share_group_offsets import ShareGroupOffsets
from barnabas.coordinator.group.share.share_groups import ShareGroups
from barnabas.coordinator.group.stepped_work import SteppedWork
from barnabas.coordinator.group.streams.streams_group import StreamsGroup
from barnabas.coordinator.group.streams.streams_groups import StreamsGroups
from barnabas.coordinator.timer_queue import Timer, TimerQueue
from barnabas.protocol.messages.delete_groups import DeletableGroupResult
from barnabas.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupResponse, MemberIdentity
from barnabas.protocol.messages.list_groups import ListedGroup
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

__all__ = ["GroupCoordinatorShard"]

_GROUP_NOT_FOUND_SINCE = 6
"""DescribeGroups version from which a missing group is an error; before, it is a group in state Dead."""


class GroupCoordinatorShard:
    def __init__(self, config: GroupCoordinatorConfig, new_uuid: Callable[[], str], view: ClusterView) -> None:
        self._config = config
        self.timers: TimerQueue[TimerAction] = TimerQueue()
        self.groups = Groups()
        self._work = SteppedWork(self.timers)
        self.classic = ClassicGroups(config, self.groups, self.timers, self._work, new_uuid)
        self.consumer = ConsumerGroups(
            config, self.groups, view, self.timers, self._work, new_uuid, self.classic.rebalance
        )
        self.share = ShareGroups(config, self.groups, view, self.timers, self._work)
        self.share_offsets = ShareGroupOffsets(self.share, view)
        self.streams = StreamsGroups(config, self.groups, view, self.timers, self._work)
        self.offsets = OffsetMetadataManager(config, self.groups, self.classic, view)
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
            self.classic.replay(record, now_ms)
        elif isinstance(record, KeyedRecord):
            self._replay_keyed(record, now_ms)

    def _replay_keyed(self, record: KeyedRecord, now_ms: int) -> None:
        if record.group_type is GroupType.CONSUMER:
            self.consumer.replay(record)
        elif record.group_type is GroupType.SHARE:
            self.share.replay(record, now_ms)
        else:
            self.streams.replay(record)

    def replay_end_transaction_marker(self, producer_id: int, *, committed: bool, now_ms: int) -> None:
        for group_id, _, _ in self.offsets.offsets.end_transaction(producer_id, committed=committed):
            self.classic.ensure_group(group_id, now_ms)

    def on_loaded(self, now_ms: int) -> list[CoordinatorResult[None]]:
        self.timers.schedule(self._expiry_timer, now_ms + self._config.offsets_retention_check_interval_ms)
        self.offsets.commit_count = self.offsets.deletion_count = 0  # Records that were read are not replayed again.
        self.groups.is_loading = False
        self.consumer.on_loaded(now_ms)
        self.share.on_loaded(now_ms)
        self.streams.on_loaded(now_ms)
        return self.classic.on_loaded(now_ms)

    def on_unloaded(self, now_ms: int) -> None:
        self._expiry_timer.cancel()
        self._work.clear()
        self.consumer.on_unloaded()
        self.share.on_unloaded()
        self.streams.on_unloaded()
        self.classic.on_unloaded(now_ms)
        self.groups.clear()

    # -- reading groups

    def list_groups(self, states: frozenset[str], types: frozenset[str]) -> list[ListedGroup]:
        """``states`` and ``types`` are lower case; empty means all."""
        return [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.listed_protocol_type,
                group_state=group.state_name,
                group_type=group.group_type.value,
            )
            for group in self.groups
            if (not types or group.group_type.value in types) and (not states or group.state_name.lower() in states)
        ]

    def describe_group(self, group_id: str, api_version: int) -> Steps[DescribedGroup]:
        """Describe a classic group as it is now; the members of a large one in steps."""
        group = self.groups.find(group_id)
        if not isinstance(group, ClassicGroup):
            described = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
            if api_version >= _GROUP_NOT_FOUND_SINCE:
                described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
                described.error_message = (
                    f"Group {group_id} not found." if group is None else f"Group {group_id} is not a classic group."
                )
            return described
        # Before it is Stable a group has no protocol to show metadata of; assignments are those of the last generation.
        protocol = group.protocol_name if group.state is GroupState.STABLE else None
        described = DescribedGroup(
            group_id=group_id,
            group_state=group.state.value,
            protocol_type=group.protocol_type or "",
            protocol_data=protocol or "",
        )

        def member_of(member: ClassicGroupMember) -> DescribedGroupMember:
            return DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=b"" if protocol is None else member.protocols.get(protocol, b""),
                member_assignment=member.assignment,
            )

        described.members = yield from described_in_steps(group.members.values(), member_of)
        return described

    # -- members of the classic protocol

    def join_group(
        self,
        context: GroupRequestContext,
        request: JoinGroupRequest,
        parked: Deferred[JoinGroupResponse],
        now_ms: int,
    ) -> CoordinatorResult[JoinGroupResponse]:
        """``parked`` receives the answer, unless it is that of the decision. A consumer or streams group without
        members becomes a classic one."""
        group = self.groups.find(request.group_id)
        if group is None or isinstance(group, ClassicGroup):
            return self.classic.join_group(context, request, parked, now_ms)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            return self.consumer.classic_members.join(group, context, request, now_ms)
        if not isinstance(group, ConsumerGroup | StreamsGroup) or not group.is_empty:
            return CoordinatorResult(response=JoinGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        if request.member_id:
            unknown = JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID, member_id=request.member_id)
            return CoordinatorResult(response=unknown)
        return self._join_converted(group, context, request, parked, now_ms)

    def _join_converted(
        self,
        group: ConsumerGroup | StreamsGroup,
        context: GroupRequestContext,
        request: JoinGroupRequest,
        parked: Deferred[JoinGroupResponse],
        now_ms: int,
    ) -> CoordinatorResult[JoinGroupResponse]:
        def join(now_ms: int) -> CoordinatorResult[None]:
            result = self.classic.join_group(context, request, parked, now_ms)
            return CoordinatorResult(result.records, on_commit=result.on_commit, on_error=result.on_error)

        conversion = self.consumer.conversion.empty_classic(group, now_ms)
        return CoordinatorResult(conversion.records, is_ahead=True, on_append=join)

    def sync_group(
        self, request: SyncGroupRequest, parked: Deferred[SyncGroupResponse], now_ms: int
    ) -> CoordinatorResult[SyncGroupResponse]:
        """``parked`` receives the answer, unless it is that of the decision."""
        group = self.groups.find(request.group_id)
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            return self.consumer.classic_members.sync(group, request, now_ms)
        return self.classic.sync_group(request, parked, now_ms)

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> CoordinatorResult[HeartbeatResponse]:
        group = self.groups.find(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self.consumer.classic_members.heartbeat(group, request, now_ms)
        return CoordinatorResult(response=HeartbeatResponse(error_code=self.classic.heartbeat(request, now_ms)))

    def leave_group(
        self, group_id: str, members: list[MemberIdentity], now_ms: int
    ) -> CoordinatorResult[LeaveGroupResponse]:
        group = self.groups.find(group_id)
        if isinstance(group, ConsumerGroup):
            return self.consumer.classic_members.leave(group, members, now_ms)
        return self.classic.leave_group(group_id, members, now_ms)

    # -- removing groups and offsets

    def delete_groups(self, group_ids: Iterable[str]) -> CoordinatorResult[list[DeletableGroupResult]]:
        records: list[CoordinatorRecord] = []
        results: list[DeletableGroupResult] = []
        for group_id in group_ids:
            code = ErrorCode.NONE
            try:
                group = self.groups.require(group_id)
                group.validate_delete()
                records += self.offsets.tombstones(group_id)
                records += group.tombstones()
            except ApiException as error:
                code = error.code
            results.append(DeletableGroupResult(group_id=group_id, error_code=code))
        return CoordinatorResult(records, results, is_atomic=False)

    def delete_partitions(self, partitions: Iterable[tuple[str, int]]) -> CoordinatorResult[None]:
        return CoordinatorResult(self.offsets.tombstones_of_partitions(partitions), is_atomic=False)

    def expire(self, now_ms: int) -> CoordinatorResult[None]:
        """Remove expired offsets, and empty groups that have none left."""
        records: list[CoordinatorRecord] = []
        for group in self.groups:
            is_bare = self.offsets.expire(group, now_ms, records)
            if is_bare and group.may_be_removed:
                records += group.tombstones()
        return CoordinatorResult(records, is_atomic=False)

    def _expire_and_reschedule(self, now_ms: int) -> CoordinatorResult[None]:
        self.timers.schedule(self._expiry_timer, now_ms + self._config.offsets_retention_check_interval_ms)
        return self.expire(now_ms)
