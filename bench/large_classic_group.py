"""A large group of the classic protocol: all members join and sync, and the leader computes the assignment."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.common.errors import ErrorCode
from barnabas.coordinator.deferred import Deferred
from barnabas.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.coordinator.group.consumer_protocol import PROTOCOL_TYPE, write_assignment
from barnabas.protocol.messages.describe_groups import DescribeGroupsResponse
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from barnabas.protocol.record_serde import encode_versioned
from barnabas.protocol.records.consumer_protocol_subscription import ConsumerProtocolSubscription
from bench.large_coordinator import GROUP, LargeCoordinator

__all__ = ["LargeClassicGroup"]

_JOIN_VERSION = 9
_SYNC_VERSION = 5
_DESCRIBE_VERSION = 6
_SESSION_TIMEOUT_MS = 45_000
_REBALANCE_TIMEOUT_MS = 300_000
_PROTOCOL = "range"


@dataclass(slots=True)
class _Member:
    member_id: str = ""
    generation_id: int = -1
    assignment: bytes = b""


class LargeClassicGroup:
    def __init__(self, *, members: int, topics: int, partitions: int) -> None:
        """``partitions`` are those of each topic."""
        self.large = LargeCoordinator(topics=topics, partitions=partitions)
        self.members = [_Member() for _ in range(members)]
        self._partitions = partitions
        self._leader = ""
        # A member takes part of every topic: its assignment names all of them.
        self._subscription = encode_versioned(ConsumerProtocolSubscription(topics=self.large.topics), 1)

    def all_join(self) -> None:
        answers = [self._join(member) for member in self.members]
        self._wait_for(answers)
        for member, answer in zip(self.members, answers, strict=True):
            response = answer.value
            assert response.error_code == ErrorCode.NONE, response
            self.large.write(response, _JOIN_VERSION)
            member.member_id, member.generation_id = response.member_id, response.generation_id
            self._leader = response.leader

    def _join(self, member: _Member) -> Deferred[JoinGroupResponse]:
        answer = self._send_join(member)
        if answer.is_complete and answer.value.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            member.member_id = answer.value.member_id
            answer = self._send_join(member)
        return answer

    def _send_join(self, member: _Member) -> Deferred[JoinGroupResponse]:
        large = self.large
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=_SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=_REBALANCE_TIMEOUT_MS,
            member_id=member.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=_PROTOCOL, metadata=self._subscription)],
        )
        return large.turn(lambda: large.coordinator.join_group(large.context(_JOIN_VERSION), request, large.now_ms))

    def all_sync(self) -> None:
        """The leader is the last to sync."""
        in_order = sorted(self.members, key=lambda member: member.member_id == self._leader)
        answers = [self._sync(member) for member in in_order]
        self._wait_for(answers)
        for member, answer in zip(in_order, answers, strict=True):
            response = answer.value
            assert response.error_code == ErrorCode.NONE, response
            self.large.write(response, _SYNC_VERSION)
            member.assignment = response.assignment
            assert member.assignment

    def _sync(self, member: _Member) -> Deferred[SyncGroupResponse]:
        large = self.large
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=member.generation_id,
            member_id=member.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=_PROTOCOL,
        )
        if member.member_id == self._leader:
            request.assignments = self._assignments()
        return large.turn(lambda: large.coordinator.sync_group(request, large.now_ms))

    def _assignments(self) -> list[SyncGroupRequestAssignment]:
        """Share all partitions evenly, one topic after the other."""
        partitions = [(topic, number) for topic in self.large.topics for number in range(self._partitions)]
        count = -(-len(partitions) // len(self.members))
        assignments = []
        for place, member in enumerate(self.members):
            of_member: dict[str, list[int]] = {}
            for topic, number in partitions[place * count : (place + 1) * count]:
                of_member.setdefault(topic, []).append(number)
            assignment = write_assignment(of_member, self._subscription)
            assignments.append(SyncGroupRequestAssignment(member_id=member.member_id, assignment=assignment))
        return assignments

    def _wait_for(self, answers: list[Deferred[JoinGroupResponse]] | list[Deferred[SyncGroupResponse]]) -> None:
        while not all(answer.is_complete for answer in answers):
            self.large.advance(100)

    def all_heartbeat(self) -> None:
        large = self.large
        for member in self.members:
            request = HeartbeatRequest(group_id=GROUP, generation_id=member.generation_id, member_id=member.member_id)
            response = large.answered(lambda request=request: large.coordinator.heartbeat(request, large.now_ms))  # type: ignore[misc]
            assert response.error_code == ErrorCode.NONE, response

    def describe(self) -> None:
        """Describe the group and encode the answer, each step in a turn."""
        large = self.large
        response = DescribeGroupsResponse()
        response.groups = [large.exhaust(large.coordinator.describe_group(large.context(_DESCRIBE_VERSION), GROUP))]
        large.write(response, _DESCRIBE_VERSION)

    def lose_all(self) -> None:
        """Let all sessions end at once, as when the network is cut."""
        self.large.advance(_SESSION_TIMEOUT_MS + _REBALANCE_TIMEOUT_MS)
        group = self.large.group
        assert isinstance(group, ClassicGroup)
        assert group.is_empty
