"""Decide JoinGroup for classic groups (KIP-62, KIP-345 static members, KIP-394 required member ids).

A dynamic member without an id first receives one and must join again (v4 and later), so that clients which never
return leave no member behind. A static member that returns with its instance id takes its old place under a new id; if
the group is Stable and its protocol stays the same, the group does not rebalance.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.coordinator.coordinator_result import CoordinatorResult
from barnabas.coordinator.deferred import Deferred
from barnabas.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.coordinator.group.classic.classic_group_member import ClassicGroupMember, Protocols, protocols_of
from barnabas.coordinator.group.classic.classic_group_rebalance import Rebalance, append_error
from barnabas.coordinator.group.group_coordinator_config import GroupCoordinatorConfig
from barnabas.coordinator.group.group_records import GroupMetadataRecord
from barnabas.coordinator.group.group_request_context import GroupRequestContext
from barnabas.coordinator.group.group_state import GroupState
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

__all__ = ["JoinGroup"]

_MEMBER_ID_REQUIRED_SINCE = 4
_SKIP_ASSIGNMENT_SINCE = 9


class JoinGroup:
    """One JoinGroup request on its way through the decision.

    ``parked`` is completed here, or kept by the member until its rebalance completes.
    """

    def __init__(
        self,
        config: GroupCoordinatorConfig,
        rebalance: Rebalance,
        new_uuid: Callable[[], str],
        context: GroupRequestContext,
        request: JoinGroupRequest,
        parked: Deferred[JoinGroupResponse],
        now_ms: int,
    ) -> None:
        self._config = config
        self._rebalance = rebalance
        self._new_uuid = new_uuid
        self._context = context
        self._request = request
        self._parked = parked
        self._now_ms = now_ms
        self._protocols: Protocols = protocols_of(request.protocols)
        # Version 0 has no rebalance timeout: the session timeout served as both.
        self._rebalance_timeout_ms = (
            request.session_timeout_ms if context.api_version == 0 else request.rebalance_timeout_ms
        )

    def decide(self, group: ClassicGroup) -> CoordinatorResult[None]:
        request = self._request
        if not self._is_accepted(group):
            group.remove(request.member_id)
            self._refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
            return self._rebalance.maybe_complete_join(group, self._now_ms)
        if group.state is GroupState.DEAD:
            return self._refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE, request.member_id)
        if not group.supports_protocols(request.protocol_type, self._protocols):
            return self._refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
        return self._join_existing(group) if request.member_id else self._join_new(group)

    def _is_accepted(self, group: ClassicGroup) -> bool:
        """Return whether ``group.max.size`` allows another member. During a rebalance only members that have joined
        count, so that a group over a lowered limit loses the last ones to rejoin."""
        member = group.members.get(self._request.member_id)
        if group.state in (GroupState.EMPTY, GroupState.DEAD):
            return True
        if group.state is GroupState.PREPARING_REBALANCE:
            if member is not None and member.awaiting_join is not None:
                return True
            return group.awaiting_join_count < self._config.group_max_size
        return member is not None or len(group.members) < self._config.group_max_size

    # -- without a member id

    def _join_new(self, group: ClassicGroup) -> CoordinatorResult[None]:
        request = self._request
        instance_id = request.group_instance_id
        prefix = self._context.client_id if instance_id is None else instance_id
        member_id = f"{prefix}-{self._new_uuid()}"
        if instance_id is not None:
            old_member_id = group.static_member_id(instance_id)
            if old_member_id is not None:
                return self._replace_static(group, instance_id, old_member_id, member_id)
        elif self._context.api_version >= _MEMBER_ID_REQUIRED_SINCE:
            if len(group.pending_join_members) >= self._config.group_max_pending_members:
                return self._refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
            if not self._rebalance.has_room_for_pending():
                return self._refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "")
            self._rebalance.add_pending_member(group, member_id, request.session_timeout_ms, self._now_ms)
            return self._refuse(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        return self._add(group, member_id)

    def _add(self, group: ClassicGroup, member_id: str) -> CoordinatorResult[None]:
        request = self._request
        member = ClassicGroupMember(
            member_id=member_id,
            group_instance_id=request.group_instance_id,
            client_id=self._context.client_id,
            client_host=self._context.client_host,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=self._protocols,
            is_new=True,
        )
        if group.is_in_initial_delay:
            group.new_member_added = True
        group.add(member, self._parked)
        self._rebalance.reschedule_session(group, member, self._now_ms, self._config.group_new_member_join_timeout_ms)
        return self._rebalance.prepare_or_complete_join(group, self._because("adding new member", member), self._now_ms)

    def _replace_static(
        self, group: ClassicGroup, instance_id: str, old_member_id: str, new_member_id: str
    ) -> CoordinatorResult[None]:
        old_leader_id = group.leader_id
        replaced = group.members[old_member_id]
        before = (replaced.protocols, replaced.rebalance_timeout_ms, replaced.session_timeout_ms)
        member = group.replace_static_member(old_member_id, new_member_id)
        self._rebalance.reschedule_session(group, member, self._now_ms)
        self._update(group, member)
        if group.state is GroupState.STABLE:
            if group.protocol_name != group.select_protocol():
                reason = self._because("a static member rejoined and changes the protocol:", member)
                return self._rebalance.prepare_or_complete_join(group, reason, self._now_ms)
            return self._persist_replacement(group, member, instance_id, old_member_id, old_leader_id, before)
        if group.state is GroupState.COMPLETING_REBALANCE:
            # The leader may have received the old id: its assignment would not contain the new one.
            return self._rebalance.prepare(group, self._because("a static member rejoined:", member), self._now_ms)
        return self._rebalance.maybe_complete_join(group, self._now_ms)

    def _persist_replacement(
        self,
        group: ClassicGroup,
        member: ClassicGroupMember,
        instance_id: str,
        old_member_id: str,
        old_leader_id: str | None,
        before: tuple[Protocols, int, int],
    ) -> CoordinatorResult[None]:
        """Commit the new member id in the same generation, then answer; restore the old id if that fails."""

        def answer(now_ms: int) -> CoordinatorResult[None]:
            if member.awaiting_join is self._parked:
                group.answer_join(member, self._unchanged_generation(group, member.member_id, old_leader_id))
            return CoordinatorResult()

        def put_back(code: ErrorCode, now_ms: int) -> CoordinatorResult[None]:
            if group.members.get(member.member_id) is not member:
                return CoordinatorResult()
            failed = self._generation_response(group, "")
            failed.leader = old_leader_id or ""
            failed.error_code = append_error(code)
            group.answer_join(member, failed)
            protocols, rebalance_timeout_ms, session_timeout_ms = before
            group.update(
                member,
                protocols,
                rebalance_timeout_ms=rebalance_timeout_ms,
                session_timeout_ms=session_timeout_ms,
                parked=None,
            )
            old = group.replace_static_member(member.member_id, old_member_id)
            self._rebalance.reschedule_session(group, old, now_ms)
            return CoordinatorResult()

        assignments = {other.member_id: other.assignment for other in group.members.values()}
        record = GroupMetadataRecord(group.group_id, group.to_record_value(assignments))
        return CoordinatorResult([record], on_commit=answer, on_error=put_back)

    def _unchanged_generation(
        self, group: ClassicGroup, member_id: str, old_leader_id: str | None
    ) -> JoinGroupResponse:
        """Answer a static member that returns without a change. A leader that supports it skips the assignment; an
        older one receives its former id as leader, so that it acts as a follower and computes no assignment."""
        response = self._generation_response(group, member_id)
        if self._context.api_version < _SKIP_ASSIGNMENT_SINCE:
            response.leader = old_leader_id or ""
        elif group.is_leader(member_id):
            response.members = group.current_join_members()
            response.skip_assignment = True
        return response

    # -- with a member id

    def _join_existing(self, group: ClassicGroup) -> CoordinatorResult[None]:
        request = self._request
        member_id = request.member_id
        if member_id in group.pending_join_members:
            if request.group_instance_id is not None:
                # A static member is never pending: the client confused two identities. Kafka fails in the same way.
                return self._refuse(ErrorCode.UNKNOWN_SERVER_ERROR, "")
            return self._add(group, member_id)
        try:
            member = group.validate_member(member_id, request.group_instance_id)
        except ApiException as error:
            return self._refuse(error.code, member_id)
        if group.state is GroupState.PREPARING_REBALANCE:
            return self._rejoin(group, member, "rejoining during a rebalance:")
        is_same = member.protocols == self._protocols and list(member.protocols) == list(self._protocols)
        if group.state is GroupState.COMPLETING_REBALANCE:
            if not is_same:
                return self._rejoin(group, member, "changed metadata:")
            # It may have missed its response: send the present generation again.
            return self._answer_present(group, member, with_members=group.is_leader(member_id))
        if group.state is GroupState.STABLE:
            if group.is_leader(member_id):
                # A leader requests a rebalance in this way if no metadata has changed, such as for new partitions.
                return self._rejoin(group, member, "leader rejoining a stable group:")
            if not is_same:
                return self._rejoin(group, member, "changed metadata:")
            return self._answer_present(group, member, with_members=False)
        return self._refuse(ErrorCode.UNKNOWN_MEMBER_ID, member_id)

    def _rejoin(self, group: ClassicGroup, member: ClassicGroupMember, why: str) -> CoordinatorResult[None]:
        self._update(group, member)
        return self._rebalance.prepare_or_complete_join(group, self._because(why, member), self._now_ms)

    def _answer_present(
        self, group: ClassicGroup, member: ClassicGroupMember, *, with_members: bool
    ) -> CoordinatorResult[None]:
        response = self._generation_response(group, member.member_id)
        if with_members:
            response.members = group.current_join_members()
        self._parked.complete(response)
        return CoordinatorResult()

    # -- parts of answers

    def _update(self, group: ClassicGroup, member: ClassicGroupMember) -> None:
        group.update(
            member,
            self._protocols,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
            session_timeout_ms=self._request.session_timeout_ms,
            parked=self._parked,
        )

    def _generation_response(self, group: ClassicGroup, member_id: str) -> JoinGroupResponse:
        return JoinGroupResponse(
            member_id=member_id,
            generation_id=group.generation_id,
            protocol_name=group.protocol_name,
            protocol_type=group.protocol_type,
            leader=group.leader_id or "",
        )

    def _refuse(self, code: ErrorCode, member_id: str) -> CoordinatorResult[None]:
        self._parked.complete(JoinGroupResponse(error_code=code, member_id=member_id))
        return CoordinatorResult()

    def _because(self, what: str, member: ClassicGroupMember) -> str:
        instance = "" if member.group_instance_id is None else f" with instance id {member.group_instance_id}"
        return f"{what} {member.member_id}{instance}; client reason: {self._request.reason or 'not provided'}"
