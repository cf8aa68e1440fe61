"""Parse and format resources, operations, principals and hosts.

Names are those of Kafka's tools: ``Topic:orders``, ``DescribeConfigs``, ``User:alice``. Parsing ignores case, dashes
and underscores. The functions raise ``ValueError`` for an invalid text, with the valid values in the message.
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from typing import NamedTuple

from barnabas.common.acl import WILDCARD_HOST, AclOperation, AclPermissionType
from barnabas.common.host_address import host_address_bytes, host_address_text
from barnabas.common.resource import CLUSTER_NAME, PatternType, ResourceType
from barnabas.security.principal import Principal

__all__ = [
    "Resource",
    "operation_name",
    "parse_host",
    "parse_operation",
    "parse_principal",
    "parse_resource",
    "parse_super_users",
    "pattern_text",
    "permission_name",
    "resource_type_name",
]


class Resource(NamedTuple):
    """A resource, by its literal name."""

    type: ResourceType
    name: str

    def __str__(self) -> str:
        return f"{resource_type_name(self.type)}:{self.name}"


def parse_resource(text: str) -> Resource:
    """Parse ``Type:name``; a name may contain colons. ``Cluster`` needs no name: only one cluster resource exists."""
    word, _, name = text.partition(":")
    resource_type = _TYPES.get(_plain(word))
    if resource_type is None:
        raise ValueError(
            f"{text!r}: {word!r} is not a resource type{_nearest(word, _TYPES)}; "
            f"valid are {', '.join(map(resource_type_name, _TYPES.values()))}"
        )
    if resource_type is ResourceType.CLUSTER:
        if name not in ("", CLUSTER_NAME):
            raise ValueError(f"{text!r}: the only Cluster resource is Cluster:{CLUSTER_NAME}, or Cluster for short")
        return Resource(resource_type, CLUSTER_NAME)
    if not name:
        raise ValueError(f"{text!r} has no resource name; write {resource_type_name(resource_type)}:<name>")
    return Resource(resource_type, name)


def parse_operation(text: str) -> AclOperation:
    """Parse an operation that a client can request. ``All`` is not such an operation."""
    operation = _OPERATIONS.get(_plain(text))
    if operation is None:
        hint = " (choose one operation; 'access who' shows all)" if _plain(text) in ("all", "any") else ""
        raise ValueError(
            f"{text!r} is not an operation{hint or _nearest(text, _OPERATIONS)}; "
            f"valid are {', '.join(map(operation_name, _OPERATIONS.values()))}"
        )
    return operation


def parse_principal(text: str) -> Principal:
    """Parse ``Type:name``, split at the first colon."""
    kind, colon, name = text.partition(":")
    if not colon or not kind or not name:
        raise ValueError(f"{text!r} is not a principal; write Type:name, as in User:alice")
    if name == "*":
        raise ValueError(f"{text!r} is not the principal of a client: * stands for all users in ACLs only")
    return Principal(kind, name)


def parse_super_users(text: str) -> frozenset[str]:
    """Parse the value of ``super.users``: principals separated by semicolons."""
    return frozenset(str(parse_principal(part.strip())) for part in text.split(";") if part.strip())


def parse_host(text: str) -> str:
    """Return an IP address in the form that Kafka compares with ACLs. ``*`` is an address that no ACL names."""
    if text == WILDCARD_HOST:
        return text
    try:
        return host_address_text(host_address_bytes(text))
    except ValueError:
        raise ValueError(f"{text!r} is not an IP address; ACLs match the IP addresses of clients") from None


@cache
def resource_type_name(code: int) -> str:
    return _camel(ResourceType(code).name) if code in ResourceType._value2member_map_ else f"Type{code}"


@cache
def operation_name(code: int) -> str:
    return _camel(AclOperation(code).name) if code in AclOperation._value2member_map_ else f"Operation{code}"


@cache
def permission_name(code: int) -> str:
    return AclPermissionType(code).name if code in AclPermissionType._value2member_map_ else f"PERMISSION{code}"


def pattern_text(resource_type: int, name: str, pattern_type: int) -> str:
    """Format a pattern: ``Topic:orders``, ``Topic:pay* (prefix)``, ``Topic:* (all)``."""
    head = f"{resource_type_name(resource_type)}:{name}"
    if pattern_type == PatternType.PREFIXED:
        return f"{head}* (prefix)"
    return f"{head} (all)" if name == "*" else head


def _camel(name: str) -> str:
    return "".join(part.title() for part in name.split("_"))


def _plain(text: str) -> str:
    return text.strip().replace("_", "").replace("-", "").casefold()


def _nearest(text: str, known: dict[str, ResourceType] | dict[str, AclOperation]) -> str:
    close = get_close_matches(_plain(text), list(known), n=1, cutoff=0.6)
    return f" (did you mean {_camel(known[close[0]].name)}?)" if close else ""


_TYPES = {_plain(type_.name): type_ for type_ in ResourceType if type_ > ResourceType.ANY}
_OPERATIONS = {_plain(operation.name): operation for operation in AclOperation if operation > AclOperation.ALL}
