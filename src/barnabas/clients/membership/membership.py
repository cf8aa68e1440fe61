"""What members of all kinds share: state and epoch, when heartbeats are sent, and what an error means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Protocol

from barnabas.clients.admin.errors import admin_error
from barnabas.clients.membership.heartbeat_schedule import HeartbeatSchedule
from barnabas.clients.membership.member_state import MemberState, checked_move
from barnabas.common.error_code import ErrorCode
from barnabas.common.uuid import Uuid

__all__ = ["Answer", "Assignment", "Membership", "read_assignment"]

Assignment = Mapping[Uuid, frozenset[int]]

JOIN_EPOCH = 0
_URGENT = frozenset({MemberState.JOINING, MemberState.ACKNOWLEDGING})
_SILENT = frozenset({MemberState.FENCED, MemberState.LEFT, MemberState.FATAL})
_FENCED = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})
_MOVED = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)


class Answer(Enum):
    """What an answer means for the caller."""

    ACCEPTED = "accepted"
    COORDINATOR_MOVED = "coordinator moved"
    """Find the coordinator again before the next heartbeat."""
    FENCED = "fenced"


class _Response(Protocol):
    """What the answers to the heartbeats of all kinds have in common."""

    error_code: int
    error_message: str | None
    member_id: str | None
    member_epoch: int
    heartbeat_interval_ms: int


class Membership:
    """The caller sends a heartbeat when ``due_ms`` has come, and reports each answer, or that none arrived."""

    def __init__(self, group_id: str, member_id: str, schedule: HeartbeatSchedule) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.epoch = JOIN_EPOCH
        self.state = MemberState.JOINING
        self._schedule = schedule
        self._sends_all = True
        """Whether the next heartbeat has all fields: the coordinator may not know what was sent before."""

    @property
    def is_member(self) -> bool:
        """Whether the coordinator has accepted the member, and has not removed it since."""
        return self.epoch > JOIN_EPOCH and self.state not in _SILENT

    def due_ms(self) -> int | None:
        """Return when to send the next heartbeat; None if none is due until something else happens."""
        return None if self.state in _SILENT else self._schedule.due_ms(is_urgent=self.state in _URGENT)

    def unanswered(self, now_ms: int) -> None:
        """The heartbeat was not answered. The coordinator may have received it."""
        self._schedule.failed(now_ms)
        self._sends_all = True

    def _sent(self, now_ms: int) -> None:
        self._schedule.sent(now_ms)
        self._sends_all = False

    def _answered(self, response: _Response, now_ms: int, *, interval_ms_max: int | None = None) -> Answer:
        """Take the epoch of a response, or its error. Raise AdminError for an error that ends the membership."""
        code = response.error_code
        if code:
            return self._refused(code, response.error_message, now_ms)
        interval_ms = response.heartbeat_interval_ms
        self._schedule.answered(interval_ms if interval_ms_max is None else min(interval_ms, interval_ms_max), now_ms)
        if self.state not in _SILENT:
            self.member_id = response.member_id or self.member_id
            self.epoch = max(response.member_epoch, JOIN_EPOCH)
        return Answer.ACCEPTED

    def _refused(self, code: int, message: str | None, now_ms: int) -> Answer:
        self._sends_all = True
        if code in _MOVED:
            self._schedule.failed(now_ms)
            return Answer.COORDINATOR_MOVED
        self.epoch = JOIN_EPOCH
        if code in _FENCED:
            self._schedule.reset()
            self._move(MemberState.FENCED)
            return Answer.FENCED
        self._move(MemberState.FATAL)
        raise admin_error(code, message, self.group_id)

    def _move(self, to: MemberState) -> None:
        self.state = checked_move(self.state, to)


class _TopicPartitions(Protocol):
    topic_id: Uuid
    partitions: list[int]


class _Assignment(Protocol):
    @property
    def topic_partitions(self) -> Sequence[_TopicPartitions]: ...


def read_assignment(assignment: _Assignment) -> Assignment:
    return {topic.topic_id: frozenset(topic.partitions) for topic in assignment.topic_partitions if topic.partitions}
