"""Collects access decisions until they are written: the audit without its logs and topics.

``Access`` in ``network.api_handler`` is the only caller of ``decided``, for every authorizer, custom ones included; an
authorizer itself never calls it. It reports a denial of a requested access, and an allowed decision if
``wants_allowed`` (acl-matrix: logging flags).

The cost stays flat, whatever the load:

- Allowed decisions that are alike (principal, host, API, operation, resource, forwarding broker) are counted together
  for a window, and become one event with a count at its end.
- So are denials, but the first ``denials_per_window`` of each kind immediately become separate events.
- The deciding rule is looked up when a kind is new in a window, and not for more than ``RULE_LOOKUPS_MAX`` of them.
- Kinds are bounded, also those of one caller: decisions about further names are counted under the name ``OTHERS``.
- Waiting events are bounded too: events that do not fit are counted in ``dropped``, and the owner reports the number.

Nothing here waits: the owner of the clock takes the events with ``take`` after ``on_event``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.common.resource import PatternType

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.common.acl import AclOperation
    from barnabas.common.resource import ResourceType
    from barnabas.protocol.api_keys import ApiKey
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.principal import Principal
    from barnabas.security.request_context import RequestContext

__all__ = [
    "LOOKUP_BUDGET_S",
    "OTHERS",
    "OTHERS_MAX",
    "RULE_LOOKUPS_MAX",
    "TEXT_MAX",
    "AccessAudit",
    "AccessEvent",
    "AuditLimits",
    "AuditedRequest",
    "DecidingRule",
    "deciding_rule",
]

RULE_LOOKUPS_MAX = 1000
"""Look-ups in a window, which also end after LOOKUP_BUDGET_S. A look-up reads rules one by one: microseconds for most
callers, a tenth of a second for one with a hundred thousand rules. An attacker must not be able to cause that load."""

LOOKUP_BUDGET_S = 0.1

OTHERS = "(others)"
"""The name, with pattern type ANY, under which decisions beyond the bound on kinds are counted."""

OTHERS_MAX = 100
"""The largest number of such kinds, in addition to ``kinds_max``."""

TEXT_MAX = 1024
"""Characters of a name or a client id that are kept. A request may contain 32 KiB of each, many times."""


_NS_PER_MS = 1_000_000


def _clipped(text: str) -> str:
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}... ({len(text)} characters)"


class DecidingRule(NamedTuple):
    """The reason: a rule of ``standard_authorizer.Decision``, or ``NoAuthorizer``; ``NotLookedUp`` after too many
    look-ups, ``Unknown`` when the authorizer can't name it or its rules changed in between."""

    kind: str
    id: str | None = None
    text: str | None = None


class AuditedRequest(NamedTuple):
    """The request that was decided."""

    listener: str
    api_version: int
    client_id: str | None
    connection_id: str
    correlation_id: int

    @classmethod
    def of(cls, context: RequestContext) -> AuditedRequest:
        client_id = context.client_id
        return cls(
            context.listener_name,
            context.api_version,
            client_id if client_id is None else _clipped(client_id),
            context.connection_id,
            context.correlation_id,
        )


class AccessEvent(NamedTuple):
    """One decision, or ``decisions`` equal ones; then the request is that of the first."""

    first_ms: int
    last_ms: int
    decisions: int
    references: int
    """The number of references to the resource in the requests: mostly partitions."""
    allowed: bool
    principal: Principal
    host: str
    api_key: ApiKey
    request: AuditedRequest
    forwarding_principal: Principal | None
    operation: AclOperation
    resource_type: ResourceType
    pattern_type: PatternType
    """LITERAL; ANY for a decision about any resource of the type, or about a listing of all."""
    resource_name: str
    rule: DecidingRule


class AuditLimits(NamedTuple):
    window_ms: int = 30_000
    denials_per_window: int = 10
    """Denials of one kind that become separate events."""
    kinds_max: int = 10_000
    queue_max: int = 10_000
    denials_of_caller_max: int = 200
    """Denials of one principal and host in a window that become events, and names that are counted separately."""


