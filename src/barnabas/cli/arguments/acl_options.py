"""Build ACLs and filters from the options of Kafka's tool.

The options are resources, principals, hosts, operations, and the shorthands for producers and consumers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from barnabas.access.acl_text import operation_name, parse_host, parse_principal
from barnabas.cli.arguments.cluster_options import Flag, UsageError
from barnabas.cli.arguments.parameter import Group, Parameter
from barnabas.cli.output.advice import nearest
from barnabas.common.acl import WILDCARD_PRINCIPAL, AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from barnabas.common.resource import CLUSTER_NAME, PatternType, ResourceType

__all__ = ["AclResources", "Resource", "bindings", "filters", "parse_hosts", "parse_operations", "parse_principals"]

ANY = "any"
Resource = tuple[ResourceType, str]
_OPERATIONS = {
    operation.name.replace("_", "").casefold(): operation for operation in AclOperation if operation > AclOperation.ANY
}
_PRODUCER = {
    ResourceType.TOPIC: (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE),
    ResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE),
}
_CONSUMER = {
    ResourceType.TOPIC: (AclOperation.READ, AclOperation.DESCRIBE),
    ResourceType.GROUP: (AclOperation.READ,),
}


@Parameter(name="*", group=Group("On what", sort_key=50))
@dataclass(kw_only=True)
class AclResources:
    """The resources of ACLs. The name ``*`` means every resource of the type."""

    topic: list[str] | None = None
    """A topic; * is all topics. May be repeated."""
    group: list[str] | None = None
    """A consumer group; * is all groups. May be repeated."""
    cluster: Flag = False
    """The cluster itself."""
    transactional_id: list[str] | None = None
    """A transactional id; * is all transactional ids. May be repeated."""
    delegation_token: list[str] | None = None
    """The id of a delegation token; * is all tokens. May be repeated."""
    user_principal: list[str] | None = None
    """A user whose tokens may be created and described, for example User:alice. May be repeated."""
    resource_pattern_type: Annotated[
        Literal["literal", "prefixed", "any", "match"] | None, Parameter(show_default=False)
    ] = None
    """literal: the exact name. prefixed: all names with this prefix. For list and remove also any: literal and prefixed
    ACLs with exactly this name; match: all ACLs that apply to a resource with this name. Default: match for list,
    literal for add and remove.
    """

    def named(self) -> list[Resource]:
        return [
            *((ResourceType.TOPIC, name) for name in self.topic or ()),
            *((ResourceType.GROUP, name) for name in self.group or ()),
            *([(ResourceType.CLUSTER, CLUSTER_NAME)] if self.cluster else []),
            *((ResourceType.TRANSACTIONAL_ID, name) for name in self.transactional_id or ()),
            *((ResourceType.DELEGATION_TOKEN, name) for name in self.delegation_token or ()),
            *((ResourceType.USER, name) for name in self.user_principal or ()),
        ]

    def pattern(self, default: PatternType) -> PatternType:
        return default if self.resource_pattern_type is None else PatternType[self.resource_pattern_type.upper()]


def parse_operations(texts: Iterable[str] | None, *, any_allowed: bool = False) -> list[AclOperation]:
    """Parse Kafka's names of operations in any letter case. Raise UsageError."""
    found: list[AclOperation] = []
    for text in texts or ():
        plain = text.replace("_", "").replace("-", "").casefold()
        if plain == ANY and any_allowed:
            found.append(AclOperation.ANY)
        elif plain in _OPERATIONS:
            found.append(_OPERATIONS[plain])
        else:
            near = nearest(plain, _OPERATIONS)
            names = ", ".join(map(operation_name, _OPERATIONS.values()))
            raise UsageError(
                f"--operation {text}: unknown operation; valid are {names}"
                + (f"; did you mean {near}?" if near else "")
            )
    return list(dict.fromkeys(found))


def parse_principals(texts: Iterable[str] | None) -> list[str]:
    """Parse ``Type:name``. ``User:*`` means all users. Raise UsageError."""
    found = []
    for text in texts or ():
        try:
            found.append(text if text == WILDCARD_PRINCIPAL else str(parse_principal(text)))
        except ValueError as error:
            raise UsageError(str(error)) from error
    return found


