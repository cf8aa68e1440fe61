"""Adapts the controller's API modules to the dispatcher of the network layer.

The modules decide without I/O and return a Deferred, which this module turns into an awaitable of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from barnabas.common.long_response import LongAnswer
from barnabas.controller.prepared_decision import PreparedDecision, within
from barnabas.network.api_handler import ApiHandler, HandlerTable
from barnabas.network.stepped_responses import worked_out
from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.security.authorizer.authorizer import Authorizer
from barnabas.server.process.event_loop_turns import TurnTimes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barnabas.common.acl import AclOperation
    from barnabas.common.resource import ResourceType
    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.coordinator.deferred import Deferred
    from barnabas.network.api_handler import Access
    from barnabas.security.authorizer.authorizer import AclAuthorizer
    from barnabas.security.request_context import RequestContext
    from barnabas.server.controller.policy_worker import Policies

__all__ = ["SERVED_ON_CONTROLLER_LISTENERS", "SERVED_TO_OWN_BROKER", "ControllerHandlers"]

_FOR_OWN_BROKER = (
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.ELECT_LEADERS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.UPDATE_FEATURES,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.BROKER_REGISTRATION,
    ApiKey.BROKER_HEARTBEAT,
    ApiKey.ALLOCATE_PRODUCER_IDS,
    ApiKey.CONTROLLER_REGISTRATION,
)
_ON_LISTENERS = (
    *_FOR_OWN_BROKER,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.API_VERSIONS,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.DESCRIBE_ACLS,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.ENVELOPE,
    ApiKey.ALTER_PARTITION,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS,
)


def _with_versions(keys: tuple[ApiKey, ...]) -> dict[ApiKey, tuple[int, int]]:
    return {key: (API_TABLE[key].lowest, API_TABLE[key].highest) for key in keys}


SERVED_TO_OWN_BROKER = _with_versions(_FOR_OWN_BROKER)
"""APIs that the controller serves to the broker of the same process."""

SERVED_ON_CONTROLLER_LISTENERS = _with_versions(_ON_LISTENERS)
"""APIs for brokers, other controllers, and admin clients that use ``bootstrap.controllers``."""


class ControllerHandlers(HandlerTable):
    """The handlers of the controller's APIs, for the broker of its own process or for its listeners."""

    def __init__(
        self,
        served: Mapping[ApiKey, tuple[int, int]],
        policies: Policies | None = None,
        turn_times: TurnTimes | None = None,
    ) -> None:
        super().__init__("barnabas.controller.apis", served)
        self._turn_times = turn_times or TurnTimes()
        self._policies = policies

    def handler(self, api_key: ApiKey) -> ApiHandler:
        known = self._handlers.get(api_key)
        if known is None:
            module = import_module(f"barnabas.controller.apis.{api_key.name.lower()}")

            kind = "".join(word.capitalize() for word in api_key.name.split("_"))

            def function(controller: Any, request: Any, access: Access) -> Any:
                with self._turn_times.of(kind):
                    decided = _handle(module, controller, request, access)
                return _wait_for(decided)

            policies = self._policies
            guarded = None if policies is None or not policies.guards(api_key) else policies
            known = self._handlers[api_key] = ApiHandler(
                api_key,
                frozenset(module.ACL),
                function if guarded is None else partial(_decide_with_policies, guarded, module),
                getattr(module, "error_response", None),
                getattr(module, "check_request", None),
            )
        return known


def _handle(
    module: Any, controller: QuorumController, request: Any, access: Access
) -> Deferred[Any] | PreparedDecision[Any]:
    call_id = access.context.call_id
    if call_id is None:
        return cast(
            "Deferred[Any] | PreparedDecision[Any]",
            module.handle(controller, access.context, request, DeclaredRights(access)),
        )
    in_call = partial(controller.calls.deciding_for, (call_id, access.context.api_version))
    with in_call():
        return within(in_call, module.handle(controller, access.context, request, DeclaredRights(access)))


async def _decide_with_policies(
    policies: Policies, module: Any, controller: QuorumController, request: Any, access: Access
) -> Any:
    def rehearse(stand_in: Any) -> None:
        only_validates, request.validate_only = request.validate_only, True
        try:
            decision = module.handle(stand_in, access.context, request, _UnauditedRights(access))
            if isinstance(decision, PreparedDecision):
                while decision.work.advance():
                    pass
                decision.decide()
        finally:
            request.validate_only = only_validates

    session = await policies.settle(rehearse, controller, access.context.principal)
    is_open = partial(policies.gate.opened, session)
    with is_open():
        answer = _wait_for(within(is_open, _handle(module, controller, request, access)))
    return await answer if isinstance(answer, Awaitable) else answer


class DeclaredRights(Authorizer):
    """Presents the request's ``Access`` as an authorizer. It answers only what the API module declared."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self.is_absent = access.authorizer.is_absent  # type: ignore[misc]

    @property
    def acl_authorizer(self) -> AclAuthorizer | None:
        return self._access.authorizer.acl_authorizer

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
        return self._access.allows(
            resource_type, operation, resource_name, log_if_allowed=log_if_allowed, log_if_denied=log_if_denied
        )

    def authorize_by_resource_type(
        self, context: RequestContext, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        return self._access.allows_any(resource_type, operation)

    def filter_authorized(
        self, context: RequestContext, operation: AclOperation, resource_type: ResourceType, names: Sequence[str]
    ) -> Sequence[str]:
        return self._access.allowed_in_order(resource_type, operation, names)

    def authorized_operations(self, context: RequestContext, resource_type: ResourceType, resource_name: str) -> int:
        return self._access.operations_on(resource_type, resource_name)

    def authorized_operations_many(
        self, context: RequestContext, resource_type: ResourceType, names: Sequence[str]
    ) -> Sequence[int]:
        return self._access.operations_on_all(resource_type, names)


class _UnauditedRights(DeclaredRights):
    """The declared rights without audit, for a rehearsal."""

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
        return super().authorize(
            context, operation, resource_type, resource_name, log_if_allowed=False, log_if_denied=False
        )


async def _prepared(decision: PreparedDecision[object]) -> object:
    await worked_out(decision.work)
    answer = _wait_for(decision.decide())
    return await answer if isinstance(answer, Awaitable) else answer


def _wait_for(deferred: Deferred[object] | PreparedDecision[object]) -> object:
    if isinstance(deferred, PreparedDecision):
        return _prepared(deferred)
    if deferred.is_complete:
        value = deferred.value
        return worked_out(value) if isinstance(value, LongAnswer) else value
    future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    deferred.on_complete(lambda value: None if future.done() else future.set_result(value))
    return future
