"""Export a cluster as a desired-state file. A plan with the unchanged file has no steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from barnabas.access.acl_text import resource_type_name
from barnabas.access.cluster_state import ClusterState
from barnabas.access.desired_state_notation import ResourcePattern, operation_text, resource_pattern_text
from barnabas.common.acl import WILDCARD_HOST, AclBinding, AclOperation, AclPermissionType
from barnabas.common.resource import PatternType, ResourceType

__all__ = ["export_cluster"]


def export_cluster(state: ClusterState) -> tuple[dict[str, object], list[str]]:
    """Return the document, and notes about omitted parts. Its scope has every resource of the exported kinds."""
    notes: list[str] = []
    known = [binding for binding in state.acls if _is_known(binding)]
    if len(known) < len(state.acls):
        notes.append(f"{len(state.acls) - len(known)} ACLs have codes of a newer Kafka and are omitted")
    document: dict[str, Any] = {"version": 1, "scope": _scope(state, known)}
    if state.topics:
        document["topics"] = {name: _topic(topic) for name, topic in sorted(state.topics.items())}
    configs = {
        str(target): {key: value for key, value in sorted(values.items()) if value is not None}
        for target, values in sorted(state.configs.items())
    }
    hidden = sum(value is None for values in state.configs.values() for value in values.values())
    if hidden:
        notes.append(f"{hidden} secret settings are omitted: the cluster hides them; add them by hand")
    if configs:
        document["configs"] = configs
    if known:
        document["acls"] = _acls(known)
    users: dict[str, dict[str, object]] = {}
    for key, iterations in sorted(state.users.items()):
        users.setdefault(key.user, {})[key.mechanism.mechanism_name] = {"iterations": iterations}
    if users:
        document["users"] = users
    if state.quotas:
        document["quotas"] = [
            {"entity": dict(entity), "limits": {key: _number(value) for key, value in sorted(limits.items())}}
            for entity, limits in sorted(state.quotas.items(), key=repr)
        ]
    return document, notes


def _scope(state: ClusterState, acls: list[AclBinding]) -> dict[str, object]:
    scope: dict[str, object] = {}
    if state.topics:
        internal = sorted(name for name in state.topics if name.startswith("__"))
        scope["topics"] = ["*", *internal]
    if state.configs:
        scope["configs"] = sorted(map(str, state.configs))
    if acls:
        scope["acls"] = [{"principal": "*"}]
    if state.users:
        scope["users"] = ["*"]
    if state.quotas:
        kinds = dict.fromkeys(tuple(kind for kind, _ in entity) for entity in sorted(state.quotas, key=repr))
        scope["quotas"] = [dict.fromkeys(entity_types, "*") for entity_types in kinds]
    return scope


def _topic(topic: Any) -> dict[str, Any]:
    result: dict[str, Any] = {"partitions": topic.partitions, "replication-factor": topic.replication_factor}
    result = {key: value for key, value in result.items() if value is not None}
    configs = {key: value for key, value in sorted(topic.configs.items()) if value is not None}
    return {**result, "configs": configs} if configs else result


def _acls(bindings: Iterable[AclBinding]) -> list[dict[str, object]]:
    """Return an entry for each principal and set of resources with the same operations."""
    operations: dict[tuple[str, int, str, tuple[int, str, int]], list[int]] = {}
    for binding in sorted(bindings):
        resource = (binding.resource_type, binding.name, binding.pattern_type)
        key = (binding.principal, binding.permission, binding.host, resource)
        operations.setdefault(key, []).append(binding.operation)
    resources: dict[tuple[str, int, str, tuple[int, ...]], list[tuple[int, str, int]]] = {}
    for (principal, permission, host, resource), codes in operations.items():
        resources.setdefault((principal, permission, host, tuple(sorted(codes))), []).append(resource)
    return [
        _entry(principal, permission, host, codes, sorted(found))
        for (principal, permission, host, codes), found in sorted(resources.items())
    ]


def _entry(
    principal: str, permission: int, host: str, codes: tuple[int, ...], resources: list[tuple[int, str, int]]
) -> dict[str, object]:
    entry: dict[str, object] = {"principal": principal}
    if permission == AclPermissionType.DENY:
        entry["permission"] = "deny"
    if host != WILDCARD_HOST:
        entry["host"] = host
    entry["operations"] = [operation_text(code) for code in codes]
    entry["resources"] = [_resource(ResourcePattern(*resource)) for resource in resources]
    return entry


def _resource(pattern: ResourcePattern) -> str | dict[str, str]:
    text = resource_pattern_text(pattern)
    if text is not None:
        return text
    kind = "prefixed" if pattern.pattern_type == PatternType.PREFIXED else "literal"
    return {"type": resource_type_name(pattern.resource_type).casefold(), "name": pattern.name, "pattern": kind}


def _is_known(binding: AclBinding) -> bool:
    return (
        binding.resource_type in ResourceType._value2member_map_
        and binding.resource_type > ResourceType.ANY
        and binding.pattern_type in (PatternType.LITERAL, PatternType.PREFIXED)
        and binding.operation in AclOperation._value2member_map_
        and binding.operation > AclOperation.ANY
        and binding.permission in (AclPermissionType.DENY, AclPermissionType.ALLOW)
        and ":" in binding.principal
    )


def _number(value: float) -> int | float:
    return int(value) if value == int(value) else value
