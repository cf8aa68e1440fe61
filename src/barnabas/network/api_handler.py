"""How an API module says what it serves: its key, its versions and the access that it needs.

::

    @handles(ApiKey.DELETE_RECORDS, acl=(AclRule(ResourceType.TOPIC, AclOperation.DELETE),))
    def handle_delete_records(broker, request, access): ...

A handler gets the server object, the decoded request and ``Access``: the only way to ask for a decision, and it
answers only what the module declared. A handler returns the response, or an awaitable of it when it must wait,
or None when the request has no answer.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from barnabas.common.errors import ApiException, ErrorCode, InvariantViolated, invariant
from barnabas.common.resource import CLUSTER_NAME, ResourceType
from barnabas.protocol.api_keys import API_TABLE, ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from barnabas.common.acl import AclOperation
    from barnabas.protocol.schema import Message
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.request_context import RequestContext

__all__ = ["Access", "AclRule", "ApiHandler", "HandlerTable", "handles"]

F = TypeVar("F", bound="Callable[..., Any]")


class AclRule(NamedTuple):
    """A right that an API may ask for (reference: acl-matrix)."""

    resource_type: ResourceType
    operation: AclOperation


class Access:
    """The one point where a request's access is decided. Made anew for each request."""

    __slots__ = ("_rules", "authorizer", "context")

    def __init__(self, authorizer: Authorizer, context: RequestContext, rules: frozenset[AclRule]) -> None:
        self.authorizer = authorizer
        self._rules = rules
        self.context = context

    def allows(
        self, resource_type: ResourceType, operation: AclOperation, name: str, *, log_if_denied: bool = True
    ) -> bool:
        if (resource_type, operation) not in self._rules:
            raise self._undeclared(operation)
        return self.authorizer.authorize(self.context, operation, resource_type, name, log_if_denied=log_if_denied)

    def _undeclared(self, operation: AclOperation) -> InvariantViolated:
        return InvariantViolated(f"{self.context.api_key.name} did not declare {operation.name}")

    def allows_on_cluster(self, operation: AclOperation, *, log_if_denied: bool = True) -> bool:
        return self.allows(ResourceType.CLUSTER, operation, CLUSTER_NAME, log_if_denied=log_if_denied)

    def allows_any(self, resource_type: ResourceType, operation: AclOperation) -> bool:
        """Whether at least one resource of the type is allowed."""
        if (resource_type, operation) not in self._rules:
            raise self._undeclared(operation)
        return self.authorizer.authorize_by_resource_type(self.context, operation, resource_type)

    def allowed(
        self, resource_type: ResourceType, operation: AclOperation, names: Iterable[str], *, log_if_denied: bool = True
    ) -> set[str]:
        """Those of ``names`` that are allowed; each name is decided once."""
        return {name for name in set(names) if self.allows(resource_type, operation, name, log_if_denied=log_if_denied)}

    def allowed_in_order(
        self, resource_type: ResourceType, operation: AclOperation, names: Sequence[str]
    ) -> Sequence[str]:
        """Those of ``names`` that are allowed, in their order; ``names`` itself when all are. Never logged."""
        if (resource_type, operation) not in self._rules:
            raise self._undeclared(operation)
        return self.authorizer.filter_authorized(self.context, operation, resource_type, names)

    def require_on_cluster(self, operation: AclOperation) -> None:
        """Raise CLUSTER_AUTHORIZATION_FAILED unless allowed."""
        if not self.allows_on_cluster(operation):
            raise ApiException(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")

    def operations_on(self, resource_type: ResourceType, name: str) -> int:
        """Bits of the operations that the caller has on the resource (KIP-430)."""
        return self.authorizer.authorized_operations(self.context, resource_type, name)

    def operations_on_all(self, resource_type: ResourceType, names: Sequence[str]) -> Sequence[int]:
        """``operations_on`` for each of the names."""
        return self.authorizer.authorized_operations_many(self.context, resource_type, names)


class ApiHandler:
    """A handler with what it declared. ``on_error`` builds the response for an ApiException that it raised."""

    __slots__ = ("acl", "api_key", "function", "on_error", "request_type", "response_type")

    def __init__(
        self,
        api_key: ApiKey,
        acl: frozenset[AclRule],
        function: Callable[..., Any],
        on_error: Callable[[Any, ApiException], Message] | None,
    ) -> None:
        self.api_key = api_key
        self.acl = acl
        self.function = function
        name = API_TABLE[api_key].name
        messages = import_module(f"barnabas.protocol.messages.{api_key.name.lower()}")
        self.request_type: type[Message] = getattr(messages, f"{name}Request")
        self.response_type: type[Message] = getattr(messages, f"{name}Response")
        self.on_error = on_error or self._top_level_error

    def _top_level_error(self, request: Message, error: ApiException) -> Message:
        response: Any = self.response_type()
        invariant(hasattr(response, "error_code"), f"{self.api_key.name} needs an on_error of its own")
        response.error_code = int(error.code)
        if hasattr(response, "error_message"):
            response.error_message = error.message
        return cast("Message", response)


def handles(
    api_key: ApiKey,
    *,
    acl: Iterable[AclRule] = (),
    on_error: Callable[[Any, ApiException], Message] | None = None,
) -> Callable[[F], F]:
    """Mark a function as the handler of an API; a module has exactly one."""

    def mark(function: F) -> F:
        function.api_handler = ApiHandler(api_key, frozenset(acl), function, on_error)  # type: ignore[attr-defined]
        return function

    return mark


class HandlerTable:
    """The APIs that a server serves, with versions. Modules are imported by the first request for them."""

    def __init__(self, package: str, served: Mapping[ApiKey, tuple[int, int]]) -> None:
        self._package = package
        self._handlers: dict[ApiKey, ApiHandler] = {}
        self.served = dict(served)

    def handler(self, api_key: ApiKey) -> ApiHandler:
        known = self._handlers.get(api_key)
        if known is None:
            name = api_key.name.lower()
            module = import_module(f"{self._package}.{name}")
            known = getattr(module, f"handle_{name}").api_handler
            invariant(known.api_key == api_key, f"{module.__name__} handles {known.api_key!r}, not {api_key!r}")
            self._handlers[api_key] = known
        return known
