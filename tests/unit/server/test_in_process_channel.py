"""What the broker hands to the controller of its own process arrives as a forwarded request would."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.security.authorizer.authorizer import AllowAllAuthorizer
from barnabas.security.principal import Principal
from barnabas.security.request_context import RequestContext
from barnabas.server.in_process_channel import InProcessChannel

ALICE = RequestContext(
    api_key=ApiKey.CREATE_TOPICS,
    api_version=7,
    correlation_id=42,
    client_id="terminal",
    principal=Principal("User", "alice"),
    client_host="192.0.2.7",
)


def channel(handle: Callable[..., Any], *, is_active: bool = True) -> InProcessChannel:
    handler = SimpleNamespace(
        acl=frozenset(),
        function=handle,
        on_error=lambda request, error: CreateTopicsResponse(throttle_time_ms=int(error.code)),
    )
    return InProcessChannel(
        controller=SimpleNamespace(is_active=is_active),  # type: ignore[arg-type]
        handlers=SimpleNamespace(handler=lambda key: handler),  # type: ignore[arg-type]
        authorizer=AllowAllAuthorizer(),
        listener_name="CONTROLLER",
    )


def test_the_controller_decides_for_the_client_and_not_for_the_broker() -> None:
    seen = []

    def handle(controller: Any, request: Any, access: Any) -> CreateTopicsResponse:
        seen.append(access.context)
        return CreateTopicsResponse()

    asyncio.run(channel(handle).forward(CreateTopicsRequest(), ALICE))
    assert seen == [ALICE]


def test_an_answer_that_comes_later_is_waited_for() -> None:
    async def later() -> CreateTopicsResponse:
        await asyncio.sleep(0)
        return CreateTopicsResponse(throttle_time_ms=7)

    answer: Any = asyncio.run(channel(lambda *_: later()).forward(CreateTopicsRequest(), ALICE))
    assert answer.throttle_time_ms == 7


def test_a_controller_that_is_not_active_is_not_asked() -> None:
    with pytest.raises(ApiException) as refused:
        asyncio.run(channel(lambda *_: CreateTopicsResponse(), is_active=False).forward(CreateTopicsRequest(), ALICE))
    assert refused.value.code is ErrorCode.NOT_CONTROLLER


def test_an_error_is_answered_in_the_shape_of_the_api() -> None:
    def handle(*_: Any) -> CreateTopicsResponse:
        raise ApiException(ErrorCode.POLICY_VIOLATION)

    answer: Any = asyncio.run(channel(handle).forward(CreateTopicsRequest(), ALICE))
    assert answer.throttle_time_ms == ErrorCode.POLICY_VIOLATION


def test_what_the_broker_sends_for_itself_comes_over_the_controller_listener() -> None:
    seen = []

    def handle(controller: Any, request: Any, access: Any) -> CreateTopicsResponse:
        seen.append((access.context.api_key, access.context.listener_name, access.context.from_privileged_listener))
        return CreateTopicsResponse()

    asyncio.run(channel(handle).send(AllocateProducerIdsRequest(broker_id=1)))
    assert seen == [(ApiKey.ALLOCATE_PRODUCER_IDS, "CONTROLLER", True)]
