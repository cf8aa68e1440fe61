"""The consumer groups of one ``__consumer_offsets`` partition: their requests, their records, their descriptions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial, singledispatchmethod
from sys import intern

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.coordinator.coordinator_result import CoordinatorRecord, CoordinatorResult, TimerAction
from barnabas.coordinator.group.assignor.group_spec import Steps
from barnabas.coordinator.group.assignor.hash_order import ordered
from barnabas.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.coordinator.group.classic.classic_group_rebalance import Rebalance
from barnabas.coordinator.group.cluster_view import ClusterView
from barnabas.coordinator.group.consumer.classic_members import ClassicMembers
from barnabas.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.coordinator.group.consumer.consumer_group_member import (
    NO_PARTITIONS,
    ConsumerGroupMember,
    MemberState,
    classic_member,
    partitions_of,
    state_of,
)
from barnabas.coordinator.group.consumer.consumer_group_records import current_assignment_record
from barnabas.coordinator.group.consumer.conversion import GroupConversion
from barnabas.coordinator.group.consumer.group_changes import GroupChanges, MatchTopics
from barnabas.coordinator.group.consumer.heartbeat import LEAVE_STATIC_EPOCH, Heartbeat
from barnabas.coordinator.group.consumer.regular_expression import ResolvedRegularExpression
from barnabas.coordinator.group.consumer.static_members import require_static
from barnabas.coordinator.group.described_members import described_in_steps
from barnabas.coordinator.group.group_coordinator_config import GroupCoordinatorConfig
from barnabas.coordinator.group.group_records import KeyedRecord
from barnabas.coordinator.group.group_request_context import GroupRequestContext
from barnabas.coordinator.group.groups import Groups
from barnabas.coordinator.group.heartbeat_request import JOIN_EPOCH, LEAVE_EPOCH
from barnabas.coordinator.group.loaded_members import start_deadlines
from barnabas.coordinator.group.member_timers import MemberTimers
from barnabas.coordinator.group.modern_group import Partitions
from barnabas.coordinator.group.stepped_work import SteppedWork
from barnabas.coordinator.timer_queue import TimerQueue
from barnabas.protocol.messages.consumer_group_describe import Assignment as DescribedAssignment
from barnabas.protocol.messages.consumer_group_describe import DescribedGroup, Member
from barnabas.protocol.messages.consumer_group_describe import TopicPartitions as DescribedPartitions
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.protocol.records.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from barnabas.protocol.records.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
)
from barnabas.protocol.records.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from barnabas.protocol.records.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue
from barnabas.protocol.records.consumer_group_metadata_key import ConsumerGroupMetadataKey
from barnabas.protocol.records.consumer_group_metadata_value import ConsumerGroupMetadataValue
from barnabas.protocol.records.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from barnabas.protocol.records.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from barnabas.protocol.records.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from barnabas.protocol.records.consumer_group_target_assignment_member_key import ConsumerGroupTargetAssignmentMemberKey
from barnabas.protocol.records.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
)
from barnabas.protocol.records.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from barnabas.protocol.records.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)
from barnabas.protocol.schema import Message

__all__ = ["ConsumerGroups"]

log = logging.getLogger(__name__)

_NO_EPOCH = -1
_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1


class ConsumerGroups:
    def __init__(
        self,
        config: GroupCoordinatorConfig,
        groups: Groups,
        view: ClusterView,
        timers: TimerQueue[TimerAction],
        work: SteppedWork,
        new_uuid: Callable[[], str],
        rebalance: Rebalance,
    ) -> None:
        """``rebalance`` is that of the classic groups, which groups may become."""
        self._config = config
        self._groups = groups
        self._view = view
        self._new_uuid = new_uuid
        member_timers = MemberTimers(timers)
        self.conversion = GroupConversion(config, view, member_timers, rebalance)
        self.changes = GroupChanges(config, groups, view, member_timers, work, self.conversion)
        self.classic_members = ClassicMembers(self.changes, self.conversion, new_uuid)

    def __iter__(self) -> Iterator[ConsumerGroup]:
        return self._groups.of_kind(ConsumerGroup)

    def require(self, group_id: str) -> ConsumerGroup:
        """Return the group; raises GROUP_ID_NOT_FOUND."""
        return self._groups.require_of_kind(group_id, ConsumerGroup)

    # -- ConsumerGroupHeartbeat

    def heartbeat(
        self,
        context: GroupRequestContext,
        request: ConsumerGroupHeartbeatRequest,
        match_topics: MatchTopics,
        now_ms: int,
    ) -> CoordinatorResult[ConsumerGroupHeartbeatResponse]:
        if request.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
            return self._leave(request, now_ms)
        records: list[CoordinatorRecord] = []
        former = self._groups.find(request.group_id)
        group = self._group_of(request, records)
        self.changes.validate_room(group, request.member_id)
        # The classic leader had not assigned this generation yet: members would keep the assignment of an older one.
        must_reassign = isinstance(former, ClassicGroup) and former.is_rebalancing
        decision = Heartbeat(self.changes, context, request, match_topics, records, now_ms, must_reassign=must_reassign)
        result = decision.decide(group, request.member_id or self._new_uuid())
        if isinstance(former, ClassicGroup):
            result.on_append = partial(self._start_classic_sessions, group.group_id)
        return result

    def _group_of(self, request: ConsumerGroupHeartbeatRequest, records: list[CoordinatorRecord]) -> ConsumerGroup:
        """Return the group; a new one if its first member joins, or if a classic group becomes one of this kind."""
        group_id = request.group_id
        group = self._groups.find(group_id)
        if request.member_epoch != JOIN_EPOCH or isinstance(group, ConsumerGroup):
            if group is None:
                raise ApiException(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
            return self.require(group_id)
        if group is None:
            return ConsumerGroup(group_id)
        if isinstance(group, ClassicGroup):
            return self.conversion.upgrade(group, records)
        return self.require(group_id)

    def _start_classic_sessions(self, group_id: str, now_ms: int) -> CoordinatorResult[None]:
        """Start the sessions of the classic members of a group that was converted."""
        group = self.changes.find(group_id)
        for member in () if group is None else group.members.values():
            if member.classic is not None:
                self.changes.start_session(group_id, member.member_id, now_ms, member.classic.session_timeout_ms)
        return CoordinatorResult()

    def _leave(
        self, request: ConsumerGroupHeartbeatRequest, now_ms: int
    ) -> CoordinatorResult[ConsumerGroupHeartbeatResponse]:
        group = self.require(request.group_id)
        response = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
        instance_id = request.instance_id
        if instance_id is None:
            member = group.member(request.member_id)
            return self.changes.fence(group, [member], now_ms).with_response(response)
        static = require_static(group, request.member_id, instance_id)
        if request.member_epoch == LEAVE_EPOCH:
            return self.changes.fence(group, [static], now_ms).with_response(response)
        away = replace(
            static,
            member_epoch=LEAVE_STATIC_EPOCH,
            pending_revocation=NO_PARTITIONS,
            assigned={topic_id: dict.fromkeys(epochs, 0) for topic_id, epochs in static.assigned.items()},
        )
        return CoordinatorResult([current_assignment_record(group.group_id, away)], response, is_ahead=True)

    # -- ConsumerGroupDescribe

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
            assignor_name=group.preferred_assignor() or self._config.group_consumer_assignors[0],
        )
        present = [(member, group.target.get(member_id, {})) for member_id, member in group.members.items()]
        described.members = yield from described_in_steps(present, self._described)
        return described

    def _described(self, member_and_target: tuple[ConsumerGroupMember, Partitions]) -> Member:
        member, target = member_and_target
        present: dict[Uuid, list[int]] = {}
        for partitions in (member.assigned, member.pending_revocation):
            for topic_id, epochs in partitions.items():
                present.setdefault(topic_id, []).extend(epochs)
        return Member(
            member_id=member.member_id,
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            member_epoch=member.member_epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.topic_names),
            subscribed_topic_regex=member.topic_regex,
            assignment=self._described_assignment(present),
            target_assignment=self._described_assignment(target),
            member_type=_CLASSIC_MEMBER if member.uses_classic_protocol else _CONSUMER_MEMBER,
        )

    def _described_assignment(self, partitions: Mapping[Uuid, Iterable[int]]) -> DescribedAssignment:
        named = ((topic_id, self._view.name_of(topic_id), of_topic) for topic_id, of_topic in partitions.items())
        return DescribedAssignment(
            topic_partitions=[
                DescribedPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(of_topic))
                for topic_id, name, of_topic in named
                if name is not None
            ]
        )

    # -- replay

    def replay(self, record: KeyedRecord) -> None:
        self._replay(record.key, record.value)

    @singledispatchmethod
    def _replay(self, key: Message, value: Message | None) -> None:
        raise TypeError(f"{type(key).__name__} is not the key of a consumer group's record")

    @_replay.register
    def _(self, key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue | None) -> None:
        if value is not None:
            group = self._of_record(key.group_id)
            group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
        elif (existing := self.changes.find(key.group_id)) is not None:
            self.changes.timers.cancel_all(key.group_id, existing.members)
            self._groups.move_subscription(key.group_id, existing.subscribers, frozenset())
            self._groups.remove(key.group_id)

    @_replay.register
    def _(self, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue | None) -> None:
        group = self._of_record(key.group_id) if value is not None else self.changes.find(key.group_id)
        if group is None:
            return
        before = group.members.get(key.member_id)
        topics = set(group.subscribers)
        if value is not None:
            member = before or ConsumerGroupMember(key.member_id)
            group.update_member(
                replace(
                    member,
                    instance_id=value.instance_id,
                    rack_id=value.rack_id,
                    client_id=intern(value.client_id),
                    client_host=intern(value.client_host),
                    topic_names=group.shared_names(value.subscribed_topic_names),
                    topic_regex=value.subscribed_topic_regex,
                    rebalance_timeout_ms=value.rebalance_timeout_ms,
                    server_assignor=value.server_assignor,
                    classic=classic_member(value.classic_member_metadata),
                )
            )
        elif before is not None:
            group.remove_member(key.member_id)
        self._groups.move_subscription(key.group_id, topics, group.subscribers.keys())

    @_replay.register
    def _(
        self, key: ConsumerGroupCurrentMemberAssignmentKey, value: ConsumerGroupCurrentMemberAssignmentValue | None
    ) -> None:
        group = self._of_record(key.group_id) if value is not None else self.changes.find(key.group_id)
        before = None if group is None else group.members.get(key.member_id)
        if group is None:
            return
        if value is not None:
            member = before or ConsumerGroupMember(key.member_id)
            group.update_member(
                replace(
                    member,
                    member_epoch=value.member_epoch,
                    previous_member_epoch=value.previous_member_epoch,
                    state=state_of(value.state),
                    assigned=partitions_of(value.assigned_partitions, value.member_epoch),
                    pending_revocation=partitions_of(value.partitions_pending_revocation, value.member_epoch),
                )
            )
        elif before is not None:
            group.update_member(
                replace(
                    before,
                    member_epoch=_NO_EPOCH,
                    previous_member_epoch=_NO_EPOCH,
                    assigned=NO_PARTITIONS,
                    pending_revocation=NO_PARTITIONS,
                )
            )

    @_replay.register
    def _(
        self, key: ConsumerGroupTargetAssignmentMemberKey, value: ConsumerGroupTargetAssignmentMemberValue | None
    ) -> None:
        if value is not None:
            self._of_record(key.group_id).target[key.member_id] = {
                topic.topic_id: ordered(topic.partitions) for topic in value.topic_partitions
            }
        elif (group := self.changes.find(key.group_id)) is not None:
            group.target.pop(key.member_id, None)

    @_replay.register
    def _(
        self, key: ConsumerGroupTargetAssignmentMetadataKey, value: ConsumerGroupTargetAssignmentMetadataValue | None
    ) -> None:
        if value is not None:
            group = self._of_record(key.group_id)
            group.assignment_epoch, group.assignment_timestamp_ms = value.assignment_epoch, value.assignment_timestamp
        elif (existing := self.changes.find(key.group_id)) is not None:
            existing.assignment_epoch, existing.assignment_timestamp_ms = _NO_EPOCH, 0

    @_replay.register
    def _(self, key: ConsumerGroupRegularExpressionKey, value: ConsumerGroupRegularExpressionValue | None) -> None:
        group = self._of_record(key.group_id) if value is not None else self.changes.find(key.group_id)
        if group is None:
            return
        topics = set(group.subscribers)
        resolved = None
        if value is not None:
            resolved = ResolvedRegularExpression(frozenset(value.topics), value.version, value.timestamp)
        group.resolve(key.regular_expression, resolved)
        self._groups.move_subscription(key.group_id, topics, group.subscribers.keys())

    @_replay.register
    def _(self, key: ConsumerGroupPartitionMetadataKey, value: Message | None) -> None:
        group = self._of_record(key.group_id) if value is not None else self.changes.find(key.group_id)
        if group is not None:
            group.has_partition_metadata_record = value is not None

    def _of_record(self, group_id: str) -> ConsumerGroup:
        return self._groups.of_record(group_id, ConsumerGroup)

    # -- becoming and ceasing to be the coordinator

    def on_loaded(self, now_ms: int) -> None:
        """Start the sessions of the loaded members, and the deadlines of those that must give up partitions."""

        def start(group: ConsumerGroup, member: ConsumerGroupMember) -> None:
            timeout_ms = None if member.classic is None else member.classic.session_timeout_ms
            self.changes.start_session(group.group_id, member.member_id, now_ms, timeout_ms)
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                self.changes.start_rebalance_timeout(group.group_id, member, now_ms)

        steps = start_deadlines(self, self.changes.timers, start)
        self.changes.work.run("consumer sessions", steps, now_ms)

    def on_unloaded(self) -> None:
        self.changes.timers.clear()
