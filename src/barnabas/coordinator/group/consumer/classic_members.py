"""Members of the classic protocol in a consumer group: their requests do what heartbeats do for other members.

A JoinGroup takes the next step to the member's target (``classic_join``), a SyncGroup returns the assignment of this
step, and a Heartbeat tells the member when to join again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.coordinator.coordinator_result import CoordinatorResult
from barnabas.coordinator.group import consumer_protocol
from barnabas.coordinator.group.consumer.classic_join import ClassicJoin
from barnabas.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.coordinator.group.consumer.consumer_group_member import ClassicMember, ConsumerGroupMember, MemberState
from barnabas.coordinator.group.consumer.conversion import GroupConversion
from barnabas.coordinator.group.consumer.group_changes import GroupChanges
from barnabas.coordinator.group.consumer.static_members import check_instance, require_static
from barnabas.coordinator.group.group_coordinator_config import MigrationPolicy
from barnabas.coordinator.group.group_request_context import GroupRequestContext
from barnabas.coordinator.group.member_timers import TimerKind
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

__all__ = ["ClassicMembers"]


class ClassicMembers:
    def __init__(self, changes: GroupChanges, conversion: GroupConversion, new_uuid: Callable[[], str]) -> None:
        self._changes = changes
        self._conversion = conversion
        self._new_uuid = new_uuid

    def join(
        self, group: ConsumerGroup, context: GroupRequestContext, request: JoinGroupRequest, now_ms: int
    ) -> CoordinatorResult[JoinGroupResponse]:
        member_id = request.member_id or self._new_uuid()
        join = ClassicJoin(self._changes, self._conversion, context, request, member_id, now_ms)
        try:
            return join.decide(group)
        except ApiException as error:
            return CoordinatorResult(response=JoinGroupResponse(error_code=error.code))

    def sync(
        self, group: ConsumerGroup, request: SyncGroupRequest, now_ms: int
    ) -> CoordinatorResult[SyncGroupResponse]:
        member, classic = _classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
        protocol_name, subscription = classic.protocols[0]
        if request.protocol_type not in (None, consumer_protocol.PROTOCOL_TYPE) or (
            request.protocol_name not in (None, protocol_name)
        ):
            raise ApiException(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        changes, group_id = self._changes, group.group_id
        if group.assignment_epoch > member.member_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            changes.start_join_timeout(group_id, member, now_ms)
            raise ApiException(ErrorCode.REBALANCE_IN_PROGRESS)
        changes.timers.cancel(group_id, member.member_id, TimerKind.SYNC)
        changes.start_session(group_id, member.member_id, now_ms, classic.session_timeout_ms)
        response = SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=self._assignment(member, subscription),
        )
        return CoordinatorResult(response=response, is_ahead=True)

    def _assignment(self, member: ConsumerGroupMember, subscription: bytes) -> bytes:
        try:
            return consumer_protocol.write_assignment(self._changes.view.by_name(member.assigned), subscription)
        except DecodeError as error:
            raise ApiException(ErrorCode.UNKNOWN_SERVER_ERROR) from error

    def heartbeat(
        self, group: ConsumerGroup, request: HeartbeatRequest, now_ms: int
    ) -> CoordinatorResult[HeartbeatResponse]:
        member, classic = _classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
        self._changes.start_session(group.group_id, member.member_id, now_ms, classic.session_timeout_ms)
        response = HeartbeatResponse()
        if _can_take_a_step(group, member) or self._must_compute_target(group):
            self._changes.start_join_timeout(group.group_id, member, now_ms)
            response.error_code = ErrorCode.REBALANCE_IN_PROGRESS
        return CoordinatorResult(response=response, is_ahead=True)

    def _must_compute_target(self, group: ConsumerGroup) -> bool:
        """Return whether a target is due that only a JoinGroup can let be computed: no member uses the other protocol,
        and the group may not become classic. In Kafka the partitions of a member that left then stay unassigned."""
        is_due = group.epoch > group.assignment_epoch and group.classic_member_count == len(group.members)
        return is_due and self._changes.config.group_consumer_migration_policy is not MigrationPolicy.DISABLED

    def leave(
        self, group: ConsumerGroup, identities: Iterable[MemberIdentity], now_ms: int
    ) -> CoordinatorResult[LeaveGroupResponse]:
        """Remove members of either protocol. Each has its own result."""
        outcomes: list[MemberResponse] = []
        leaving: dict[str, ConsumerGroupMember] = {}
        for identity in identities:
            outcome = MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id)
            try:
                member = _leaving(group, identity)
                leaving[member.member_id] = member
            except ApiException as error:
                outcome.error_code = error.code
            outcomes.append(outcome)
        return self._changes.fence(group, leaving.values(), now_ms).with_response(LeaveGroupResponse(members=outcomes))


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int
) -> tuple[ConsumerGroupMember, ClassicMember]:
    """Return the member that sends a request of the classic protocol; raises ApiException."""
    member = group.member(member_id) if instance_id is None else require_static(group, member_id, instance_id)
    if member.classic is None:
        raise ApiException(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")
    if generation_id != member.member_epoch:
        raise ApiException(ErrorCode.ILLEGAL_GENERATION)
    return member, member.classic


def _can_take_a_step(group: ConsumerGroup, member: ConsumerGroupMember) -> bool:
    """Return whether the member can give up partitions, receive some, or reach a new target."""
    if member.member_epoch < group.assignment_epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    return member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_release(member)


def _leaving(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerGroupMember:
    """An admin client names a static member by its instance id alone."""
    instance_id = identity.group_instance_id
    if instance_id is None:
        return group.member(identity.member_id)
    member = group.static_member(instance_id)
    if member is None:
        raise ApiException(ErrorCode.UNKNOWN_MEMBER_ID)
    if identity.member_id:
        check_instance(member, identity.member_id, instance_id)
    return member
