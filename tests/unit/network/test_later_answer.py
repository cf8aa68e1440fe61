"""A handler that returns a coroutine: its request is answered later, or given up before anything of it has begun."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine
from typing import Any, cast

import pytest

from barnabas.network.api_handler import Access, HandlerTable, handles
from barnabas.network.connection import Connection
from barnabas.network.later_answer import LaterAnswer
from barnabas.network.request_dispatcher import RequestDispatcher
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.headers import RequestHeader
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.security.authorizer.authorizer import AllowAllAuthorizer
from barnabas.security.principal import Principal

VERSION = 12
Made = list[Coroutine[Any, Any, MetadataResponse]]


async def response() -> MetadataResponse:
    return MetadataResponse(topics=[])


@handles(ApiKey.METADATA)
def handle_metadata(server: Made, request: MetadataRequest, access: Access) -> Any:
    server.append(response())
    return server[-1]


class Table(HandlerTable):
    def __init__(self) -> None:
        super().__init__("nowhere", {ApiKey.METADATA: (0, VERSION)})
        self._handlers[ApiKey.METADATA] = handle_metadata.api_handler  # type: ignore[attr-defined]


class Caller:
    listener_name, connection_id, peer_host, principal = "CLIENTS", "c-1", "192.0.2.7", Principal("User", "alice")


@pytest.fixture
def made() -> Made:
    return []


@pytest.fixture
def answer(made: Made) -> LaterAnswer[Any]:
    dispatcher = RequestDispatcher(server=made, handlers=Table(), authorizer=AllowAllAuthorizer(), stats={})
    header = RequestHeader(request_api_key=3, request_api_version=VERSION, correlation_id=7, client_id="c").encode(2)
    frame = bytearray(header + MetadataRequest(topics=[]).encode(VERSION))
    found = dispatcher.process(cast("Connection", Caller()), frame)
    assert isinstance(found, LaterAnswer)
    return found


def test_it_is_answered_when_the_handlers_coroutine_has_ended(answer: LaterAnswer[Any], made: Made) -> None:
    async def pieces() -> Any:
        return await answer

    assert b"".join(asyncio.run(pieces()))[:4] == (7).to_bytes(4, "big")
    assert inspect.getcoroutinestate(made[0]) == inspect.CORO_CLOSED


def test_given_up_before_it_begins_it_leaves_no_coroutine_that_was_never_awaited(
    answer: LaterAnswer[Any], made: Made
) -> None:
    answer.close()
    assert inspect.getcoroutinestate(made[0]) == inspect.CORO_CLOSED
