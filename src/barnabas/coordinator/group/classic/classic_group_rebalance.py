"""Moves a classic group from one generation to the next.

A rebalance begins with ``prepare``: members must join again. It completes when all have joined, or when the largest
rebalance timeout has passed; dynamic members that did not join are removed, static ones stay until their session
ends. An empty group first waits ``group.initial.rebalance.delay.ms``, again and again while members join, but no
longer than its rebalance timeout. Then every member has the rebalance timeout once more to sync.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from barnabas.common.errors import ErrorCode
from barnabas.coordinator.coordinator_result import CoordinatorResult, TimerAction
from barnabas.coordinator.group.classic.classic_group import ClassicGroup, PendingTotal
from barnabas.coordinator.group.classic.classic_group_member import ClassicGroupMember
from barnabas.coordinator.group.classic.parked_answers import ParkedAnswers
from barnabas.coordinator.group.group_coordinator_config import GroupCoordinatorConfig
from barnabas.coordinator.group.group_records import GroupMetadataRecord
from barnabas.coordinator.group.group_state import GroupState
from barnabas.coordinator.group.stepped_work import SteppedWork, Work
from barnabas.coordinator.timer_queue import Timer, TimerQueue
from barnabas.protocol.messages.join_group import JoinGroupResponse
from barnabas.protocol.messages.sync_group import SyncGroupResponse

__all__ = ["Rebalance", "append_error"]

_MEMBERS_A_STEP = 1_000

log = logging.getLogger(__name__)

Nothing = CoordinatorResult[None]

_APPEND_ERRORS: dict[ErrorCode, ErrorCode] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def append_error(code: ErrorCode) -> ErrorCode:
    """Translate an error of the coordinator's own append for the client, which does not know that topic."""
    return _APPEND_ERRORS.get(code, code)


_End: TypeAlias = Callable[[ClassicGroup, ClassicGroupMember, int], Nothing]


class _EndOfSession:
    """A TimerAction of one member; smaller than a partial."""

    __slots__ = ("_end", "_group", "_member")

    def __init__(self, end: _End, group: ClassicGroup, member: ClassicGroupMember) -> None:
        self._end = end
        self._group = group
        self._member = member

    def __call__(self, now_ms: int) -> Nothing:
        return self._end(self._group, self._member, now_ms)


