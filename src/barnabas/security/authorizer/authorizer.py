"""The port through which every access decision is asked for, and the authorizer that allows everything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.common.acl import AclOperation
    from barnabas.common.resource import ResourceType
    from barnabas.security.request_context import RequestContext

__all__ = ["AllowAllAuthorizer", "Authorizer"]


class Authorizer(Protocol):
    """Implementations must answer from memory: they are asked on the request path."""

    def authorize(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource_type: ResourceType,
        resource_name: str,
        *,
        log_if_denied: bool = True,
    ) -> bool:
        """Whether ``context.principal`` at ``context.client_host`` may do this.

        ``log_if_denied`` is False where the caller asks only to filter a listing (acl-matrix: logging flags).
        """
        ...

    def authorize_by_resource_type(
        self, context: RequestContext, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Whether at least one resource of the type is allowed."""
        ...

    def filter_authorized(
        self, context: RequestContext, operation: AclOperation, resource_type: ResourceType, names: Sequence[str]
    ) -> Sequence[str]:
        """The allowed ones of many names, in their order; ``names`` itself when all are."""
        ...

    def authorized_operations(self, context: RequestContext, resource_type: ResourceType, resource_name: str) -> int:
        """The operations allowed on the resource, a bit for each (KIP-430)."""
        ...

    def authorized_operations_many(
        self, context: RequestContext, resource_type: ResourceType, names: Sequence[str]
    ) -> Sequence[int]:
        """``authorized_operations`` for each name."""
        ...


_SUPPORTED_OPERATIONS: dict[int, tuple[int, ...]] = {
    2: (3, 4, 5, 6, 7, 8, 10, 11),
    3: (3, 6, 8, 10, 11),
    4: (5, 7, 8, 9, 10, 11, 12),
    5: (4, 8, 15),
    6: (8,),
    7: (13, 14),
}
_ALL_OPERATIONS = {type_: sum(1 << code for code in codes) for type_, codes in _SUPPORTED_OPERATIONS.items()}


class AllowAllAuthorizer:
    """No authorizer is configured: everything is allowed, as Kafka does without one."""

    def authorize(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource_type: ResourceType,
        resource_name: str,
        *,
        log_if_denied: bool = True,
    ) -> bool:
        return True

    def authorize_by_resource_type(
        self, context: RequestContext, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        return True

    def filter_authorized(
        self, context: RequestContext, operation: AclOperation, resource_type: ResourceType, names: Sequence[str]
    ) -> Sequence[str]:
        return names

    def authorized_operations_many(
        self, context: RequestContext, resource_type: ResourceType, names: Sequence[str]
    ) -> Sequence[int]:
        return [_ALL_OPERATIONS.get(resource_type, 0)] * len(names)

    def authorized_operations(self, context: RequestContext, resource_type: ResourceType, resource_name: str) -> int:
        return _ALL_OPERATIONS.get(resource_type, 0)
