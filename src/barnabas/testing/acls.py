"""Short forms of ACLs: ``allow("alice", "read", "describe", topic="orders")``."""

from __future__ import annotations

from barnabas.common.acl import WILDCARD_HOST, AclBinding, AclOperation, AclPermissionType
from barnabas.common.resource import CLUSTER_NAME, PatternType, ResourceType
from barnabas.testing.errors import NotPossible

__all__ = ["allow", "deny"]

_OPERATIONS = {
    operation.name.lower(): operation
    for operation in AclOperation
    if operation not in (AclOperation.UNKNOWN, AclOperation.ANY)
}


def allow(
    user: str,
    *operations: str,
    topic: str | None = None,
    group: str | None = None,
    transactional_id: str | None = None,
    cluster: bool = False,
    host: str = WILDCARD_HOST,
) -> list[AclBinding]:
    """Return rules that allow a user the operations, as for ``Node(acls=...)``.

    ``user`` is ``alice``, or a principal such as ``User:CN=alice``. A name of a topic, group or transactional id that
    ends with ``*`` is a prefix; ``*`` alone means all. Raise NotPossible for an unknown operation, or without a
    resource.
    """
    resources = _resources(topic, group, transactional_id, cluster=cluster)
    return _bindings(AclPermissionType.ALLOW, user, operations, resources, host)


def deny(
    user: str,
    *operations: str,
    topic: str | None = None,
    group: str | None = None,
    transactional_id: str | None = None,
    cluster: bool = False,
    host: str = WILDCARD_HOST,
) -> list[AclBinding]:
    """Return rules that deny a user the operations; see ``allow``. A denial takes precedence over every other rule."""
    resources = _resources(topic, group, transactional_id, cluster=cluster)
    return _bindings(AclPermissionType.DENY, user, operations, resources, host)


def _resources(
    topic: str | None, group: str | None, transactional_id: str | None, *, cluster: bool
) -> list[tuple[ResourceType, str]]:
    named = (
        (ResourceType.TOPIC, topic),
        (ResourceType.GROUP, group),
        (ResourceType.TRANSACTIONAL_ID, transactional_id),
        (ResourceType.CLUSTER, CLUSTER_NAME if cluster else None),
    )
    found = [(kind, name) for kind, name in named if name is not None]
    if not found:
        raise NotPossible("an ACL needs a resource: topic=, group=, transactional_id= or cluster=True")
    return found


def _bindings(
    permission: AclPermissionType,
    user: str,
    operations: tuple[str, ...],
    resources: list[tuple[ResourceType, str]],
    host: str,
) -> list[AclBinding]:
    if not operations:
        raise NotPossible(f"an ACL needs an operation: one of {', '.join(_OPERATIONS)}")
    principal = user if ":" in user else f"User:{user}"
    return [
        AclBinding(kind, *_pattern(kind, name), principal, host, _operation(operation), permission)
        for kind, name in resources
        for operation in operations
    ]


def _pattern(kind: ResourceType, name: str) -> tuple[str, PatternType]:
    if kind != ResourceType.CLUSTER and name.endswith("*") and name != "*":
        return name[:-1], PatternType.PREFIXED
    return name, PatternType.LITERAL


def _operation(name: str) -> AclOperation:
    found = _OPERATIONS.get(name.lower().replace("-", "_"))
    if found is None:
        raise NotPossible(f"operation {name!r} does not exist; the operations are {', '.join(_OPERATIONS)}")
    return found
