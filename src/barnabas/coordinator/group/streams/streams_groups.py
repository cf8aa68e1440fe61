"""The streams groups of one ``__consumer_offsets`` partition: their requests, their records, their descriptions."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from functools import singledispatchmethod

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.coordinator.coordinator_result import CoordinatorRecord, CoordinatorResult, TimerAction
from barnabas.coordinator.group.assignor.group_spec import Steps
from barnabas.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.coordinator.group.classic.converted_group_record import ConvertedGroupRecord
from barnabas.coordinator.group.cluster_view import ClusterView
from barnabas.coordinator.group.described_members import described_in_steps
from barnabas.coordinator.group.group_coordinator_config import GroupCoordinatorConfig
from barnabas.coordinator.group.group_records import KeyedRecord
from barnabas.coordinator.group.group_request_context import GroupRequestContext
from barnabas.coordinator.group.groups import Groups
from barnabas.coordinator.group.heartbeat_request import JOIN_EPOCH, LEAVE_EPOCH
from barnabas.coordinator.group.loaded_members import start_deadlines
from barnabas.coordinator.group.member_timers import MemberTimers
from barnabas.coordinator.group.stepped_work import SteppedWork
from barnabas.coordinator.group.streams.group_changes import GroupChanges
from barnabas.coordinator.group.streams.heartbeat import DecidedHeartbeat, Heartbeat
from barnabas.coordinator.group.streams.streams_group import StreamsGroup
from barnabas.coordinator.group.streams.streams_group_member import MemberState, StreamsGroupMember
from barnabas.coordinator.group.streams.streams_group_values import (
    member_with_assignment,
    member_with_metadata,
    member_without_assignment,
    target_assignment_tasks,
)
from barnabas.coordinator.group.streams.tasks import NO_TASKS, TasksTuple, sorted_tasks
from barnabas.coordinator.group.streams.topology import StreamsTopology
from barnabas.coordinator.timer_queue import TimerQueue
from barnabas.protocol.messages import streams_group_describe as describe
from barnabas.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from barnabas.protocol.records.streams_group_current_member_assignment_key import StreamsGroupCurrentMemberAssignmentKey
from barnabas.protocol.records.streams_group_current_member_assignment_value import (
    StreamsGroupCurrentMemberAssignmentValue,
)
from barnabas.protocol.records.streams_group_member_metadata_key import StreamsGroupMemberMetadataKey
from barnabas.protocol.records.streams_group_member_metadata_value import StreamsGroupMemberMetadataValue
from barnabas.protocol.records.streams_group_metadata_key import StreamsGroupMetadataKey
from barnabas.protocol.records.streams_group_metadata_value import StreamsGroupMetadataValue
from barnabas.protocol.records.streams_group_target_assignment_member_key import StreamsGroupTargetAssignmentMemberKey
from barnabas.protocol.records.streams_group_target_assignment_member_value import (
    StreamsGroupTargetAssignmentMemberValue,
)
from barnabas.protocol.records.streams_group_target_assignment_metadata_key import (
    StreamsGroupTargetAssignmentMetadataKey,
)
from barnabas.protocol.records.streams_group_target_assignment_metadata_value import (
    StreamsGroupTargetAssignmentMetadataValue,
)
from barnabas.protocol.records.streams_group_topology_key import StreamsGroupTopologyKey
from barnabas.protocol.records.streams_group_topology_value import StreamsGroupTopologyValue
from barnabas.protocol.schema import Message

__all__ = ["StreamsGroups"]

log = logging.getLogger(__name__)

_NO_EPOCH = -1


class StreamsGroups:
    def __init__(
        self,
        config: GroupCoordinatorConfig,
        groups: Groups,
        view: ClusterView,
        timers: TimerQueue[TimerAction],
        work: SteppedWork,
    ) -> None:
        self._config = config
        self._groups = groups
        self.changes = GroupChanges(config, groups, view, MemberTimers(timers), work)

    def __iter__(self) -> Iterator[StreamsGroup]:
        return self._groups.of_kind(StreamsGroup)

    def require(self, group_id: str, *, name: str = "Group") -> StreamsGroup:
        """Return the group; raises GROUP_ID_NOT_FOUND. ``name`` begins the message if no group has this id."""
        return self._groups.require_of_kind(group_id, StreamsGroup, name=name)

    # -- StreamsGroupHeartbeat

    def heartbeat(
        self, context: GroupRequestContext, request: StreamsGroupHeartbeatRequest, now_ms: int
    ) -> CoordinatorResult[DecidedHeartbeat]:
        if request.member_epoch == LEAVE_EPOCH:
            return self._leave(request)
        conversion: list[CoordinatorRecord] = []
        is_known = self._groups.find(request.group_id) is not None
        group = self._group_of(request, conversion)
        decision = Heartbeat(self.changes, context, request, now_ms)
        return decision.decide(group, conversion, is_known=is_known)

    def _group_of(self, request: StreamsGroupHeartbeatRequest, conversion: list[CoordinatorRecord]) -> StreamsGroup:
        """Return the group; a new one if its first member joins, or if a classic group without members becomes one."""
        group_id = request.group_id
        if request.member_epoch != JOIN_EPOCH:
            return self.require(group_id, name="Streams group")
        group = self._groups.find(group_id)
        if isinstance(group, ClassicGroup) and group.is_empty:
            conversion.append(ConvertedGroupRecord.end_of(group))
            group = None
        joined = StreamsGroup(group_id) if group is None else self.require(group_id)
        size_max = self._config.group_streams_max_size
        if len(joined.members) >= size_max:
            raise ApiException(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The streams group has reached its maximum capacity of {size_max} members.",
            )
        return joined

    def _leave(self, request: StreamsGroupHeartbeatRequest) -> CoordinatorResult[DecidedHeartbeat]:
        group = self.require(request.group_id)
        if request.shutdown_application:
            group.request_shutdown(request.member_id)
        member = group.member(request.member_id)
        response = StreamsGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch, status=[]
        )
        return self.changes.fence(group, member).with_response(DecidedHeartbeat(response, {}))

    # -- StreamsGroupDescribe

    def describe_in_steps(self, group_id: str) -> Steps[describe.DescribedGroup]:
        """Describe the group as it is now; the members of a large one in steps."""
        try:
            group = self.require(group_id)
        except ApiException as error:
            return describe.DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
        described = describe.DescribedGroup(
            group_id=group_id,
            group_state=group.state_name,
            group_epoch=group.epoch,
            assignment_epoch=group.assignment_epoch,
            topology=_described_topology(group),
        )
        present = [(member, group.target.get(member_id, NO_TASKS)) for member_id, member in group.members.items()]
        described.members = yield from described_in_steps(present, _described_member)
        return described

    # -- replay

    def replay(self, record: KeyedRecord) -> None:
        self._replay(record.key, record.value)

    @singledispatchmethod
    def _replay(self, key: Message, value: Message | None) -> None:
        raise TypeError(f"{type(key).__name__} is not the key of a streams group's record")

    @_replay.register
    def _(self, key: StreamsGroupMetadataKey, value: StreamsGroupMetadataValue | None) -> None:
        if value is not None:
            group = self._of_record(key.group_id)
            group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
            group.validated_topology_epoch = value.validated_topology_epoch
            group.assignment_configs = {config.key: config.value for config in value.last_assignment_configs or ()}
        elif (existing := self.changes.find(key.group_id)) is not None:
            self.changes.timers.cancel_all(key.group_id, existing.members)
            self.changes.cancel_initial_delay(key.group_id)
            self._groups.move_subscription(key.group_id, _topics_of(existing), frozenset())
            self._groups.remove(key.group_id)

    @_replay.register
    def _(self, key: StreamsGroupTopologyKey, value: StreamsGroupTopologyValue | None) -> None:
        group = self._of_record(key.group_id) if value is not None else self.changes.find(key.group_id)
        if group is None:
            return
        before = _topics_of(group)
        group.topology = None if value is None else StreamsTopology.of(value)
        self._groups.move_subscription(key.group_id, before, set(_topics_of(group)))

    @_replay.register
    def _(self, key: StreamsGroupMemberMetadataKey, value: StreamsGroupMemberMetadataValue | None) -> None:
        group = self._of_record(key.group_id) if value is not None else self.changes.find(key.group_id)
        if group is None:
            return
        if value is not None:
            before = group.members.get(key.member_id) or StreamsGroupMember(key.member_id)
            group.update_member(member_with_metadata(before, value))
        elif key.member_id in group.members:
            group.remove_member(key.member_id)

    @_replay.register
    def _(
        self, key: StreamsGroupCurrentMemberAssignmentKey, value: StreamsGroupCurrentMemberAssignmentValue | None
    ) -> None:
        group = self._of_record(key.group_id) if value is not None else self.changes.find(key.group_id)
        if group is None:
            return
        before = group.members.get(key.member_id)
        if value is not None:
            group.update_member(member_with_assignment(before or StreamsGroupMember(key.member_id), value))
        elif before is not None:
            group.update_member(member_without_assignment(before))

    @_replay.register
    def _(
        self, key: StreamsGroupTargetAssignmentMemberKey, value: StreamsGroupTargetAssignmentMemberValue | None
    ) -> None:
        if value is not None:
            self._of_record(key.group_id).target[key.member_id] = target_assignment_tasks(value)
        elif (group := self.changes.find(key.group_id)) is not None:
            group.target.pop(key.member_id, None)

    @_replay.register
    def _(
        self, key: StreamsGroupTargetAssignmentMetadataKey, value: StreamsGroupTargetAssignmentMetadataValue | None
    ) -> None:
        if value is not None:
            group = self._of_record(key.group_id)
            group.assignment_epoch, group.assignment_timestamp_ms = value.assignment_epoch, value.assignment_timestamp
        elif (existing := self.changes.find(key.group_id)) is not None:
            existing.assignment_epoch, existing.assignment_timestamp_ms = _NO_EPOCH, 0

    def _of_record(self, group_id: str) -> StreamsGroup:
        return self._groups.of_record(group_id, StreamsGroup)

    # -- becoming and ceasing to be the coordinator

    def on_loaded(self, now_ms: int) -> None:
        """Start the sessions of the loaded members, and the deadlines of those that must give up tasks."""

        def start(group: StreamsGroup, member: StreamsGroupMember) -> None:
            self.changes.start_session(group.group_id, member.member_id, now_ms)
            if member.state is MemberState.UNREVOKED_TASKS:
                self.changes.start_rebalance_timeout(group.group_id, member, now_ms)

        steps = start_deadlines(self, self.changes.timers, start)
        self.changes.work.run("streams sessions", steps, now_ms)

    def on_unloaded(self) -> None:
        self.changes.timers.clear()


def _topics_of(group: StreamsGroup) -> list[str]:
    return [] if group.topology is None else group.topology.required_topics()


def _described_topology(group: StreamsGroup) -> describe.Topology | None:
    """Return the topology with the partition counts of internal topics, as soon as all of them exist."""
    if group.configured_topology is not None and group.configured_topology.is_ready:
        return group.configured_topology.describe()
    return None if group.topology is None else group.topology.describe()


def _described_member(member_and_target: tuple[StreamsGroupMember, TasksTuple]) -> describe.Member:
    member, target = member_and_target
    assigned = member.assigned_tasks
    endpoint = member.user_endpoint
    return describe.Member(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else describe.Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[describe.KeyValue(key=key, value=value) for key, value in member.client_tags.items()],
        assignment=_described_tasks(assigned.active, assigned.standby, assigned.warmup),
        target_assignment=_described_tasks(target.active, target.standby, target.warmup),
    )


def _described_tasks(
    active: Mapping[str, Iterable[int]], standby: Mapping[str, Iterable[int]], warmup: Mapping[str, Iterable[int]]
) -> describe.Assignment:
    return describe.Assignment(
        active_tasks=_described_ids(active), standby_tasks=_described_ids(standby), warmup_tasks=_described_ids(warmup)
    )


def _described_ids(tasks: Mapping[str, Iterable[int]]) -> list[describe.TaskIds]:
    return [
        describe.TaskIds(subtopology_id=subtopology_id, partitions=partitions)
        for subtopology_id, partitions in sorted_tasks(tasks)
    ]
