"""Convert a history of access to JSON. Fields may be added, never renamed. Enumerations have Kafka's names."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.access.explanation_json import enum_name, rule_json
from barnabas.access.history import AccessStep, ChangedAccess
from barnabas.common.acl import AclOperation
from barnabas.common.resource import PatternType, ResourceType

__all__ = ["history_json"]


def history_json(steps: Iterable[AccessStep]) -> list[dict[str, object]]:
    return [
        {
            "offsets": list(step.offsets),
            "time_ms": step.time_ms,
            "added": [rule_json(rule) for rule in step.added],
            "removed": [rule_json(rule) for rule in step.removed],
            "access": [_changed(change) for change in step.changes],
        }
        for step in steps
    ]


def _changed(change: ChangedAccess) -> dict[str, object]:
    return {
        "principal": change.principal,
        "hosts": list(change.hosts),
        "hosts_except": list(change.hosts_except),
        "resource_type": enum_name(ResourceType, change.resource_type),
        "name": change.name,
        "pattern_type": enum_name(PatternType, change.pattern_type),
        "except": [{"name": name, "pattern_type": enum_name(PatternType, kind)} for name, kind in change.names_except],
        "opened": [enum_name(AclOperation, code) for code in change.opened],
        "closed": [enum_name(AclOperation, code) for code in change.closed],
    }
