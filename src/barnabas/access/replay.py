"""Replay requests that an audit has seen against other rules: which of them a change would deny, and which allow.

The authorizer's index decides about each distinct request, by the rules before and after. What the audit says decides
whether the change matters to it: a request that was allowed, and would be denied; one that was denied, and would be
allowed. Requests that the rules before decide otherwise than the audit are told apart, because the rules, or super
users, were others then.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from barnabas.access.rule_comparison import AccessRules, Side
from barnabas.common.acl import AclOperation
from barnabas.common.resource import ResourceType
from barnabas.security.principal import Principal

__all__ = ["AuditWindow", "ObservedRequest", "Replay", "ReplayedRequest", "replay"]


class ObservedRequest(NamedTuple):
    """What an audit saw, by Kafka's names: ``READ`` on ``TOPIC`` ``orders``."""

    principal: str
    host: str
    operation: str
    resource_type: str
    pattern_type: str
    resource_name: str
    allowed: bool
    decisions: int
    first_ms: int | None
    last_ms: int | None


class ReplayedRequest(NamedTuple):
    """A request about which the rules before and after decide differently, or which they would deny or allow anew."""

    principal: str
    host: str
    operation: int
    resource_type: int
    resource_name: str
    decisions: int
    """How often the audit saw it."""
    last_ms: int | None


@dataclass(slots=True)
class AuditWindow:
    """What the audit covers."""

    first_ms: int | None = None
    last_ms: int | None = None
    decisions: int = 0
    requests: int = 0
    """Distinct ones."""
    not_replayed: int = 0
    """Decisions about any resource of a type, about listings, or with codes that are unknown here."""
    otherwise: int = 0
    """Decisions that the rules before the change would not have made."""


@dataclass(slots=True)
class Replay:
    denied: list[ReplayedRequest] = field(default_factory=list)
    """Allowed in the audit and by the rules before, denied by those after. Most frequent first."""
    allowed: list[ReplayedRequest] = field(default_factory=list)
    """Denied in the audit and by the rules before, allowed by those after."""
    window: AuditWindow = field(default_factory=AuditWindow)


_Key = tuple[str, str, str, str, str, bool]


def replay(observed: Iterable[ObservedRequest], before: AccessRules, after: AccessRules) -> Replay:
    """Decide each request of the audit anew. Memory grows with the number of distinct requests."""
    result = Replay()
    seen: dict[_Key, tuple[int, int | None]] = {}
    for request in observed:
        _count(result.window, seen, request)
    sides = Side(before), Side(after)
    result.window.requests = len({key[:5] for key in seen})
    for key, (decisions, last_ms) in seen.items():
        _decide(result, sides, key, decisions, last_ms)
    for found in (result.denied, result.allowed):
        found.sort(key=_frequent_first)
    return result


def _count(window: AuditWindow, seen: dict[_Key, tuple[int, int | None]], request: ObservedRequest) -> None:
    window.decisions += request.decisions
    window.first_ms = _earlier(window.first_ms, request.first_ms)
    window.last_ms = _later(window.last_ms, request.last_ms)
    if (
        request.pattern_type != "LITERAL"
        or request.operation not in AclOperation.__members__
        or request.resource_type not in ResourceType.__members__
    ):
        window.not_replayed += request.decisions
        return
    key = (
        request.principal,
        request.host,
        request.operation,
        request.resource_type,
        request.resource_name,
        request.allowed,
    )
    decisions, last_ms = seen.get(key, (0, None))
    seen[key] = decisions + request.decisions, _later(last_ms, request.last_ms)


def _decide(result: Replay, sides: tuple[Side, Side], key: _Key, decisions: int, last_ms: int | None) -> None:
    principal, host, operation_name, type_name, name, was_allowed = key
    kind, _, rest = principal.partition(":")
    operation, resource_type = AclOperation[operation_name], ResourceType[type_name]
    before, after = (
        bool(side.mask(Principal(kind, rest), host, resource_type, name) >> operation & 1) for side in sides
    )
    if before != was_allowed:
        result.window.otherwise += decisions
    elif before != after:
        request = ReplayedRequest(principal, host, operation, resource_type, name, decisions, last_ms)
        (result.denied if was_allowed else result.allowed).append(request)


def _earlier(first: int | None, second: int | None) -> int | None:
    return first if second is None or (first is not None and first <= second) else second


def _later(first: int | None, second: int | None) -> int | None:
    return first if second is None or (first is not None and first >= second) else second


def _frequent_first(request: ReplayedRequest) -> tuple[int, str, int, str, int]:
    return -request.decisions, request.principal, request.resource_type, request.resource_name, request.operation
