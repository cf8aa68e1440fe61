"""A member of a share group (KIP-932): several members may have a partition, so nothing is given up or acknowledged."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.clients.membership.heartbeat_schedule import HeartbeatSchedule
from barnabas.clients.membership.member_state import MemberState
from barnabas.clients.membership.membership import Answer, Assignment, Membership, read_assignment
from barnabas.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

__all__ = ["ShareMembership"]

LEAVE_EPOCH = -1
_FIRST_INTERVAL_MS = 500
_FIRST_HEARTBEATS = 20
"""The coordinator prepares the partitions of a group's first member and assigns them a moment later. A member learns it
sooner if its first heartbeats follow each other quickly."""


class ShareMembership(Membership):
    """``assigned`` are the partitions to fetch from."""

    def __init__(
        self, group_id: str, member_id: str, topics: Iterable[str], schedule: HeartbeatSchedule, *, rack_id: str | None
    ) -> None:
        super().__init__(group_id, member_id, schedule)
        self.assigned: Assignment = {}
        self._topics = sorted(set(topics))
        self._rack_id = rack_id
        self._heartbeats = 0

    def request(self, now_ms: int) -> ShareGroupHeartbeatRequest:
        """Return the heartbeat that is due."""
        sends_all = self._sends_all or self.state is MemberState.JOINING
        request = ShareGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            rack_id=self._rack_id if sends_all else None,
            subscribed_topic_names=self._topics if sends_all else None,
        )
        self._sent(now_ms)
        self._heartbeats += 1
        return request

    def receive(self, response: ShareGroupHeartbeatResponse, now_ms: int) -> Answer:
        """Take the answer. A member that was fenced joins again. Raise AdminError for one that ends the membership."""
        has_partitions = self.assigned or (response.assignment and response.assignment.topic_partitions)
        hurries = not has_partitions and self._heartbeats < _FIRST_HEARTBEATS
        answer = self._answered(response, now_ms, interval_ms_max=_FIRST_INTERVAL_MS if hurries else None)
        if answer is Answer.FENCED:
            self.assigned = {}
            self._move(MemberState.JOINING)
        elif answer is Answer.ACCEPTED and response.assignment is not None and self.is_member:
            self.assigned = read_assignment(response.assignment)
            self._move(MemberState.STABLE)
        return answer

    def leave(self) -> ShareGroupHeartbeatRequest | None:
        """Return the last request, if the coordinator knows the member."""
        was_member = self.is_member
        self._move(MemberState.LEFT)
        if not was_member:
            return None
        return ShareGroupHeartbeatRequest(group_id=self.group_id, member_id=self.member_id, member_epoch=LEAVE_EPOCH)
