"""The formats of an audited decision: a line of the log, and JSON (``docs/reference/access-audit.md``).

Names and client ids that clients chose can't end a line, a field or a string: see ``common.printable``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from barnabas.common.printable import quoted
from barnabas.protocol.api_keys import API_TABLE
from barnabas.security.authorizer.denial import RESOURCE_TYPE_TEXTS

if TYPE_CHECKING:
    from barnabas.security.authorizer.audit import AccessEvent

__all__ = ["SCHEMA_VERSION", "decision_fields", "dropped_fields", "log_line", "to_json"]

SCHEMA_VERSION = 1


def log_line(event: AccessEvent) -> str:
    """Return Kafka's line, followed by the fields that Kafka omits."""
    request = event.request
    resource = f"{RESOURCE_TYPE_TEXTS[event.resource_type]}:{event.pattern_type.name}:{quoted(event.resource_name)}"
    line = (
        f"Principal = {quoted(str(event.principal))} is {'Allowed' if event.allowed else 'Denied'} "
        f"operation = {event.operation.name} from host = {quoted(event.host)} on resource = {resource} "
        f"for request = {API_TABLE[event.api_key].name} with resourceRefCount = {event.references} "
        f"based on rule {_rule_text(event)}; listener = {quoted(request.listener)}, "
        f"client = {quoted(request.client_id or '')}, "
        f"request id = {quoted(request.connection_id)}/{request.correlation_id}"
    )
    if event.forwarding_principal is not None:
        line += f", forwarded by = {quoted(str(event.forwarding_principal))}"
    if event.decisions > 1:
        line += f", {event.decisions} times in {event.last_ms - event.first_ms} ms"
    return line


def _rule_text(event: AccessEvent) -> str:
    rule = event.rule
    return rule.kind if rule.id is None else f"{rule.kind}(id={rule.id}, acl={quoted(rule.text or '')})"


def decision_fields(event: AccessEvent, node_id: int) -> dict[str, object]:
    request, forwarding = event.request, event.forwarding_principal
    return {
        "version": SCHEMA_VERSION,
        "type": "decision",
        "node_id": node_id,
        "first_ms": event.first_ms,
        "last_ms": event.last_ms,
        "decisions": event.decisions,
        "references": event.references,
        "allowed": event.allowed,
        "principal": str(event.principal),
        "host": event.host,
        "listener": request.listener,
        "api": API_TABLE[event.api_key].name,
        "api_version": request.api_version,
        "client_id": request.client_id,
        "connection_id": request.connection_id,
        "correlation_id": request.correlation_id,
        "forwarded_by": None if forwarding is None else str(forwarding),
        "operation": event.operation.name,
        "resource_type": event.resource_type.name,
        "pattern_type": event.pattern_type.name,
        "resource_name": event.resource_name,
        "rule": event.rule.kind,
        "rule_id": event.rule.id,
        "rule_text": event.rule.text,
    }


def dropped_fields(node_id: int, now_ms: int, dropped: int, total: int) -> dict[str, object]:
    return {
        "version": SCHEMA_VERSION,
        "type": "dropped",
        "node_id": node_id,
        "time_ms": now_ms,
        "dropped": dropped,
        "dropped_total": total,
    }


def to_json(fields: dict[str, object]) -> bytes:
    """Return ASCII on one line: names contain no character that a terminal or a line reader would act on."""
    return json.dumps(fields, separators=(",", ":")).replace("\x7f", "\\u007f").encode("ascii")
