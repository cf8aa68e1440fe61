"""Declares what an API module serves: its key, its versions and the access that it needs.

::

    @handles(ApiKey.DELETE_RECORDS, acl=(AclRule(ResourceType.TOPIC, AclOperation.DELETE),))
    def handle_delete_records(broker, request, access): ...

A handler receives the server object, the decoded request and ``Access``. ``Access`` is the only way to request a
decision, and allows only the operations that the module declared. A handler returns the response, or an awaitable of
it if it must wait, or None if the request has no response.
"""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, cast

from barnabas.common.errors import InvariantViolated, invariant
from barnabas.common.resource import CLUSTER_NAME, PatternType, ResourceType
from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.protocol.decode_limits import UNLIMITED, DecodeLimits
from barnabas.security.authorizer.denial import denial_error, denial_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from barnabas.common.acl import AclOperation
    from barnabas.common.errors import ApiException
    from barnabas.protocol.schema import Message
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.request_context import RequestContext

__all__ = ["Access", "AclRule", "ApiHandler", "HandlerTable", "handles"]

F = TypeVar("F", bound="Callable[..., Any]")
Q = TypeVar("Q", bound="Message")


class Reader(Protocol):
    """Reads a request's body: the message and the offset after it. Raises DecodeError."""

    def __call__(
        self, buffer: bytes | bytearray | memoryview, offset: int, version: int, limits: DecodeLimits = UNLIMITED, /
    ) -> tuple[Any, int]: ...


class AclRule(NamedTuple):
    """An operation on a resource type that an API may check (reference: acl-matrix)."""

    resource_type: ResourceType
    operation: AclOperation


class Access:
    """Decides a request's access and reports decisions to the audit. Created for each request.

    ``log_if_denied`` and ``log_if_allowed`` are False where a check only filters or is a first attempt: then the client
    did not attempt the access (acl-matrix: logging flags). ``references`` is the number of times the request names the
    resource; a handler checks once per resource, not once per partition.
    """

    __slots__ = ("_rules", "authorizer", "context")

    def __init__(self, authorizer: Authorizer, context: RequestContext, rules: frozenset[AclRule]) -> None:
        self.authorizer = authorizer
        self._rules = rules
        self.context = context

    def allows(
        self,
        resource_type: ResourceType,
        operation: AclOperation,
        name: str,
        *,
        log_if_allowed: bool = True,
        log_if_denied: bool = True,
        references: int = 1,
    ) -> bool:
        if (resource_type, operation) not in self._rules:
            raise self._undeclared(operation)
        authorizer = self.authorizer
        allowed = authorizer.authorize(
            self.context, operation, resource_type, name, log_if_allowed=log_if_allowed, log_if_denied=log_if_denied
        )
        audit = authorizer.audit
        if audit is not None and (log_if_allowed and audit.wants_allowed if allowed else log_if_denied):
            audit.decided(authorizer, self.context, operation, resource_type, name, allowed, references)
        return allowed

    def _undeclared(self, operation: AclOperation) -> InvariantViolated:
        return InvariantViolated(f"{self.context.api_key.name} did not declare {operation.name}")

    def allows_on_cluster(
        self, operation: AclOperation, *, log_if_allowed: bool = True, log_if_denied: bool = True
    ) -> bool:
        return self.allows(
            ResourceType.CLUSTER, operation, CLUSTER_NAME, log_if_allowed=log_if_allowed, log_if_denied=log_if_denied
        )

    def allows_any(self, resource_type: ResourceType, operation: AclOperation) -> bool:
        """Whether at least one resource of the type is allowed."""
        if (resource_type, operation) not in self._rules:
            raise self._undeclared(operation)
        allowed = self.authorizer.authorize_by_resource_type(self.context, operation, resource_type)
        self._audit_of_all(resource_type, operation, allowed=allowed, references=1)
        return allowed

    def allowed(
        self,
        resource_type: ResourceType,
        operation: AclOperation,
        names: Iterable[str],
        *,
        log_if_allowed: bool = True,
        log_if_denied: bool = True,
    ) -> set[str]:
        """Return the allowed ones of ``names``; each name is decided once. Of a mapping the keys are the names."""
        return {
            name
            for name, references in Counter(iter(names)).items()
            if self.allows(
                resource_type,
                operation,
                name,
                log_if_allowed=log_if_allowed,
                log_if_denied=log_if_denied,
                references=references,
            )
        }

    def allowed_in_order(
        self, resource_type: ResourceType, operation: AclOperation, names: Sequence[str], *, is_listing: bool = False
    ) -> Sequence[str]:
        """Return the allowed ones of ``names``, in their order; ``names`` itself if all are allowed.

        Single names are not reported to the audit. A requested listing is, as one access to any of them.
        """
        if (resource_type, operation) not in self._rules:
            raise self._undeclared(operation)
        allowed = self.authorizer.filter_authorized(self.context, operation, resource_type, names)
        if is_listing:
            self.listed(resource_type, operation, len(allowed))
        return allowed

    def listed(self, resource_type: ResourceType, operation: AclOperation, count: int) -> None:
        """Report a listing that was authorized in pieces to the audit, as one access to any of ``count`` names."""
        if count:
            self._audit_of_all(resource_type, operation, allowed=True, references=count)

    def _audit_of_all(
        self, resource_type: ResourceType, operation: AclOperation, *, allowed: bool, references: int
    ) -> None:
        audit = self.authorizer.audit
        if audit is not None and (audit.wants_allowed or not allowed):
            audit.decided(
                self.authorizer, self.context, operation, resource_type, "*", allowed, references, PatternType.ANY
            )

    def denial(self, operation: AclOperation, resource_type: ResourceType, name: str) -> str:
        """Return the message for the caller: ``User:billing lacks WRITE on Topic:orders``."""
        return denial_text(self.context, operation, resource_type, name)

    def denied(self, operation: AclOperation, resource_type: ResourceType, name: str = CLUSTER_NAME) -> ApiException:
        """Return ``denial`` with the error code of the resource type."""
        return denial_error(self.context, operation, resource_type, name)

    def require_on_cluster(self, operation: AclOperation) -> None:
        """Raise CLUSTER_AUTHORIZATION_FAILED unless allowed."""
        if not self.allows_on_cluster(operation):
            raise self.denied(operation, ResourceType.CLUSTER)

    def operations_on(self, resource_type: ResourceType, name: str) -> int:
        """Return the operations that the caller may perform on the resource, as bits (KIP-430)."""
        return self.authorizer.authorized_operations(self.context, resource_type, name)

    def operations_on_all(self, resource_type: ResourceType, names: Sequence[str]) -> Sequence[int]:
        """``operations_on`` for each of the names."""
        return self.authorizer.authorized_operations_many(self.context, resource_type, names)