class Rebalance:
    def __init__(self, config: GroupCoordinatorConfig, timers: TimerQueue[TimerAction], work: SteppedWork) -> None:
        self._config = config
        self._timers = timers
        self._work = work
        self.answers = ParkedAnswers(work)
        self.completed_count = 0
        self._pending = PendingTotal()
        self._end_session: _End = self._expire_session

    # -- phases of a rebalance

    def prepare_or_complete_join(self, group: ClassicGroup, reason: str, now_ms: int) -> Nothing:
        if group.can_rebalance:
            return self.prepare(group, reason, now_ms)
        return self.maybe_complete_join(group, now_ms)

    def prepare(self, group: ClassicGroup, reason: str, now_ms: int) -> Nothing:
        if group.state is GroupState.COMPLETING_REBALANCE:
            self.fail_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS, now_ms)
        if group.sync_timer is not None:
            group.sync_timer.cancel()
        was_empty = group.state is GroupState.EMPTY
        group.transition_to(GroupState.PREPARING_REBALANCE, now_ms)
        log.info("Preparing to rebalance group %s, generation %d: %s", group.group_id, group.generation_id, reason)
        if not was_empty:
            return self._complete_join_or_wait(group, now_ms)
        delay_ms = self._config.group_initial_rebalance_delay_ms
        if not delay_ms:
            return self.complete_join(group, now_ms)
        remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        self._wait_for_joins(group, now_ms + delay_ms, partial(self._end_initial_delay, group, delay_ms, remaining_ms))
        return CoordinatorResult()

    def maybe_complete_join(self, group: ClassicGroup, now_ms: int) -> Nothing:
        """Continue when all members have joined. The initial delay is kept even then: more members may be starting."""
        if (
            group.state is GroupState.PREPARING_REBALANCE
            and not group.is_in_initial_delay
            and group.has_all_members_joined
        ):
            return self.complete_join(group, now_ms)
        return CoordinatorResult()

    def complete_join(self, group: ClassicGroup, now_ms: int) -> Nothing:
        if group.join_timer is not None:
            group.join_timer.cancel()
        if group.state is not GroupState.PREPARING_REBALANCE:
            return CoordinatorResult()
        for member in group.not_yet_rejoined():
            if not member.is_static:
                group.remove(member.member_id)
        if not group.maybe_elect_new_joined_leader() and group.members:
            # Only static members are left and none has joined: wait until one does or their sessions end.
            self._wait_for_joins(group, now_ms + group.rebalance_timeout_ms, partial(self.complete_join, group))
            return CoordinatorResult()
        group.init_next_generation(now_ms)
        self.completed_count += 1
        if not group.members:
            log.info("Group %s with generation %d is now empty", group.group_id, group.generation_id)
            return CoordinatorResult([GroupMetadataRecord(group.group_id, group.to_record_value({}))])
        log.info("Stabilized group %s, generation %d with %d members", group.group_id, group.generation_id,
                 len(group.members))  # fmt: skip
        self._answer_joins(group, now_ms)
        return CoordinatorResult()

    def _answer_joins(self, group: ClassicGroup, now_ms: int) -> None:
        for member in list(group.members.values()):
            is_leader = group.is_leader(member.member_id)
            self.answers.add(
                group.take_join(member),
                JoinGroupResponse(
                    members=group.current_join_members() if is_leader else [],
                    member_id=member.member_id,
                    generation_id=group.generation_id,
                    protocol_name=group.protocol_name,
                    protocol_type=group.protocol_type,
                    leader=group.leader_id or "",
                ),
            )
            self.reschedule_session(group, member, now_ms)
            member.is_new = False
            group.pending_sync_members.add(member.member_id)
        self.answers.send(now_ms)
        if group.sync_timer is None:
            group.sync_timer = Timer(partial(self._expire_pending_sync, group))
        self._timers.schedule(group.sync_timer, now_ms + group.rebalance_timeout_ms)

    def _complete_join_or_wait(self, group: ClassicGroup, now_ms: int) -> Nothing:
        if group.has_all_members_joined:
            return self.complete_join(group, now_ms)
        self._wait_for_joins(group, now_ms + group.rebalance_timeout_ms, partial(self.complete_join, group))
        return CoordinatorResult()

    def _wait_for_joins(self, group: ClassicGroup, deadline_ms: int, action: TimerAction) -> None:
        if group.join_timer is None:
            group.join_timer = Timer(action)
        group.join_timer.action = action
        self._timers.schedule(group.join_timer, deadline_ms)

    def _end_initial_delay(self, group: ClassicGroup, delay_ms: int, remaining_ms: int, now_ms: int) -> Nothing:
        if not (group.new_member_added and remaining_ms):
            return self.complete_join(group, now_ms)
        group.new_member_added = False
        next_delay_ms = min(self._config.group_initial_rebalance_delay_ms, remaining_ms)
        next_remaining_ms = max(remaining_ms - delay_ms, 0)
        self._wait_for_joins(
            group, now_ms + next_delay_ms, partial(self._end_initial_delay, group, next_delay_ms, next_remaining_ms)
        )
        return CoordinatorResult()

    def _expire_pending_sync(self, group: ClassicGroup, now_ms: int) -> Nothing:
        if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE) or not group.pending_sync_members:
            return CoordinatorResult()
        late = sorted(group.pending_sync_members)
        for member_id in late:
            group.remove(member_id)
        return self.prepare(group, f"removing {late}, which did not sync in time", now_ms)

    # -- assignments

    def propagate_assignments(self, group: ClassicGroup, now_ms: int) -> None:
        """Answer the members that have synced; those of a large group in steps."""
        work = self._propagate(group, now_ms)
        if len(group.members) > _MEMBERS_A_STEP:
            self._work.start(("propagation", group.group_id, group.generation_id), work, now_ms)
        else:
            for _ in work:
                pass

    def _propagate(self, group: ClassicGroup, now_ms: int) -> Work:
        """A request that waits stays with its member until its step: meanwhile the session of the member cannot end."""
        assigned = [(member, member.awaiting_sync, member.assignment) for member in group.members.values()]
        protocol_type, protocol_name = group.protocol_type, group.protocol_name
        for first in range(0, len(assigned), _MEMBERS_A_STEP):
            for member, parked, assignment in assigned[first : first + _MEMBERS_A_STEP]:
                if parked is not None and member.awaiting_sync is parked:
                    response = SyncGroupResponse(
                        protocol_type=protocol_type, protocol_name=protocol_name, assignment=assignment
                    )
                    self._answer_sync(group, member, response, now_ms)
            self.answers.send(now_ms)
            now_ms = yield None

    def _answer_sync(
        self, group: ClassicGroup, member: ClassicGroupMember, response: SyncGroupResponse, now_ms: int
    ) -> None:
        parked = member.take_sync()
        if parked is not None:
            self.answers.add(parked, response)
            # A session that expired while the member waited for the coordinator was ignored.
            self.reschedule_session(group, member, now_ms)

    def fail_syncs(self, group: ClassicGroup, code: ErrorCode, now_ms: int) -> None:
        for member in list(group.members.values()):
            member.assignment = b""
            self._answer_sync(group, member, SyncGroupResponse(error_code=code), now_ms)
        self.answers.send(now_ms)

    def sync_received(self, group: ClassicGroup, member_id: str) -> None:
        group.pending_sync_members.discard(member_id)
        if not group.pending_sync_members and group.sync_timer is not None:
            group.sync_timer.cancel()

    # -- sessions

    def reschedule_session(
        self, group: ClassicGroup, member: ClassicGroupMember, now_ms: int, timeout_ms: int | None = None
    ) -> None:
        timer = member.session_timer
        if timer is None:
            timer = member.session_timer = Timer(_EndOfSession(self._end_session, group, member))
        elif not timer.is_scheduled:  # It expired the id of a pending member.
            timer.action = _EndOfSession(self._end_session, group, member)
        self._timers.schedule(timer, now_ms + (member.session_timeout_ms if timeout_ms is None else timeout_ms))

    def has_room_for_pending(self) -> bool:
        """Return whether another client may receive a member id before it has joined."""
        return self._pending.count < self._config.groups_max_pending_members

    def add_pending_member(self, group: ClassicGroup, member_id: str, session_timeout_ms: int, now_ms: int) -> None:
        timer: Timer[TimerAction] = Timer(partial(self._expire_pending_member, group, member_id))
        group.add_pending(member_id, timer, self._pending)
        self._timers.schedule(timer, now_ms + session_timeout_ms)

    def remove_member(self, group: ClassicGroup, member: ClassicGroupMember) -> None:
        """Remove a member. Its parked requests are answered, so that a living client starts over."""
        group.answer_join(member, JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        member.answer_sync(SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        group.remove(member.member_id)

    def dissolve(self, group: ClassicGroup, now_ms: int) -> None:
        """End a group that was deleted, or has become a consumer group. Members must send waiting requests again."""
        self.refuse_waiting(group)
        for member_id in list(group.members):
            group.remove(member_id)
        for member_id in list(group.pending_join_members):
            group.forget_pending(member_id)
        for timer in (group.join_timer, group.sync_timer):
            if timer is not None:
                timer.cancel()
        group.transition_to(GroupState.DEAD, now_ms)

    def refuse_waiting(self, group: ClassicGroup) -> None:
        """Let members send again requests that wait for others."""
        for member in group.members.values():
            again = JoinGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id)
            group.answer_join(member, again)
            member.answer_sync(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))

    def after_removal(self, group: ClassicGroup, reason: str, now_ms: int) -> Nothing:
        """Continue after members were removed: a stable group rebalances, and a rebalance may have waited only for
        them."""
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            return self.prepare(group, reason, now_ms)
        return self.maybe_complete_join(group, now_ms)

    def _expire_session(self, group: ClassicGroup, member: ClassicGroupMember, now_ms: int) -> Nothing:
        if group.members.get(member.member_id) is not member or not member.may_expire:
            return CoordinatorResult()
        log.info("Member %s in group %s has failed, removing it from the group", member.member_id, group.group_id)
        self.remove_member(group, member)
        return self.after_removal(group, f"session of {member.member_id} expired", now_ms)

    def _expire_pending_member(self, group: ClassicGroup, member_id: str, now_ms: int) -> Nothing:
        if not group.forget_pending(member_id):
            return CoordinatorResult()
        return self.maybe_complete_join(group, now_ms)
