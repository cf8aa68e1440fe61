"""Convert a plan to JSON. docs/tutorials/plan-and-apply.md documents the fields. They may be added, never renamed.

Enumerations have Kafka's names. ``*`` as a principal means all principals without their own ACLs on the names. As a
host, it means every host except those in ``hosts_except``. The document never contains passwords.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from barnabas.access.any_resource import AnyResourceChange
from barnabas.access.cluster_state import HIDDEN, TOPIC, ConfigTarget, is_secret
from barnabas.access.explanation_json import rule_json
from barnabas.access.name_classes import NameClass
from barnabas.access.plan import (
    Change,
    ConfigChange,
    Deletion,
    PartitionsChange,
    Plan,
    QuotaChange,
    Step,
    TopicCreation,
    verdict,
)
from barnabas.access.proof import AccessChange, Cause, Proof
from barnabas.access.rule_set import Rule
from barnabas.common.acl import AclBinding, AclOperation
from barnabas.common.resource import PatternType, ResourceType

__all__ = ["plan_json", "proof_json"]


def plan_json(plan: Plan, *, forbid_new_access: bool = False) -> dict[str, object]:
    """Return the plan without opened and closed accesses, which may be many: ``proof_json`` returns ``access``."""
    return {
        "verdict": verdict(plan, forbid_new_access=forbid_new_access).value,
        "opens_access": plan.proof.opens,
        "closes_access": plan.proof.closes,
        "steps": [_step(step) for step in plan.steps],
        "withheld": [_step(step) for step in plan.withheld],
        "impossible": [{"what": change.what, "why": change.why} for change in plan.impossible],
        "notes": list(plan.notes),
        "access": None,
        "interrupted_for": [_names(gap) for gap in plan.gaps],
    }


def proof_json(proof: Proof) -> dict[str, object]:
    return {
        "changes": [_access_change(change) for change in proof.changes],
        "any_resource": [_any_resource(change) for change in proof.any_resource],
    }


def _step(step: Step) -> dict[str, object]:
    return {"kind": step.kind.value, "changes": [_change(change) for change in step.changes]}


def _change(change: Change) -> dict[str, object]:
    if isinstance(change, AclBinding):
        rule = rule_json(Rule(change))
        del rule["id"]
        return rule
    if isinstance(change, TopicCreation):
        topic = change.topic
        return {
            "topic": change.name,
            "partitions": topic.partitions,
            "replication_factor": topic.replication_factor,
            "configs": dict(topic.configs),
        }
    if isinstance(change, PartitionsChange):
        return {"topic": change.name, "before": change.before, "after": change.after}
    if isinstance(change, ConfigChange):
        shown = ((key, _shown(change.target, key, a), _shown(change.target, key, b)) for key, a, b in change.values)
        return {"resource": _target(change.target), "values": _values(shown)}
    if isinstance(change, QuotaChange):
        return {"entity": dict(change.entity), "values": _values(change.values)}
    if isinstance(change, Deletion):
        return {change.what: change.name}
    return {
        "user": change.credential.user,
        "mechanism": change.credential.mechanism.mechanism_name,
        "iterations": change.iterations,
        "new": change.is_new,
    }


def _values(values: Iterable[tuple[str, object, object]]) -> list[dict[str, object]]:
    return [{"key": key, "before": before, "after": after} for key, before, after in values]


def _shown(target: ConfigTarget, key: str, value: str | None) -> str | None:
    return HIDDEN if value is not None and is_secret(target, key) else value


def _target(target: ConfigTarget) -> str:
    return f"topic:{target.name}" if target.type == TOPIC else str(target)


def _access_change(change: AccessChange) -> dict[str, object]:
    return {
        "resource_type": _word(ResourceType, change.resource_type),
        "principal": change.principal,
        "hosts": list(change.hosts),
        "hosts_except": list(change.hosts_except),
        "before": _operations(change.before),
        "after": _operations(change.after),
        "opened": _operations(change.opened),
        "closed": _operations(change.closed),
        "names": [
            {
                **_names(name_class.names),
                "opened_by": [_cause(cause) for cause in name_class.opened_by],
                "closed_by": [_cause(cause) for cause in name_class.closed_by],
            }
            for name_class in change.classes
        ],
    }


def _names(names: NameClass) -> dict[str, object]:
    kind = "rest" if names.is_rest else "name" if names.pattern_type == PatternType.LITERAL else "prefix"
    return {"class": kind, "name": names.name, "example": names.example}


def _cause(cause: Cause) -> dict[str, object]:
    if cause.binding is None:
        return {"kind": cause.kind.value}
    rule = rule_json(Rule(cause.binding))
    del rule["id"]
    return {"kind": cause.kind.value, "rule": rule}


def _any_resource(change: AnyResourceChange) -> dict[str, object]:
    return {
        "resource_type": _word(ResourceType, change.resource_type),
        "operation": _word(AclOperation, change.operation),
        "principal": change.principal,
        "hosts": list(change.hosts),
        "hosts_except": list(change.hosts_except),
        "allowed": change.is_allowed,
    }


def _operations(codes: Iterable[int]) -> list[str]:
    return [_word(AclOperation, code) for code in codes]


def _word(known: Any, code: int) -> str:
    return str(known(code).name) if code in known._value2member_map_ else f"UNKNOWN({code})"