class ApiHandler:
    """A handler with its declaration. ``on_error`` builds the response for an ApiException that it raised."""

    __slots__ = ("acl", "api_key", "function", "on_error", "read", "request_type", "response_type")

    def __init__(
        self,
        api_key: ApiKey,
        acl: frozenset[AclRule],
        function: Callable[..., Any],
        on_error: Callable[[Any, ApiException], Message] | None,
        check: Callable[[Any], None] | None = None,
    ) -> None:
        """``check`` raises DecodeError for a body that can be decoded but that Kafka's request class refuses."""
        self.api_key = api_key
        self.acl = acl
        self.function = function
        name = API_TABLE[api_key].name
        messages = import_module(f"barnabas.protocol.messages.{api_key.name.lower()}")
        self.request_type: type[Message] = getattr(messages, f"{name}Request")
        self.response_type: type[Message] = getattr(messages, f"{name}Response")
        self.read: Reader = self.request_type.read
        if check is not None:
            self.read = _checked(self.request_type, check)
        self.on_error = on_error or self._top_level_error

    def _top_level_error(self, request: Message, error: ApiException) -> Message:
        response: Any = self.response_type()
        invariant(hasattr(response, "error_code"), f"{self.api_key.name} needs its own on_error")
        response.error_code = int(error.code)
        if hasattr(response, "error_message"):
            response.error_message = error.message
        return cast("Message", response)


def _checked(request_type: type[Message], check: Callable[[Any], None]) -> Reader:
    def read(
        buffer: bytes | bytearray | memoryview, position: int, version: int, limits: DecodeLimits = UNLIMITED
    ) -> tuple[Message, int]:
        request, end = request_type.read(buffer, position, version, limits)
        check(request)
        return request, end

    return read


def handles(
    api_key: ApiKey,
    *,
    acl: Iterable[AclRule] = (),
    on_error: Callable[[Q, ApiException], Message] | None = None,
    check: Callable[[Q], None] | None = None,
) -> Callable[[F], F]:
    """Mark a function as the handler of an API; a module has exactly one."""

    def mark(function: F) -> F:
        handler = ApiHandler(api_key, frozenset(acl), function, on_error, check)
        function.api_handler = handler  # type: ignore[attr-defined]
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
