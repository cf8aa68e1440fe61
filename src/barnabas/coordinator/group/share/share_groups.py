"""The share groups of one ``__consumer_offsets`` partition: their requests, their records, their descriptions."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Set
from dataclasses import replace
from functools import singledispatchmethod
from sys import intern

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.coordinator.coordinator_result import CoordinatorRecord, CoordinatorResult, TimerAction
from barnabas.coordinator.group.assignor.group_spec import Steps
from barnabas.coordinator.group.assignor.hash_order import ordered
from barnabas.coordinator.group.cluster_view import ClusterView
from barnabas.coordinator.group.described_members import described_in_steps
from barnabas.coordinator.group.group_coordinator_config import GroupCoordinatorConfig
from barnabas.coordinator.group.group_records import KeyedRecord
from barnabas.coordinator.group.group_request_context import GroupRequestContext
from barnabas.coordinator.group.groups import Groups
from barnabas.coordinator.group.heartbeat_request import JOIN_EPOCH, LEAVE_EPOCH
from barnabas.coordinator.group.heartbeat_settings import HeartbeatSettings
from barnabas.coordinator.group.large_target import LargeTargets
from barnabas.coordinator.group.loaded_members import start_deadlines
from barnabas.coordinator.group.member_timers import (
    REMOVAL_RETRY_PAUSE_MS,
    MemberAction,
    MemberTimers,
    TimerKind,
)
from barnabas.coordinator.group.metadata_hashes import MetadataHashes
from barnabas.coordinator.group.modern_group import NO_PARTITIONS, Partitions
from barnabas.coordinator.group.share.heartbeat import Heartbeat
from barnabas.coordinator.group.share.share_group import ShareGroup
from barnabas.coordinator.group.share.share_group_member import ShareGroupMember
from barnabas.coordinator.group.share.share_group_records import (
    epoch_record,
    member_tombstones,
    state_partitions_record,
)
from barnabas.coordinator.group.share.state_calls import DecidedHeartbeat
from barnabas.coordinator.group.share.state_partitions import StatePartitions
from barnabas.coordinator.group.share.target_assignment import ASSIGNOR, TARGETS
from barnabas.coordinator.group.stepped_work import SteppedWork
from barnabas.coordinator.timer_queue import TimerQueue
from barnabas.protocol.messages.share_group_describe import Assignment as DescribedAssignment
from barnabas.protocol.messages.share_group_describe import DescribedGroup, Member
from barnabas.protocol.messages.share_group_describe import TopicPartitions as DescribedPartitions
from barnabas.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from barnabas.protocol.records.share_group_current_member_assignment_key import ShareGroupCurrentMemberAssignmentKey
from barnabas.protocol.records.share_group_current_member_assignment_value import (
    ShareGroupCurrentMemberAssignmentValue,
)
from barnabas.protocol.records.share_group_member_metadata_key import ShareGroupMemberMetadataKey
from barnabas.protocol.records.share_group_member_metadata_value import ShareGroupMemberMetadataValue
from barnabas.protocol.records.share_group_metadata_key import ShareGroupMetadataKey
from barnabas.protocol.records.share_group_metadata_value import ShareGroupMetadataValue
from barnabas.protocol.records.share_group_state_partition_metadata_key import ShareGroupStatePartitionMetadataKey
from barnabas.protocol.records.share_group_state_partition_metadata_value import ShareGroupStatePartitionMetadataValue
from barnabas.protocol.records.share_group_target_assignment_member_key import ShareGroupTargetAssignmentMemberKey
from barnabas.protocol.records.share_group_target_assignment_member_value import ShareGroupTargetAssignmentMemberValue
from barnabas.protocol.records.share_group_target_assignment_metadata_key import ShareGroupTargetAssignmentMetadataKey
from barnabas.protocol.records.share_group_target_assignment_metadata_value import (
    ShareGroupTargetAssignmentMetadataValue,
)
from barnabas.protocol.schema import Message

__all__ = ["ShareGroups"]

log = logging.getLogger(__name__)

_NO_EPOCH = -1
Nothing = CoordinatorResult[None]


class ShareGroups:
    def __init__(
        self,
        config: GroupCoordinatorConfig,
        groups: Groups,
        view: ClusterView,
        timers: TimerQueue[TimerAction],
        work: SteppedWork,
    ) -> None:
        self._config = config
        self._settings = HeartbeatSettings("share", config.share_limits, view)
        self._groups = groups
        self._view = view
        self._timers = MemberTimers(timers)
        self._end_session: MemberAction = self._session_expired
        self._work = work
        self.rebalance_count = 0
        self._hashes = MetadataHashes(view, work)
        self._targets = LargeTargets(groups, ShareGroup, TARGETS, work)

    def __iter__(self) -> Iterator[ShareGroup]:
        return self._groups.of_kind(ShareGroup)

    def find(self, group_id: str) -> ShareGroup | None:
        return self._groups.find_of_kind(group_id, ShareGroup)

    def require(self, group_id: str, *, name: str = "Group") -> ShareGroup:
        """Return the group; raises GROUP_ID_NOT_FOUND. ``name`` begins the message if no group has this id."""
        return self._groups.require_of_kind(group_id, ShareGroup, name=name)

    def existing_or_new(self, group_id: str) -> ShareGroup:
        """Return the group, which its first record creates; raises GROUP_ID_NOT_FOUND if it is of another kind."""
        return ShareGroup(group_id) if self._groups.find(group_id) is None else self.require(group_id)

    # -- ShareGroupHeartbeat

    def heartbeat(
        self, context: GroupRequestContext, request: ShareGroupHeartbeatRequest, now_ms: int
    ) -> CoordinatorResult[DecidedHeartbeat]:
        if request.member_epoch == LEAVE_EPOCH:
            return self._leave(request)
        group_id, member_id = request.group_id, request.member_id
        if request.member_epoch == JOIN_EPOCH:
            group = self.existing_or_new(group_id)
        else:
            group = self.require(group_id, name="Share group")
        size_max = self._config.group_share_max_size
        if len(group.members) >= size_max and member_id not in group.members:
            raise ApiException(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The share group has reached its maximum capacity of {size_max} members.",
            )
        decision = Heartbeat(
            self._config, self._settings, self._view, self._hashes, self._targets, context, request, now_ms
        )
        result = decision.decide(group)
        self.rebalance_count += decision.has_bumped
        self._start_session(group_id, member_id, now_ms)
        return result

    def _leave(self, request: ShareGroupHeartbeatRequest) -> CoordinatorResult[DecidedHeartbeat]:
        group = self.require(request.group_id)
        response = ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
        result = self._fence(group, group.member(request.member_id))
        return result.with_response(DecidedHeartbeat(response, None))

    def _fence(self, group: ShareGroup, member: ShareGroupMember) -> Nothing:
        """Remove a member; the others receive its partitions with the next target."""
        group_id, member_id = group.group_id, member.member_id

        def end_session(now_ms: int) -> Nothing:
            self._timers.cancel(group_id, member_id, TimerKind.SESSION)
            return CoordinatorResult()

        records: list[CoordinatorRecord] = [*member_tombstones(group_id, member_id)]
        metadata_hash = self._hashes.known(group.subscribers_with(member, None))
        if metadata_hash is None:  # The next heartbeat has it computed.
            metadata_hash = group.metadata_hash
            group.request_metadata_refresh()
        records.append(epoch_record(group_id, group.epoch + 1, metadata_hash))
        return CoordinatorResult(records, is_ahead=True, on_append=end_session)

    def _start_session(self, group_id: str, member_id: str, now_ms: int) -> None:
        self._remove_at(now_ms + self._settings.session_timeout_ms(group_id), group_id, member_id)

    def _remove_at(self, deadline_ms: int, group_id: str, member_id: str) -> None:
        self._timers.schedule(group_id, member_id, TimerKind.SESSION, deadline_ms, self._end_session)

    def _session_expired(self, group_id: str, member_id: str, now_ms: int) -> Nothing:
        def again(code: ErrorCode, now_ms: int) -> Nothing:
            self._remove_at(now_ms + REMOVAL_RETRY_PAUSE_MS, group_id, member_id)
            return CoordinatorResult()

        group = self.find(group_id)
        member = None if group is None else group.members.get(member_id)
        if group is None or member is None:
            return CoordinatorResult()
        log.info("Member %s of share group %s is removed: its session expired", member_id, group_id)
        result = self._fence(group, member)
        result.on_error = again
        return result

    # -- results of the persister, deleted topics

    def initialized(self, group_id: str, partitions: Partitions) -> Nothing:
        """Record that the state of these partitions exists: the next heartbeat may assign them."""
        group = self.find(group_id)
        if group is None or not partitions:
            return CoordinatorResult()
        return self._update_partitions(group, group.known_partitions.with_initialized(partitions, self._view))

    def initialization_failed(self, group_id: str, partitions: Partitions) -> Nothing:
        """Record that the state of these partitions may not exist: the next heartbeat tries again."""
        group = self.find(group_id)
        if group is None or not group.known_partitions.initializing or not partitions:
            return CoordinatorResult()
        return self._update_partitions(group, group.known_partitions.without_initializing(partitions))

    def topics_deleted(self, topic_ids: Set[Uuid]) -> Nothing:
        records: list[CoordinatorRecord] = []
        for group in self:
            if group.known_partitions.mentions_any(topic_ids):
                rest = group.known_partitions.without_topics(topic_ids)
                records.append(state_partitions_record(group.group_id, rest, self._view.name_of))
        return CoordinatorResult(records, is_atomic=False, is_ahead=True)

    def _update_partitions(self, group: ShareGroup, partitions: StatePartitions) -> Nothing:
        record = state_partitions_record(group.group_id, partitions, self._view.name_of)
        return CoordinatorResult([record], is_ahead=True)

    # -- ShareGroupDescribe

    def describe_in_steps(self, group_id: str) -> Steps[DescribedGroup]:
        """Describe the group as it is now; the members of a large one in steps."""
        try:
            group = self.require(group_id)
        except ApiException as error:
            return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
        described = DescribedGroup(
            group_id=group_id,
            group_state=group.state_name,
            group_epoch=group.epoch,
            assignment_epoch=group.assignment_epoch,
            assignor_name=ASSIGNOR,
        )
        described.members = yield from described_in_steps(group.members.values(), self._described)
        return described

    def _described(self, member: ShareGroupMember) -> Member:
        named = ((topic_id, self._view.name_of(topic_id), of_topic) for topic_id, of_topic in member.assigned.items())
        return Member(
            member_id=member.member_id,
            rack_id=member.rack_id,
            member_epoch=member.member_epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.topic_names),
            assignment=DescribedAssignment(
                topic_partitions=[
                    DescribedPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(of_topic))
                    for topic_id, name, of_topic in named
                    if name is not None
                ]
            ),
        )

    # -- replay

    def replay(self, record: KeyedRecord, now_ms: int) -> None:
        if isinstance(record.key, ShareGroupStatePartitionMetadataKey):
            self._replay_partitions(record.key.group_id, record.value, now_ms)
        else:
            self._replay(record.key, record.value)

    @singledispatchmethod
    def _replay(self, key: Message, value: Message | None) -> None:
        raise TypeError(f"{type(key).__name__} is not the key of a share group's record")

    @_replay.register
    def _(self, key: ShareGroupMetadataKey, value: ShareGroupMetadataValue | None) -> None:
        if value is not None:
            group = self._of_record(key.group_id)
            group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
        elif (existing := self.find(key.group_id)) is not None:
            self._timers.cancel_all(key.group_id, existing.members)
            self._groups.move_subscription(key.group_id, existing.subscribers, frozenset())
            self._groups.remove(key.group_id)

    @_replay.register
    def _(self, key: ShareGroupMemberMetadataKey, value: ShareGroupMemberMetadataValue | None) -> None:
        group = self._of_record(key.group_id) if value is not None else self.find(key.group_id)
        if group is None:
            return
        before = group.members.get(key.member_id)
        topics = set(group.subscribers)
        if value is not None:
            member = before or ShareGroupMember(key.member_id)
            group.update_member(
                replace(
                    member,
                    rack_id=value.rack_id,
                    client_id=intern(value.client_id),
                    client_host=intern(value.client_host),
                    topic_names=group.shared_names(value.subscribed_topic_names),
                )
            )
        elif before is not None:
            group.remove_member(key.member_id)
        self._groups.move_subscription(key.group_id, topics, group.subscribers.keys())

    @_replay.register
    def _(
        self, key: ShareGroupCurrentMemberAssignmentKey, value: ShareGroupCurrentMemberAssignmentValue | None
    ) -> None:
        group = self._of_record(key.group_id) if value is not None else self.find(key.group_id)
        before = None if group is None else group.members.get(key.member_id)
        if group is None:
            return
        if value is not None:
            group.update_member(
                replace(
                    before or ShareGroupMember(key.member_id),
                    member_epoch=value.member_epoch,
                    previous_member_epoch=value.previous_member_epoch,
                    assigned={topic.topic_id: frozenset(topic.partitions) for topic in value.assigned_partitions},
                )
            )
        elif before is not None:
            group.update_member(
                replace(before, member_epoch=_NO_EPOCH, previous_member_epoch=_NO_EPOCH, assigned=NO_PARTITIONS)
            )

    @_replay.register
    def _(self, key: ShareGroupTargetAssignmentMemberKey, value: ShareGroupTargetAssignmentMemberValue | None) -> None:
        if value is not None:
            target = {topic.topic_id: ordered(topic.partitions) for topic in value.topic_partitions}
            self._of_record(key.group_id).set_target(key.member_id, target)
        elif (group := self.find(key.group_id)) is not None:
            group.set_target(key.member_id, None)

    @_replay.register
    def _(
        self, key: ShareGroupTargetAssignmentMetadataKey, value: ShareGroupTargetAssignmentMetadataValue | None
    ) -> None:
        if value is not None:
            group = self._of_record(key.group_id)
            group.assignment_epoch, group.assignment_timestamp_ms = value.assignment_epoch, value.assignment_timestamp
        elif (existing := self.find(key.group_id)) is not None:
            existing.assignment_epoch, existing.assignment_timestamp_ms = _NO_EPOCH, 0

    def _replay_partitions(self, group_id: str, value: Message | None, now_ms: int) -> None:
        if isinstance(value, ShareGroupStatePartitionMetadataValue):
            self._of_record(group_id).partitions = StatePartitions.of_record(value, now_ms)
        elif (existing := self.find(group_id)) is not None:
            existing.partitions = None

    def _of_record(self, group_id: str) -> ShareGroup:
        return self._groups.of_record(group_id, ShareGroup)

    # -- becoming and ceasing to be the coordinator

    def on_loaded(self, now_ms: int) -> None:
        """Start the sessions of the loaded members."""

        def start(group: ShareGroup, member: ShareGroupMember) -> None:
            self._start_session(group.group_id, member.member_id, now_ms)

        self._work.run("share sessions", start_deadlines(self, self._timers, start), now_ms)

    def on_unloaded(self) -> None:
        self._timers.clear()
