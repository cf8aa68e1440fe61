"""Warns of rules that Kafka accepts but that never apply, or probably not as intended.

Kafka stores a rule without checking whether its operation fits the resource type or its host is an address,
and barnabas does the same, so that Kafka's tools work. The author of the rule still receives a warning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import WILDCARD_HOST, WILDCARD_NAME, WILDCARD_PRINCIPAL, AclOperation
from barnabas.common.host_address import host_address_bytes, host_address_text
from barnabas.common.resource import PatternType, ResourceType
from barnabas.security.authorizer.authorized_operations import supported_operations

if TYPE_CHECKING:
    from barnabas.common.acl import AclBinding

__all__ = ["acl_warnings"]


def acl_warnings(binding: AclBinding) -> list[str]:
    """Yield a sentence for each property of the rule that its author probably did not intend; usually none."""
    return [warning for warning in (_of_operation(binding), _of_host(binding), _of_wildcard(binding)) if warning]


def _of_operation(binding: AclBinding) -> str | None:
    operations = supported_operations(binding.resource_type)
    if binding.operation == AclOperation.ALL or binding.operation in operations:
        return None
    fitting = ", ".join(operation.name for operation in operations)
    type_name = ResourceType(binding.resource_type).name
    return f"no request needs {AclOperation(binding.operation).name} on a {type_name}; its operations are {fitting}"


def _of_host(binding: AclBinding) -> str | None:
    if binding.host == WILDCARD_HOST:
        return None
    host = ascii(binding.host)
    try:
        text = host_address_text(host_address_bytes(binding.host))
    except ValueError:
        return f"{host} is not an address, so the rule never holds: names and networks are not resolved"
    if text != binding.host:
        return f"{host} never holds: hosts are compared as text, and this one is written {text}"
    return None


def _of_wildcard(binding: AclBinding) -> str | None:
    if binding.name == WILDCARD_NAME and binding.pattern_type == PatternType.PREFIXED:
        return "the prefix '*' means names that begin with an asterisk; every resource is the LITERAL '*'"
    if binding.principal.endswith(":*") and binding.principal != WILDCARD_PRINCIPAL:
        return f"{binding.principal!a} is one principal called '*'; only {WILDCARD_PRINCIPAL} means all principals"
    return None