def parse_hosts(texts: Iterable[str] | None) -> list[str]:
    """Return addresses in the form that nodes compare; without an address, any host. Raise UsageError."""
    try:
        return [parse_host(text) for text in texts or ("*",)]
    except ValueError as error:
        raise UsageError(str(error)) from error


def bindings(
    resources: Sequence[Resource],
    pattern: PatternType,
    who: Sequence[tuple[AclPermissionType, Sequence[str], Sequence[str]]],
    operations: Sequence[AclOperation],
    *,
    producer: bool = False,
    consumer: bool = False,
    idempotent: bool = False,
) -> list[AclBinding]:
    """Return an ACL for every combination. ``who`` lists permissions with their principals and hosts."""
    if pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise UsageError(f"--resource-pattern-type {pattern.name.lower()}: an ACL is literal or prefixed")
    if not any(principals for _, principals, _ in who):
        raise UsageError("no principal given: use --allow-principal or --deny-principal, for example User:alice")
    needed = _needed(resources, operations, producer=producer, consumer=consumer, idempotent=idempotent)
    if not needed:
        raise UsageError(
            "no resource given: use --topic, --group, --cluster, --transactional-id or another resource option"
        )
    found = [
        AclBinding(kind, name, PatternType.LITERAL if kind == ResourceType.CLUSTER else pattern, principal, host,
                   operation, permission)
        for (kind, name), wanted in needed
        for permission, principals, hosts in who
        for principal in principals
        for host in hosts
        for operation in wanted
    ]  # fmt: skip
    return list(dict.fromkeys(found))


def filters(
    resources: Sequence[Resource],
    pattern: PatternType,
    principals: Sequence[tuple[AclPermissionType, str | None, str | None]],
    operations: Sequence[AclOperation],
) -> list[AclBindingFilter]:
    """Return filters that find the ACLs. An omitted part matches all."""
    everything: Sequence[tuple[ResourceType, str | None]] = resources or [(ResourceType.ANY, None)]
    found = [
        AclBindingFilter(
            kind,
            name,
            PatternType.LITERAL if kind == ResourceType.CLUSTER else pattern if name is not None else PatternType.ANY,
            principal,
            host,
            operation,
            permission,
        )
        for kind, name in everything
        for permission, principal, host in principals or [(AclPermissionType.ANY, None, None)]
        for operation in operations or [AclOperation.ANY]
    ]
    return list(dict.fromkeys(found))


def _needed(
    resources: Sequence[Resource],
    operations: Sequence[AclOperation],
    *,
    producer: bool,
    consumer: bool,
    idempotent: bool,
) -> list[tuple[Resource, Sequence[AclOperation]]]:
    if not producer and not consumer:
        if idempotent:
            raise UsageError("--idempotent needs --producer")
        return [(resource, operations or (AclOperation.ALL,)) for resource in resources]
    if operations:
        raise UsageError("--producer and --consumer imply the operations: omit --operation")
    kinds = {kind for kind, _ in resources}
    if ResourceType.TOPIC not in kinds:
        raise UsageError("--producer and --consumer need --topic")
    if consumer and ResourceType.GROUP not in kinds:
        raise UsageError("--consumer needs --group")
    known = ({*_PRODUCER} if producer else set()) | ({*_CONSUMER} if consumer else set())
    strange = sorted(kind.name.lower().replace("_", "-") for kind in kinds - known)
    if strange:
        raise UsageError(f"--{strange[0]}: the producer and consumer ACLs don't apply to this resource; omit it")
    needed: list[tuple[Resource, Sequence[AclOperation]]] = []
    for resource in resources:
        wanted = (
            *(_PRODUCER.get(resource[0], ()) if producer else ()),
            *(_CONSUMER.get(resource[0], ()) if consumer else ()),
        )
        needed.append((resource, tuple(dict.fromkeys(wanted))))
    if idempotent:
        needed.append(((ResourceType.CLUSTER, CLUSTER_NAME), (AclOperation.IDEMPOTENT_WRITE,)))
    return needed
