"""The meaning of each error code of the coordinator for a member, and the messages for errors that end membership."""

from __future__ import annotations

from enum import Enum

from barnabas.common.error_code import ErrorCode
from barnabas.connect.decide.group.group_settings import GroupSettings

__all__ = ["Meaning", "meaning_of", "terminal_message"]


class Meaning(Enum):
    FINE = "fine"
    REJOIN = "the group rebalances"
    NEW_GENERATION = "the group continued without this member, which still belongs to it"
    NOT_A_MEMBER = "the coordinator does not know this member"
    ID_GIVEN = "join again with the returned id"
    MOVED = "the coordinator has moved"
    LATER = "ask again"
    NEVER = "a retry can't help"


_MEANINGS = {
    ErrorCode.NONE: Meaning.FINE,
    ErrorCode.REBALANCE_IN_PROGRESS: Meaning.REJOIN,
    ErrorCode.ILLEGAL_GENERATION: Meaning.NEW_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID: Meaning.NOT_A_MEMBER,
    ErrorCode.FENCED_INSTANCE_ID: Meaning.NOT_A_MEMBER,
    ErrorCode.MEMBER_ID_REQUIRED: Meaning.ID_GIVEN,
    ErrorCode.NOT_COORDINATOR: Meaning.MOVED,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Meaning.MOVED,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Meaning.LATER,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: Meaning.NEVER,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: Meaning.NEVER,
    ErrorCode.INVALID_GROUP_ID: Meaning.NEVER,
    ErrorCode.INVALID_SESSION_TIMEOUT: Meaning.NEVER,
    ErrorCode.GROUP_MAX_SIZE_REACHED: Meaning.NEVER,
    ErrorCode.UNSUPPORTED_VERSION: Meaning.NEVER,
}


def meaning_of(code: int) -> Meaning:
    """Return the meaning. An unexpected error may be transient, so the request is repeated."""
    return _MEANINGS.get(ErrorCode(code), Meaning.LATER) if code in ErrorCode._value2member_map_ else Meaning.LATER


def terminal_message(code: int, settings: GroupSettings) -> str:
    group = repr(settings.group_id)
    if code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
        return (
            f"this worker's principal may not join the group {group} (GROUP_AUTHORIZATION_FAILED): "
            f"allow it READ on group.id={settings.group_id}, and start the worker again"
        )
    if code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
        return (
            f"the group {group} exists and its members are not Connect workers, or none of their protocols is known "
            "to this worker (INCONSISTENT_GROUP_PROTOCOL): set group.id to a name that no consumer group uses"
        )
    if code == ErrorCode.INVALID_SESSION_TIMEOUT:
        return (
            f"the cluster does not allow session.timeout.ms={settings.session_timeout_ms} (INVALID_SESSION_TIMEOUT): "
            "it must be from the brokers' group.min.session.timeout.ms to their group.max.session.timeout.ms"
        )
    if code == ErrorCode.GROUP_MAX_SIZE_REACHED:
        return (
            f"the group {group} has as many members as the brokers allow (GROUP_MAX_SIZE_REACHED): "
            "raise their group.max.size or run fewer workers"
        )
    if code == ErrorCode.INVALID_GROUP_ID:
        return f"the cluster does not accept group.id={settings.group_id} (INVALID_GROUP_ID): choose another name"
    return f"the cluster's brokers can't serve the group {group} (error {code}): they are too old or misconfigured"
