"""The port of every access decision, which a custom authorizer implements.

A node loads the class that ``authorizer.class.name`` names as ``module:Class``. It must be a subclass of
``Authorizer``, and only ``authorize`` must be implemented::

    class BusinessHours(Authorizer):
        def authorize(self, context, operation, resource_type, resource_name, *, log_if_allowed=True,
                      log_if_denied=True):
            return resource_type != ResourceType.TOPIC or context.principal.name.startswith("batch-")

Rules that hold for every authorizer:

- It is created without arguments and then configured once, before the node opens a listener.
- It answers from memory and immediately: it runs on the event loop, for every request and every resource in it.
- An exception denies the request and is logged; only ``AuthorizerNotReady`` reaches the client, as an error to retry.
- ``log_if_allowed`` and ``log_if_denied`` are False where the caller only filters a listing: such a decision is
  not an attempt and does not belong in an audit trail.
- Names are literal: a call never has a pattern, and a topic may really be named ``*``.

``AclAuthorizer`` is the port of an authorizer whose rules are the ACLs of the metadata log (KIP-801).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from barnabas.common.errors import ApiException, ErrorCode, Transient
from barnabas.security.authorizer.acl_slices import SLICE
from barnabas.security.authorizer.authorized_operations import supported_mask, supported_operations

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from barnabas.common.acl import AclBinding, AclBindingFilter, AclOperation
    from barnabas.common.resource import ResourceType
    from barnabas.common.uuid import Uuid
    from barnabas.security.authorizer.audit import AccessAudit
    from barnabas.security.principal import Principal
    from barnabas.security.request_context import RequestContext

__all__ = ["ACL_COUNT_UNKNOWN", "AclAuthorizer", "AllowAllAuthorizer", "Authorizer", "AuthorizerNotReady"]

ACL_COUNT_UNKNOWN = -1

_SAMPLE_NAME = "hardcode"
"""A name that means "any": Kafka uses the same one."""


class AuthorizerNotReady(ApiException, Transient):
    """Not all rules are loaded, and the principal is not a super user; retriable.

    Kafka's table has no code for it, so a client receives UNKNOWN_SERVER_ERROR. A barnabas broker that forwards for a
    client recognises it by its type.
    """

    def __init__(self, message: str = "The authorizer has not finished loading its rules; try again.") -> None:
        super().__init__(ErrorCode.UNKNOWN_SERVER_ERROR, message)


class Authorizer(ABC):
    """Decides what a principal may do to a resource. The module lists the obligations of an implementation."""

    is_absent: ClassVar[bool] = False
    """True for the stand-in without an authorizer: then the ACL APIs answer SECURITY_DISABLED."""

    audit: AccessAudit | None = None
    """Set by the node. Implementations do not use it: ``Access`` reports decisions to it."""

    def configure(self, configs: Mapping[str, str]) -> None:  # noqa: B027
        """Receive the node's settings, as written in its properties. Raise ConfigException for invalid ones."""

    def is_ready_for(self, principal: Principal) -> bool:
        """Return whether a decision about this principal can be made now. Until then ``authorize`` may raise."""
        return True

    @abstractmethod
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
        """Return whether ``context.principal`` at ``context.client_host`` may do this to the resource of this name.

        Raises AuthorizerNotReady while the rules are being loaded.
        """

    @property
    def acl_authorizer(self) -> AclAuthorizer | None:
        """Return the authorizer whose rules DescribeAcls shows, this one or a wrapped one; None without rules."""
        return None

    def authorize_by_resource_type(
        self, context: RequestContext, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Return whether at least one resource of the type is allowed.

        The default decides about an unused name, which shows the rules for all names. An authorizer that
        allows single resources should override it.
        """
        return self.authorize(
            context, operation, resource_type, _SAMPLE_NAME, log_if_allowed=False, log_if_denied=False
        )

    def filter_authorized(
        self, context: RequestContext, operation: AclOperation, resource_type: ResourceType, names: Sequence[str]
    ) -> Sequence[str]:
        """Return the allowed names, in their order; ``names`` itself if all are allowed. Never logged."""
        allowed = [
            name
            for name in names
            if self.authorize(context, operation, resource_type, name, log_if_allowed=False, log_if_denied=False)
        ]
        return names if len(allowed) == len(names) else allowed

    def authorized_operations(self, context: RequestContext, resource_type: ResourceType, resource_name: str) -> int:
        """Return the operations allowed on the resource, as bits, limited to the type's own (KIP-430). Never logged."""
        mask = 0
        for operation in supported_operations(resource_type):
            if self.authorize(
                context, operation, resource_type, resource_name, log_if_allowed=False, log_if_denied=False
            ):
                mask |= 1 << operation
        return mask

    def authorized_operations_many(
        self, context: RequestContext, resource_type: ResourceType, names: Sequence[str]
    ) -> Sequence[int]:
        """Return ``authorized_operations`` for each name."""
        return [self.authorized_operations(context, resource_type, name) for name in names]

    def close(self) -> None:  # noqa: B027
        """Called when the node stops; no call follows."""


class AclAuthorizer(Authorizer):
    """An authorizer that receives the ACLs of the metadata log, in log order (KIP-801's ClusterMetadataAuthorizer).

    Adding a known id or rule, and removing an unknown id, raise InvariantViolated: the log and this
    authorizer no longer agree, and the node must not continue as if they did.
    """

    @property
    def acl_authorizer(self) -> AclAuthorizer | None:
        return self

    @abstractmethod
    def load_snapshot(self, acls_by_id: Mapping[Uuid, AclBinding]) -> None:
        """Replace all rules atomically; no intermediate state is visible."""

    @abstractmethod
    def add_acl(self, acl_id: Uuid, binding: AclBinding) -> None: ...

    @abstractmethod
    def remove_acl(self, acl_id: Uuid) -> None: ...

    @abstractmethod
    def complete_initial_load(self) -> None:
        """Called when the log is replayed up to its end at the node's start: decisions can be made."""

    @abstractmethod
    def acls(self, acl_filter: AclBindingFilter) -> Iterable[tuple[Uuid, AclBinding]]:
        """Return the rules that match the filter, in Kafka's order: by resource type, then by name, descending."""

    def acl_slices(self, acl_filter: AclBindingFilter) -> Iterator[Sequence[AclBinding]]:
        """Yield the same rules at one moment, without ids, in slices: other clients are served between slices.

        No work is done before the first slice is requested. If that slice is empty, more work is needed, and the set
        of rules is fixed with the next one. The default finds and sorts in one step, and only cuts the result.
        """
        found = [binding for _, binding in self.acls(acl_filter)]
        for start in range(0, len(found), SLICE):
            yield found[start : start + SLICE]

    @property
    def acl_count(self) -> int:
        """Return the number of rules; -1 if the authorizer does not report it."""
        return ACL_COUNT_UNKNOWN


class AllowAllAuthorizer(Authorizer):
    """Used if no authorizer is configured: everything is allowed, as in Kafka without one."""

    is_absent = True

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
        return True

    def authorize_by_resource_type(
        self, context: RequestContext, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        return True

    def filter_authorized(
        self, context: RequestContext, operation: AclOperation, resource_type: ResourceType, names: Sequence[str]
    ) -> Sequence[str]:
        return names

    def authorized_operations(self, context: RequestContext, resource_type: ResourceType, resource_name: str) -> int:
        return supported_mask(resource_type)

    def authorized_operations_many(
        self, context: RequestContext, resource_type: ResourceType, names: Sequence[str]
    ) -> Sequence[int]:
        return [supported_mask(resource_type)] * len(names)
