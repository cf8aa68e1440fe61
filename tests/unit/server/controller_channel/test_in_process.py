"""Requests from the broker to the controller of its own process arrive like forwarded requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.network.api_handler import AclRule
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.schema import Message
from barnabas.security.authorizer.authorizer import AllowAllAuthorizer, Authorizer
from barnabas.security.principal import Principal
from barnabas.security.request_context import RequestContext
from barnabas.server.controller_channel.in_process import InProcessChannel

ALICE = RequestContext(
    api_key=ApiKey.CREATE_TOPICS,
    api_version=7,
    correlation_id=42,
    client_id="terminal",
    principal=Principal("User", "alice"),
    client_host="192.0.2.7",
)


BROKER = Principal("User", "broker-1")
CLUSTER_ACTION = AclRule(ResourceType.CLUSTER, AclOperation.CLUSTER_ACTION)


def channel(
    handle: Callable[..., Any], *, is_active: bool = True, authorizer: Authorizer | None = None
) -> InProcessChannel:
    handler = SimpleNamespace(
        acl=frozenset((CLUSTER_ACTION,)),
        function=handle,
        on_error=lambda request, error: CreateTopicsResponse(throttle_time_ms=int(error.code)),
    )
    return InProcessChannel(
        controller=SimpleNamespace(is_active=is_active),  # type: ignore[arg-type]
        handlers=SimpleNamespace(handler=lambda key: handler),  # type: ignore[arg-type]
        authorizer=authorizer or AllowAllAuthorizer(),
        own_context=own_context,
    )


def own_context(key: ApiKey, version: int) -> RequestContext:
    return RequestContext(api_key=key, api_version=version, principal=BROKER, listener_name="CONTROLLER")


class DeniesAll(AllowAllAuthorizer):
    def authorize(self, *_: Any, **__: Any) -> bool:
        return False


def test_the_controller_decides_for_the_client_and_not_for_the_broker() -> None:
    seen = []

    def handle(controller: Any, request: Any, access: Any) -> CreateTopicsResponse:
        seen.append(access.context)
        return CreateTopicsResponse()

    asyncio.run(channel(handle).forward(CreateTopicsRequest(), ALICE))
    assert seen == [ALICE]


def test_a_later_response_is_awaited() -> None:
    async def later() -> CreateTopicsResponse:
        await asyncio.sleep(0)
        return CreateTopicsResponse(throttle_time_ms=7)

    answer: Any = asyncio.run(channel(lambda *_: later()).forward(CreateTopicsRequest(), ALICE))
    assert answer.throttle_time_ms == 7


def test_an_inactive_controller_is_not_called() -> None:
    with pytest.raises(ApiException) as refused:
        asyncio.run(channel(lambda *_: CreateTopicsResponse(), is_active=False).forward(CreateTopicsRequest(), ALICE))
    assert refused.value.code is ErrorCode.NOT_CONTROLLER


def test_an_error_is_a_response_of_the_requested_api() -> None:
    def handle(*_: Any) -> CreateTopicsResponse:
        raise ApiException(ErrorCode.POLICY_VIOLATION)

    answer: Any = asyncio.run(channel(handle).forward(CreateTopicsRequest(), ALICE))
    assert answer.throttle_time_ms == ErrorCode.POLICY_VIOLATION


def test_the_brokers_own_requests_arrive_over_the_controller_listener() -> None:
    seen = []

    def handle(controller: Any, request: Any, access: Any) -> AllocateProducerIdsResponse:
        seen.append((access.context.api_key, access.context.listener_name, access.context.principal))
        return AllocateProducerIdsResponse()

    asyncio.run(channel(handle).send(AllocateProducerIdsRequest(broker_id=1)))
    assert seen == [(ApiKey.ALLOCATE_PRODUCER_IDS, "CONTROLLER", BROKER)]


def test_the_brokers_own_requests_are_authorized_unlike_those_of_clients() -> None:
    def handle(controller: Any, request: Any, access: Any) -> Message:
        access.require_on_cluster(AclOperation.CLUSTER_ACTION)
        response: Message = request.response_type()()
        return response

    own_channel = channel(handle, authorizer=DeniesAll())
    own = asyncio.run(own_channel.send(AllocateProducerIdsRequest(broker_id=1)))
    forwarded: Any = asyncio.run(own_channel.forward(CreateTopicsRequest(), ALICE))
    assert own.throttle_time_ms == 0
    assert forwarded.throttle_time_ms == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
