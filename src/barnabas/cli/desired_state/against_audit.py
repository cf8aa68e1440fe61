"""``barnabas plan --against-audit``: which requests of an audit a plan would deny or newly allow, before it is made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from barnabas.access.acl_text import Resource, operation_name
from barnabas.access.plan import Plan
from barnabas.access.replay import AuditWindow, ObservedRequest, Replay, ReplayedRequest, replay
from barnabas.cli.arguments.cluster_options import UsageError
from barnabas.cli.arguments.moment import time_text
from barnabas.cli.output.answer import Answer
from barnabas.cli.output.table import Sheet
from barnabas.common.acl import AclOperation
from barnabas.common.resource import ResourceType
from barnabas.pipelines.sources.audit_files import local_decisions
from barnabas.pipelines.sources.audit_lines import Unreadable

__all__ = ["add_replay"]

_SHOWN_MAX = 50


class _Unread:
    """Counts what the audit lacks."""

    def __init__(self) -> None:
        self.lines = 0
        self.reason = ""
        self.dropped = 0


def add_replay(answer: Answer, plan: Plan, path: str) -> None:
    """Replay the audit at ``path``, and add what the plan changes for it. Raises UsageError if it can't be read."""
    unread = _Unread()
    try:
        found = replay(_observed(path, unread), plan.before, plan.after)
    except OSError as error:
        raise UsageError(f"--against-audit: can't read {error.filename or path}: {error.strerror or error}") from error
    answer.document["against_audit"] = _document(found, unread)
    answer.sheets = [*answer.sheets, *_sheets(found)]
    answer.notes = [*answer.notes, *_notes(found.window, unread, path)]


def _observed(path: str, unread: _Unread) -> Iterator[ObservedRequest]:
    for row in local_decisions(path):
        if isinstance(row, Unreadable):
            unread.lines += 1
            unread.reason = unread.reason or str(row)
        elif row.kind != "decision" or row.principal is None or row.operation is None or row.resource_type is None:
            unread.dropped += row.dropped or 0
        else:
            yield ObservedRequest(
                row.principal,
                row.host or "",
                row.operation,
                row.resource_type,
                row.pattern_type or "LITERAL",
                row.resource_name or "",
                bool(row.allowed),
                row.decisions,
                row.first_ms,
                row.last_ms,
            )


def _sheets(found: Replay) -> list[Sheet]:
    return [
        _sheet("Requests of the audit that the plan would deny", found.denied),
        _sheet("Requests of the audit that were denied, and that the plan would allow", found.allowed),
    ]


def _sheet(title: str, requests: Sequence[ReplayedRequest]) -> Sheet:
    sheet = Sheet(title, ("principal", "host", "resource", "operation", "decisions", "last"), keep=4)
    for request in requests[:_SHOWN_MAX]:
        resource = Resource(ResourceType(request.resource_type), request.resource_name)
        last = "" if request.last_ms is None else time_text(request.last_ms)
        sheet.add(
            request.principal,
            request.host,
            str(resource),
            operation_name(request.operation),
            str(request.decisions),
            last,
        )
    if not requests:
        sheet.caption = "none"
    elif len(requests) > _SHOWN_MAX:
        sheet.caption = f"and {len(requests) - _SHOWN_MAX} more (--output json lists all)"
    return sheet


def _notes(window: AuditWindow, unread: _Unread, path: str) -> Iterator[str]:
    if not window.decisions:
        yield f"{path} has no decisions, so nothing was replayed"
    else:
        times = "without times"
        if window.first_ms is not None and window.last_ms is not None:
            times = f"from {time_text(window.first_ms)} to {time_text(window.last_ms)}"
        requests = _number(window.requests, "distinct request")
        yield f"the audit has {_number(window.decisions, 'decision')} about {requests}, {times}"
    if window.not_replayed:
        count = _number(window.not_replayed, "decision")
        yield f"not replayed, because they are about any resource of a type, or about listings: {count}"
    if window.otherwise:
        yield (
            "left out, because the current rules decide otherwise than the audit (rules, super users or the default "
            f"were others then: --super-users, --allow-everyone): {_number(window.otherwise, 'decision')}"
        )
    if unread.lines:
        yield f"the audit has {_number(unread.lines, 'line')} that can't be read; the first because: {unread.reason}"
    if unread.dropped:
        yield f"the audit itself lacks what was dropped: {_number(unread.dropped, 'decision')}"


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _document(found: Replay, unread: _Unread) -> dict[str, Any]:
    window = found.window
    return {
        "denied": [_request(request) for request in found.denied],
        "allowed": [_request(request) for request in found.allowed],
        "first_ms": window.first_ms,
        "last_ms": window.last_ms,
        "decisions": window.decisions,
        "requests": window.requests,
        "not_replayed": window.not_replayed,
        "differing": window.otherwise,
        "unreadable": unread.lines,
        "dropped": unread.dropped,
    }


def _request(request: ReplayedRequest) -> dict[str, Any]:
    return {
        "principal": request.principal,
        "host": request.host,
        "operation": AclOperation(request.operation).name,
        "resource_type": ResourceType(request.resource_type).name,
        "resource_name": request.resource_name,
        "decisions": request.decisions,
        "last_ms": request.last_ms,
    }
