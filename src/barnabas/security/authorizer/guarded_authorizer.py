"""Wraps a custom authorizer: its exceptions deny the request, are logged, and are not passed on.

The built-in authorizers need no guard: an exception there is a bug, and the node must not continue as if it were not.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, TypeVar

from barnabas.common.printable import printable
from barnabas.security.authorizer.authorizer import ACL_COUNT_UNKNOWN, AclAuthorizer, Authorizer, AuthorizerNotReady

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from barnabas.common.acl import AclBinding, AclBindingFilter, AclOperation
    from barnabas.common.resource import ResourceType
    from barnabas.common.uuid import Uuid
    from barnabas.security.principal import Principal
    from barnabas.security.request_context import RequestContext

__all__ = ["guarded"]

log = logging.getLogger(__name__)

T = TypeVar("T")


def guarded(authorizer: Authorizer) -> Authorizer:
    """Return the guarded authorizer; the guard is an AclAuthorizer if the authorizer is one."""
    return (
        _GuardedAclAuthorizer(authorizer) if isinstance(authorizer, AclAuthorizer) else _GuardedAuthorizer(authorizer)
    )


class _GuardedAuthorizer(Authorizer):
    def __init__(self, authorizer: Authorizer) -> None:
        self.guarded: Any = authorizer

    def _ask(self, question: Callable[..., T], denial: T, context: RequestContext, *rest: Any, **flags: bool) -> T:
        try:
            return question(context, *rest, **flags)
        except AuthorizerNotReady:
            raise
        except Exception:
            log.exception(
                "authorizer %s failed; the access that %s requested with %s is denied",
                type(self.guarded).__qualname__,
                printable(str(context.principal)),
                context.api_key.name,
            )
            return denial

    def configure(self, configs: Mapping[str, str]) -> None:
        self.guarded.configure(configs)

    def is_ready_for(self, principal: Principal) -> bool:
        try:
            return bool(self.guarded.is_ready_for(principal))
        except Exception:
            log.exception("authorizer %s failed to report whether it is ready", type(self.guarded).__qualname__)
            return False

    def authorize(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource_type: ResourceType,
        resource_name: str,
        *,
        log_if_allowed: bool = True,
        log_if_denied: bool = True,
    ) -> bool:
        return (
            self._ask(
                self.guarded.authorize,
                False,
                context,
                operation,
                resource_type,
                resource_name,
                log_if_allowed=log_if_allowed,
                log_if_denied=log_if_denied,
            )
            is True
        )

    def authorize_by_resource_type(
        self, context: RequestContext, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        return self._ask(self.guarded.authorize_by_resource_type, False, context, operation, resource_type) is True

    def filter_authorized(
        self, context: RequestContext, operation: AclOperation, resource_type: ResourceType, names: Sequence[str]
    ) -> Sequence[str]:
        nothing: Sequence[str] = []
        return self._ask(self.guarded.filter_authorized, nothing, context, operation, resource_type, names)

    def authorized_operations(self, context: RequestContext, resource_type: ResourceType, resource_name: str) -> int:
        return self._ask(self.guarded.authorized_operations, 0, context, resource_type, resource_name)

    def authorized_operations_many(
        self, context: RequestContext, resource_type: ResourceType, names: Sequence[str]
    ) -> Sequence[int]:
        none: Sequence[int] = [0] * len(names)
        return self._ask(self.guarded.authorized_operations_many, none, context, resource_type, names)

    def close(self) -> None:
        try:
            self.guarded.close()
        except Exception:
            log.exception("authorizer %s failed to close", type(self.guarded).__qualname__)

    def __getattr__(self, name: str) -> object:
        """Return attributes that only the guarded authorizer has, for example ``explain``."""
        return getattr(self.guarded, name)


class _GuardedAclAuthorizer(_GuardedAuthorizer, AclAuthorizer):
    """The calls that feed the authorizer are not guarded: an authorizer that lost a rule must not decide."""

    def load_snapshot(self, acls_by_id: Mapping[Uuid, AclBinding]) -> None:
        self.guarded.load_snapshot(acls_by_id)

    def add_acl(self, acl_id: Uuid, binding: AclBinding) -> None:
        self.guarded.add_acl(acl_id, binding)

    def remove_acl(self, acl_id: Uuid) -> None:
        self.guarded.remove_acl(acl_id)

    def complete_initial_load(self) -> None:
        self.guarded.complete_initial_load()

    def acls(self, acl_filter: AclBindingFilter) -> Iterable[tuple[Uuid, AclBinding]]:
        found: Iterable[tuple[Uuid, AclBinding]] = self.guarded.acls(acl_filter)
        return found

    def acl_slices(self, acl_filter: AclBindingFilter) -> Iterator[Sequence[AclBinding]]:
        found: Iterator[Sequence[AclBinding]] = self.guarded.acl_slices(acl_filter)
        return found

    @property
    def acl_count(self) -> int:
        try:
            return int(self.guarded.acl_count)
        except Exception:
            log.exception("authorizer %s could not count its ACLs", type(self.guarded).__qualname__)
            return ACL_COUNT_UNKNOWN
