"""The classic groups of one ``__consumer_offsets`` partition: their members and their committed state.

Requests that only affect membership change soft state and usually have no record. The leader's SyncGroup commits a
generation, and ``replay`` of that record moves the group to Stable. During a load ``replay`` builds groups from
scratch; afterwards it must not undo changes by members since the record was decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.coordinator.coordinator_result import CoordinatorResult, TimerAction
from barnabas.coordinator.deferred import Deferred
from barnabas.coordinator.group.assignor.group_spec import Steps
from barnabas.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.coordinator.group.classic.classic_group_member import ClassicGroupMember
from barnabas.coordinator.group.classic.classic_group_rebalance import Rebalance, append_error
from barnabas.coordinator.group.classic.converted_group_record import ConvertedGroupRecord
from barnabas.coordinator.group.classic.join_group import JoinGroup
from barnabas.coordinator.group.group_coordinator_config import GroupCoordinatorConfig
from barnabas.coordinator.group.group_records import GroupMetadataRecord
from barnabas.coordinator.group.group_request_context import GroupRequestContext
from barnabas.coordinator.group.group_state import GroupState
from barnabas.coordinator.group.groups import Groups
from barnabas.coordinator.group.stepped_work import SteppedWork, Work, in_work
from barnabas.coordinator.timer_queue import TimerQueue
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

__all__ = ["ClassicGroups"]

T = TypeVar("T")

_MEMBERS_AT_ONCE = 1_000
"""The assignments of a larger group are encoded in steps."""


class ClassicGroups:
    def __init__(
        self,
        config: GroupCoordinatorConfig,
        groups: Groups,
        timers: TimerQueue[TimerAction],
        work: SteppedWork,
        new_uuid: Callable[[], str],
    ) -> None:
        self._config = config
        self._new_uuid = new_uuid
        self._groups = groups
        self._work = work
        self.rebalance = Rebalance(config, timers, work)

    # -- looking up

    def __iter__(self) -> Iterator[ClassicGroup]:
        return (group for group in self._groups if isinstance(group, ClassicGroup))

    def find(self, group_id: str) -> ClassicGroup | None:
        group = self._groups.find(group_id)
        return group if isinstance(group, ClassicGroup) else None

    # -- JoinGroup

    def join_group(
        self,
        context: GroupRequestContext,
        request: JoinGroupRequest,
        parked: Deferred[JoinGroupResponse],
        now_ms: int,
    ) -> CoordinatorResult[JoinGroupResponse]:
        """``parked`` receives the answer, now or when the rebalance completes."""
        group_id = request.group_id
        group = self.find(group_id)
        if group is None:
            if request.member_id:
                parked.complete(JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID, member_id=request.member_id))
                return CoordinatorResult()
            group = ClassicGroup(group_id, now_ms=now_ms)
        join = JoinGroup(self._config, self.rebalance, self._new_uuid, context, request, parked, now_ms)
        result = join.decide(group)
        if group.members or group.pending_join_members:
            self._groups.put(group)
        return CoordinatorResult(result.records, None, on_commit=result.on_commit, on_error=result.on_error)

    # -- SyncGroup

    def sync_group(
        self, request: SyncGroupRequest, parked: Deferred[SyncGroupResponse], now_ms: int
    ) -> CoordinatorResult[SyncGroupResponse]:
        try:
            group, member = self._validate_sync(request)
        except ApiException as error:
            return CoordinatorResult(response=SyncGroupResponse(error_code=error.code))
        if group.state is GroupState.PREPARING_REBALANCE:
            return CoordinatorResult(response=SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        if group.state is GroupState.STABLE:
            self.rebalance.sync_received(group, member.member_id)
            return CoordinatorResult(
                response=SyncGroupResponse(
                    protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
                )
            )
        # A SyncGroup sent twice: the first must retry, the second waits in its place.
        member.answer_sync(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        member.awaiting_sync = parked
        self.rebalance.sync_received(group, member.member_id)
        if not group.is_leader(member.member_id):
            return CoordinatorResult()
        return self._commit_assignments(group, request, now_ms)

    def _validate_sync(self, request: SyncGroupRequest) -> tuple[ClassicGroup, ClassicGroupMember]:
        group = self.find(request.group_id)
        if group is None:
            raise ApiException(ErrorCode.UNKNOWN_MEMBER_ID)
        if group.state is GroupState.DEAD:
            raise ApiException(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        member = group.validate_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation_id:
            raise ApiException(ErrorCode.ILLEGAL_GENERATION)
        if (request.protocol_type is not None and request.protocol_type != group.protocol_type) or (
            request.protocol_name is not None and request.protocol_name != group.protocol_name
        ):
            raise ApiException(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if group.state is GroupState.EMPTY:
            raise ApiException(ErrorCode.UNKNOWN_MEMBER_ID)
        return group, member

    def _commit_assignments(
        self, group: ClassicGroup, request: SyncGroupRequest, now_ms: int
    ) -> CoordinatorResult[SyncGroupResponse]:
        assignments = {item.member_id: bytes(item.assignment) for item in request.assignments}
        if len(group.members) > _MEMBERS_AT_ONCE:
            self._work.start(("assignments", group.group_id), self._commit_in_steps(group, assignments), now_ms)
            return CoordinatorResult()
        record = GroupMetadataRecord(group.group_id, group.to_record_value(assignments))
        return self._commit_generation(group, record)

    def _commit_in_steps(self, group: ClassicGroup, assignments: dict[str, bytes]) -> Work:
        """Encode the record of a large group between requests. A rebalance that begins meanwhile answers the syncs."""
        generation_id = group.generation_id
        is_current = partial(self._is_completing, group, generation_id)
        value = yield from in_work(_while(is_current, group.to_record_value_in_steps(assignments)))
        if value is None:
            return
        record = GroupMetadataRecord(group.group_id, value)
        yield from in_work(_while(is_current, record.encode_in_steps()))
        if is_current():
            yield self._commit_generation(group, record)

    def _is_completing(self, group: ClassicGroup, generation_id: int) -> bool:
        return (
            self._groups.find(group.group_id) is group
            and group.state is GroupState.COMPLETING_REBALANCE
            and group.generation_id == generation_id
        )

    def _commit_generation(self, group: ClassicGroup, record: GroupMetadataRecord) -> CoordinatorResult[Any]:
        generation_id = group.generation_id

        def propagate(now_ms: int) -> CoordinatorResult[None]:
            if group.state is GroupState.STABLE and group.generation_id == generation_id:
                self.rebalance.propagate_assignments(group, now_ms)
            return CoordinatorResult()

        def start_over(code: ErrorCode, now_ms: int) -> CoordinatorResult[None]:
            if group.state is not GroupState.COMPLETING_REBALANCE or group.generation_id != generation_id:
                return CoordinatorResult()
            self.rebalance.fail_syncs(group, append_error(code), now_ms)
            return self.rebalance.prepare(group, f"{code.name} when storing the assignments", now_ms)

        return CoordinatorResult([record], on_commit=propagate, on_error=start_over)

    # -- Heartbeat

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
        group = self.find(request.group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if group.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        try:
            member = group.validate_member(request.member_id, request.group_instance_id)
        except ApiException as error:
            return error.code
        if request.generation_id != group.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        self.rebalance.reschedule_session(group, member, now_ms)
        if group.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def extend_session(self, group_id: str, member_id: str, now_ms: int) -> None:
        """Extend the session of a member, if there is one: an offset commit counts as a heartbeat."""
        group = self.find(group_id)
        if group is None or group.state not in (GroupState.STABLE, GroupState.PREPARING_REBALANCE):
            return
        member = group.members.get(member_id)
        if member is not None:
            self.rebalance.reschedule_session(group, member, now_ms)

    # -- LeaveGroup

    def leave_group(
        self, group_id: str, members: list[MemberIdentity], now_ms: int
    ) -> CoordinatorResult[LeaveGroupResponse]:
        """Remove members by member id, or static ones by only the instance id. Each has its own result."""
        group = self.find(group_id)
        if group is not None and group.state is GroupState.DEAD:
            return CoordinatorResult(response=LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
        outcomes: list[MemberResponse] = []
        left: list[str] = []
        for identity in members:
            code = ErrorCode.UNKNOWN_MEMBER_ID if group is None else self._leave(group, identity)
            if code is ErrorCode.NONE:
                left.append(
                    f"{identity.member_id or identity.group_instance_id} (client reason: "
                    f"{identity.reason or 'not provided'})"
                )
            outcomes.append(
                MemberResponse(
                    member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=code
                )
            )
        response = LeaveGroupResponse(members=outcomes)
        if group is None or not left:
            return CoordinatorResult(response=response)
        result = self.rebalance.after_removal(group, f"explicit LeaveGroup of {', '.join(left)}", now_ms)
        return result.with_response(response)

    def _leave(self, group: ClassicGroup, identity: MemberIdentity) -> ErrorCode:
        member_id = identity.member_id
        if not member_id:
            current = None
            if identity.group_instance_id is not None:
                current = group.static_member_id(identity.group_instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            self.rebalance.remove_member(group, group.members[current])
            return ErrorCode.NONE
        if member_id in group.pending_join_members:
            group.forget_pending(member_id)
            return ErrorCode.NONE
        try:
            member = group.validate_member(member_id, identity.group_instance_id)
        except ApiException as error:
            return error.code
        self.rebalance.remove_member(group, member)
        return ErrorCode.NONE

    # -- replay

    def replay(self, record: GroupMetadataRecord, now_ms: int) -> None:
        group_id, value = record.group_id, record.value
        group = self.find(group_id)
        if isinstance(record, ConvertedGroupRecord):
            self._replay_conversion(record, now_ms)
        elif value is None:
            # A member may have joined between the decision to delete and its commit; then the group is kept.
            if group is not None and (self._groups.is_loading or not group.members):
                self._groups.remove(group_id)
                self.rebalance.dissolve(group, now_ms)
        elif self._groups.is_loading or self._groups.find(group_id) is None:
            self._groups.put(ClassicGroup.from_record(group_id, value))
        elif group is not None:  # Otherwise it has become a consumer group since the record was decided.
            group.replay_assignments(value, now_ms)

    def _replay_conversion(self, record: ConvertedGroupRecord, now_ms: int) -> None:
        group = record.group
        if record.value is None:
            self._groups.remove(group.group_id)
            self.rebalance.dissolve(group, now_ms)
            return
        self._groups.put(group)
        for member in group.members.values():
            self.rebalance.reschedule_session(group, member, now_ms)

    def ensure_group(self, group_id: str, now_ms: int) -> None:
        """Create a simple group for offsets without a group: Empty, without a protocol type."""
        if self._groups.find(group_id) is None:
            self._groups.put(ClassicGroup(group_id, now_ms=now_ms))

    # -- becoming and ceasing to be the coordinator

    def on_loaded(self, now_ms: int) -> list[CoordinatorResult[None]]:
        """Start the sessions of the loaded members; a group that is over a lowered limit rebalances."""
        results: list[CoordinatorResult[None]] = []
        for group in self:
            for member in group.members.values():
                self.rebalance.reschedule_session(group, member, now_ms)
            if len(group.members) > self._config.group_max_size:
                results.append(self.rebalance.prepare(group, "freshly loaded and over group.max.size", now_ms))
        return results

    def on_unloaded(self, now_ms: int) -> None:
        """Refer all waiting callers to the new coordinator."""
        self.rebalance.answers.send_all()
        for group in self:
            for member in group.members.values():
                group.answer_join(
                    member, JoinGroupResponse(error_code=ErrorCode.NOT_COORDINATOR, member_id=member.member_id)
                )
                member.answer_sync(SyncGroupResponse(error_code=ErrorCode.NOT_COORDINATOR))
            group.transition_to(GroupState.DEAD, now_ms)


def _while(is_current: Callable[[], bool], steps: Steps[T]) -> Steps[T | None]:
    """Take the steps as long as they are of use; return None afterwards."""
    while is_current():
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        yield
    return None
