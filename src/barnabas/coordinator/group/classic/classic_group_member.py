"""A member of a classic group: its protocols, its assignment, and its parked requests."""

from __future__ import annotations

from collections.abc import Sequence
from sys import intern

from barnabas.common.errors import InvariantViolated
from barnabas.coordinator.coordinator_result import TimerAction
from barnabas.coordinator.deferred import Deferred
from barnabas.coordinator.timer_queue import Timer
from barnabas.protocol.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from barnabas.protocol.messages.sync_group import SyncGroupResponse

__all__ = ["ClassicGroupMember", "Protocols", "protocols_of"]

Protocols = dict[str, bytes]
"""Name to metadata, in the member's order of preference."""


def protocols_of(protocols: Sequence[JoinGroupRequestProtocol]) -> Protocols:
    """Index by name; of two protocols with one name the first counts, as in Kafka's keyed collection."""
    result: Protocols = {}
    for protocol in protocols:
        result.setdefault(protocol.name, bytes(protocol.metadata))
    return result


class ClassicGroupMember:
    """``is_new`` is True from the first JoinGroup until its answer: such a member sends no heartbeats yet, so its
    session may end although its JoinGroup is parked."""

    __slots__ = (
        "assignment",
        "awaiting_join",
        "awaiting_sync",
        "client_host",
        "client_id",
        "group_instance_id",
        "is_new",
        "member_id",
        "protocol_type",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "session_timer",
    )

    def __init__(
        self,
        *,
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocol_type: str,
        protocols: Protocols,
        assignment: bytes = b"",
        is_new: bool = False,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = intern(client_id)  # Most members have the same.
        self.client_host = intern(client_host)
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocol_type = intern(protocol_type)
        self.protocols = protocols
        self.assignment = assignment
        self.is_new = is_new
        self.awaiting_join: Deferred[JoinGroupResponse] | None = None
        self.awaiting_sync: Deferred[SyncGroupResponse] | None = None
        self.session_timer: Timer[TimerAction] | None = None

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def may_expire(self) -> bool:
        """Whether an expired session removes the member: not while the member waits for the coordinator."""
        return self.is_new or (self.awaiting_join is None and self.awaiting_sync is None)

    def vote(self, candidates: set[str]) -> str:
        """Return the member's most preferred protocol among those that every member supports."""
        for name in self.protocols:
            if name in candidates:
                return name
        raise InvariantViolated(f"member {self.member_id} supports none of the group's candidate protocols")

    def answer_sync(self, response: SyncGroupResponse) -> bool:
        """Answer the parked SyncGroup, if any, unless a failed write has answered it."""
        parked = self.take_sync()
        if parked is None:
            return False
        parked.complete(response)
        return True

    def take_sync(self) -> Deferred[SyncGroupResponse] | None:
        """Return the parked SyncGroup, if any, for the caller to answer, unless a failed write has answered it."""
        parked, self.awaiting_sync = self.awaiting_sync, None
        return None if parked is None or parked.is_complete else parked
