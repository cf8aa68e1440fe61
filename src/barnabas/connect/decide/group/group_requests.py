"""The five requests of a group member, as values that are independent of the request version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from barnabas.clients.client_config import Address
from barnabas.connect.decide.group.connect_protocol import PROTOCOL_TYPE
from barnabas.connect.decide.group.group_settings import GroupSettings
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from barnabas.protocol.schema import Message, Request

__all__ = [
    "GroupRequest",
    "ConnectionPurpose",
    "coordinator_in",
    "find_coordinator",
    "heartbeat",
    "join_group",
    "leave_group",
    "sync_group",
]

_KEYS_SINCE = 4
"""FindCoordinator requests several groups at once."""

_MEMBERS_SINCE = 3
"""LeaveGroup names several members."""

_REASON_MAX = 255
"""The longest reason that a coordinator accepts, in characters."""

_WAIT_BEYOND_REBALANCE_MS = 5_000
"""A coordinator answers JoinGroup and SyncGroup within the rebalance timeout. The member waits this much longer."""


class ConnectionPurpose(Enum):
    """The purpose of a connection to the coordinator.

    Responses arrive in the order of the requests, and the response to JoinGroup may take a minute. So heartbeats have
    their own connection."""

    GROUP = "group"
    HEARTBEAT = "heartbeat"


@dataclass(frozen=True, slots=True)
class GroupRequest:
    """A request to the coordinator at ``to``, or to any node if that is None. ``message(version)`` is the message."""

    request_id: int
    api_key: ApiKey
    purpose: ConnectionPurpose
    to: Address | None
    message: Callable[[int], Request[Message]]
    timeout_ms: int


def find_coordinator(request_id: int, settings: GroupSettings) -> GroupRequest:
    group_id = settings.group_id

    def message(version: int) -> Request[Message]:
        if version >= _KEYS_SINCE:
            return FindCoordinatorRequest(coordinator_keys=[group_id])
        return FindCoordinatorRequest(key=group_id)

    return GroupRequest(
        request_id, ApiKey.FIND_COORDINATOR, ConnectionPurpose.GROUP, None, message, settings.session_timeout_ms
    )


def coordinator_in(response: FindCoordinatorResponse) -> tuple[int, str | None, Address]:
    """Return error code, its message, and the address, which is valid only without an error."""
    if response.coordinators:
        found = response.coordinators[0]
        return found.error_code, found.error_message, Address(found.host, found.port)
    return response.error_code, response.error_message, Address(response.host, response.port)


def join_group(
    request_id: int,
    settings: GroupSettings,
    to: Address,
    *,
    member_id: str,
    protocols: Sequence[tuple[str, bytes]],
    reason: str,
) -> GroupRequest:
    request = JoinGroupRequest(
        group_id=settings.group_id,
        session_timeout_ms=settings.session_timeout_ms,
        rebalance_timeout_ms=settings.rebalance_timeout_ms,
        member_id=member_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols],
        reason=reason[:_REASON_MAX],
    )
    timeout_ms = settings.rebalance_timeout_ms + _WAIT_BEYOND_REBALANCE_MS
    return GroupRequest(request_id, ApiKey.JOIN_GROUP, ConnectionPurpose.GROUP, to, lambda _: request, timeout_ms)


def sync_group(
    request_id: int,
    settings: GroupSettings,
    to: Address,
    *,
    member_id: str,
    generation: int,
    protocol_name: str,
    assignments: Sequence[tuple[str, bytes]],
) -> GroupRequest:
    request = SyncGroupRequest(
        group_id=settings.group_id,
        generation_id=generation,
        member_id=member_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=protocol_name,
        assignments=[
            SyncGroupRequestAssignment(member_id=member, assignment=assignment) for member, assignment in assignments
        ],
    )
    timeout_ms = settings.rebalance_timeout_ms + _WAIT_BEYOND_REBALANCE_MS
    return GroupRequest(request_id, ApiKey.SYNC_GROUP, ConnectionPurpose.GROUP, to, lambda _: request, timeout_ms)


def heartbeat(
    request_id: int, settings: GroupSettings, to: Address, *, member_id: str, generation: int
) -> GroupRequest:
    request = HeartbeatRequest(group_id=settings.group_id, generation_id=generation, member_id=member_id)
    timeout_ms = settings.heartbeat_interval_ms
    return GroupRequest(request_id, ApiKey.HEARTBEAT, ConnectionPurpose.HEARTBEAT, to, lambda _: request, timeout_ms)


def leave_group(request_id: int, settings: GroupSettings, to: Address, *, member_id: str, reason: str) -> GroupRequest:
    """Use the heartbeat's connection, because a JoinGroup may be waiting on the other one."""

    def message(version: int) -> Request[Message]:
        if version >= _MEMBERS_SINCE:
            member = MemberIdentity(member_id=member_id, reason=reason[:_REASON_MAX])
            return LeaveGroupRequest(group_id=settings.group_id, members=[member])
        return LeaveGroupRequest(group_id=settings.group_id, member_id=member_id)

    timeout_ms = settings.heartbeat_interval_ms
    return GroupRequest(request_id, ApiKey.LEAVE_GROUP, ConnectionPurpose.HEARTBEAT, to, message, timeout_ms)