if TYPE_CHECKING:
    _Kind = tuple[Principal, str, AclOperation, ResourceType, ApiKey, str, bool, PatternType, Principal | None]

_NO_AUTHORIZER = DecidingRule("NoAuthorizer")
_UNKNOWN = DecidingRule("Unknown")
_NOT_LOOKED_UP = DecidingRule("NotLookedUp")


class _Tally:
    """The decisions of one kind in this window that no event reports yet."""

    __slots__ = ("count", "first_ns", "last_ns", "references", "reported", "request", "rule")

    def __init__(self, request: AuditedRequest, rule: DecidingRule, now_ns: int) -> None:
        self.request = request
        self.rule = rule
        self.first_ns = self.last_ns = now_ns
        self.count = 0
        self.references = 0
        self.reported = 0
        """Separate events so far."""


class AccessAudit:
    """``wants_allowed`` may be changed at any time. ``now_ns`` is the wall clock, in nanoseconds: the request path
    converts nothing.
    """

    __slots__ = (
        "_denials_of_callers",
        "_events",
        "_limits",
        "_lookup_s",
        "_lookups",
        "_now_ns",
        "_on_event",
        "_tallies",
        "_timer",
        "_window_start_ms",
        "allowed_count",
        "denied_count",
        "dropped",
        "wants_allowed",
    )

    def __init__(
        self,
        limits: AuditLimits,
        *,
        now_ns: Callable[[], int],
        on_event: Callable[[], None] = lambda: None,
        wants_allowed: bool = False,
        timer: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """``timer`` returns seconds, to measure look-ups. ``on_event`` is called when an event can be taken, now or
        at the end of the window."""
        self._limits = limits
        self._now_ns = now_ns
        self._on_event = on_event
        self.wants_allowed = wants_allowed
        self._tallies: dict[_Kind, _Tally] = {}
        self._events: list[AccessEvent] = []
        self._denials_of_callers: dict[tuple[Principal, str], int] = {}
        self._window_start_ms = 0
        self._lookups = 0
        self._lookup_s = 0.0
        self._timer = timer
        self.dropped = 0
        """Decisions that no event reports, since the start."""
        self.allowed_count = 0
        self.denied_count = 0

    @property
    def window_end_ms(self) -> int | None:
        """When the decisions counted so far become events; None without counted decisions."""
        return self._window_start_ms + self._limits.window_ms if self._tallies else None

    def decided(
        self,
        authorizer: Authorizer,
        context: RequestContext,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        allowed: bool,
        references: int = 1,
        pattern_type: PatternType = PatternType.LITERAL,
    ) -> None:
        now_ns = self._now_ns()
        if len(name) > TEXT_MAX:
            name = _clipped(name)
        kind = (
            context.principal,
            name,
            operation,
            resource_type,
            context.api_key,
            context.client_host,
            allowed,
            pattern_type,
            context.forwarding_principal,
        )
        tally = self._tallies.get(kind)
        if tally is None:
            tally = self._new_tally(authorizer, context, kind, now_ns)
            if tally is None:
                tally = self._tally_of_others(context, kind, now_ns)
            if tally is None:
                self.dropped += 1
                return
        if allowed:
            self.allowed_count += 1
        else:
            self.denied_count += 1
            if tally.reported < self._limits.denials_per_window and self._may_report(context):
                tally.reported += 1
                self._add(_event(kind, tally.rule, AuditedRequest.of(context), now_ns, now_ns, 1, references))
                return
        if not tally.count:
            tally.first_ns = now_ns
            if not allowed:
                tally.request = AuditedRequest.of(context)
        tally.count += 1
        tally.references += references
        tally.last_ns = now_ns

    def _new_tally(self, authorizer: Authorizer, context: RequestContext, kind: _Kind, now_ns: int) -> _Tally | None:
        if len(self._tallies) >= self._limits.kinds_max:
            return None
        if not kind[6] and self._denials_of_callers.get((kind[0], kind[5]), 0) >= self._limits.denials_of_caller_max:
            return None
        if not self._tallies:
            self._window_start_ms = now_ns // _NS_PER_MS
            self._on_event()
        tally = self._tallies[kind] = _Tally(AuditedRequest.of(context), self._rule(authorizer, context, kind), now_ns)
        return tally

    def _may_report(self, context: RequestContext) -> bool:
        """Return whether the caller is below its bound: thousands of names must not fill the log."""
        caller = (context.principal, context.client_host)
        reported = self._denials_of_callers.get(caller, 0)
        if reported >= self._limits.denials_of_caller_max:
            return False
        self._denials_of_callers[caller] = reported + 1
        return True

    def _tally_of_others(self, context: RequestContext, kind: _Kind, now_ns: int) -> _Tally | None:
        """Beyond the bound on kinds, all decisions about this caller's other names are counted together."""
        others: _Kind = (kind[0], OTHERS, *kind[2:7], PatternType.ANY, kind[8])
        tally = self._tallies.get(others)
        if tally is None and len(self._tallies) < self._limits.kinds_max + OTHERS_MAX:
            tally = self._tallies[others] = _Tally(AuditedRequest.of(context), _NOT_LOOKED_UP, now_ns)
            tally.reported = self._limits.denials_per_window
        return tally

    def _rule(self, authorizer: Authorizer, context: RequestContext, kind: _Kind) -> DecidingRule:
        if self._lookups >= RULE_LOOKUPS_MAX or self._lookup_s > LOOKUP_BUDGET_S:
            return _NOT_LOOKED_UP
        self._lookups += 1
        started = self._timer()
        rule = deciding_rule(authorizer, context, kind[1], kind[2], kind[3], kind[6])
        self._lookup_s += self._timer() - started
        return rule

    def _add(self, event: AccessEvent) -> None:
        if len(self._events) >= self._limits.queue_max:
            self.dropped += event.decisions
            return
        self._events.append(event)
        if len(self._events) == 1:
            self._on_event()

    def take(self, now_ms: int, *, is_last: bool = False) -> list[AccessEvent]:
        """Return the events so far; at the end of a window, or at the last call, with those of the counted decisions.

        A wall clock that was set back ends the window too.
        """
        end_ms = self.window_end_ms
        if end_ms is not None and (is_last or not self._window_start_ms <= now_ms < end_ms):
            tallies, self._tallies = self._tallies, {}
            self._denials_of_callers.clear()
            self._lookups, self._lookup_s = 0, 0.0
            for kind, tally in tallies.items():
                if tally.count:
                    self._add(
                        _event(
                            kind,
                            tally.rule,
                            tally.request,
                            tally.first_ns,
                            tally.last_ns,
                            tally.count,
                            tally.references,
                        )
                    )
        events, self._events = self._events, []
        return events


def deciding_rule(
    authorizer: Authorizer,
    context: RequestContext,
    name: str,
    operation: AclOperation,
    resource_type: ResourceType,
    allowed: bool,
) -> DecidingRule:
    """Return the authorizer's explanation of its decision; Unknown if it has none or fails to explain."""
    explain = getattr(authorizer, "explain", None)
    if explain is None:
        return _NO_AUTHORIZER if getattr(authorizer, "is_absent", False) else _UNKNOWN
    try:
        decision = explain(context.principal, context.client_host, operation, resource_type, name)
    except Exception:
        return _UNKNOWN
    if decision.allowed is not allowed:
        return _UNKNOWN
    return DecidingRule(decision.rule, decision.acl_id, decision.acl_text)


def _event(
    kind: _Kind,
    rule: DecidingRule,
    request: AuditedRequest,
    first_ns: int,
    last_ns: int,
    count: int,
    references: int,
) -> AccessEvent:
    principal, name, operation, resource_type, api_key, host, allowed, pattern_type, forwarding_principal = kind
    return AccessEvent(
        first_ms=first_ns // _NS_PER_MS,
        last_ms=last_ns // _NS_PER_MS,
        decisions=count,
        references=references,
        allowed=allowed,
        principal=principal,
        host=host,
        api_key=api_key,
        request=request,
        forwarding_principal=forwarding_principal,
        operation=operation,
        resource_type=resource_type,
        pattern_type=pattern_type,
        resource_name=name,
        rule=rule,
    )
