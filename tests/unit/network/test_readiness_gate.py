"""Requests that arrive before the authorizer has its ACLs: answered, held in order, or refused after a timeout."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from barnabas.broker.apis import SERVED_BY_BROKER
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.network.api_handler import ApiHandler, HandlerTable
from barnabas.network.connection import Answer, Connection
from barnabas.network.readiness_gate import ANSWERED_FROM_THE_LOG, ReadinessGate
from barnabas.network.request_dispatcher import RequestDispatcher
from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.protocol.headers import RequestHeader
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from barnabas.security.authorizer.authorizer import AllowAllAuthorizer
from barnabas.security.principal import ANONYMOUS, Principal
from barnabas.server.controller.api_handlers import SERVED_ON_CONTROLLER_LISTENERS, ControllerHandlers
from tests.unit.network.test_connection import Owner, connect, receive

ADMIN = Principal("User", "admin")
METADATA = b"\x00\x03 metadata"
VOTE = b"\x00\x34 vote"
LIST_GROUPS = b"\x00\x10 list"
API_VERSIONS = b"\x00\x12 versions"


class Dispatcher:
    """Reports which frame it received, and with which refusal."""

    def __init__(self) -> None:
        self.seen: list[bytes] = []

    def process(
        self, connection: Connection, frame: bytearray, refusal: ApiException | None = None
    ) -> Answer | Awaitable[Answer]:
        self.seen.append(bytes(frame))
        return [bytes(frame[2:]) + (b"" if refusal is None else b" " + refusal.code.name.encode())]


def gated(ready: asyncio.Event, timeout_s: float = 60) -> tuple[Owner, Dispatcher]:
    dispatcher = Dispatcher()
    owner = Owner(lambda frame: None)
    owner.processor = ReadinessGate(
        dispatcher,  # type: ignore[arg-type]
        ready=ready,
        is_ready_for=lambda principal: principal == ADMIN,
        timeout_s=timeout_s,
    )
    return owner, dispatcher


def answers(transport: Any) -> list[bytes]:
    """Return the bodies without their sizes; one write may contain several."""
    data, bodies = b"".join(transport.writes), []
    while data:
        size = int.from_bytes(data[:4], "big")
        bodies.append(data[4 : 4 + size])
        data = data[4 + size :]
    return bodies


async def _settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.anyio
async def test_requests_wait_for_the_acls_and_are_answered_in_order() -> None:
    ready = asyncio.Event()
    owner, dispatcher = gated(ready)
    connection, transport = connect(owner)
    receive(connection, METADATA, LIST_GROUPS, API_VERSIONS)
    await _settle()
    assert dispatcher.seen == answers(transport) == []
    ready.set()
    await _settle()
    assert answers(transport) == [b" metadata", b" list", b" versions"]


@pytest.mark.anyio
async def test_principals_that_need_no_acls_do_not_wait() -> None:
    owner, _ = gated(asyncio.Event())
    connection, transport = connect(owner)
    connection.principal = ADMIN
    receive(connection, VOTE)
    assert answers(transport) == [b" vote"]


@pytest.mark.parametrize("key", sorted(ANSWERED_FROM_THE_LOG))
@pytest.mark.anyio
async def test_a_super_user_waits_for_responses_from_the_metadata_log(key: ApiKey) -> None:
    ready = asyncio.Event()
    owner, dispatcher = gated(ready)
    connection, transport = connect(owner)
    connection.principal = ADMIN
    receive(connection, key.to_bytes(2, "big") + b" read")
    await _settle()
    assert dispatcher.seen == []
    ready.set()
    await _settle()
    assert answers(transport) == [b" read"]


@pytest.mark.anyio
async def test_a_super_user_that_waited_too_long_receives_a_retriable_error() -> None:
    owner, _ = gated(asyncio.Event(), timeout_s=0)
    connection, transport = connect(owner)
    connection.principal = ADMIN
    receive(connection, METADATA)
    for _ in range(50):
        await asyncio.sleep(0)
    assert answers(transport) == [b" metadata REQUEST_TIMED_OUT"]


@pytest.mark.anyio
async def test_api_versions_does_not_wait() -> None:
    owner, _ = gated(asyncio.Event())
    connection, transport = connect(owner)
    assert connection.principal == ANONYMOUS
    receive(connection, API_VERSIONS, METADATA)
    await _settle()
    assert answers(transport) == [b" versions"]


@pytest.mark.anyio
async def test_a_waiting_connection_does_not_delay_another() -> None:
    owner, _ = gated(asyncio.Event())
    held, held_transport = connect(owner)
    other, other_transport = connect(owner)
    other.principal = ADMIN
    receive(held, METADATA)
    receive(other, VOTE)
    await _settle()
    assert (answers(held_transport), answers(other_transport)) == ([], [b" vote"])


@pytest.mark.anyio
async def test_a_request_that_waited_too_long_receives_a_retriable_error() -> None:
    ready = asyncio.Event()
    owner, _ = gated(ready, timeout_s=0)
    connection, transport = connect(owner)
    receive(connection, METADATA)
    await asyncio.sleep(0)
    await _settle()
    assert answers(transport) == [b" metadata REQUEST_TIMED_OUT"]
    ready.set()
    receive(connection, LIST_GROUPS)
    assert answers(transport)[1:] == [b" list"]


@pytest.mark.anyio
async def test_a_disconnected_client_is_forgotten() -> None:
    ready = asyncio.Event()
    owner, dispatcher = gated(ready)
    connection, _ = connect(owner)
    receive(connection, METADATA)
    await _settle()
    connection.connection_lost(None)
    ready.set()
    await _settle()
    assert dispatcher.seen == []


@pytest.mark.anyio
async def test_a_refusal_is_a_response_of_the_requested_api() -> None:
    dispatcher = RequestDispatcher(server=None, handlers=BROKER_TABLE, authorizer=AllowAllAuthorizer(), stats={})
    owner = Owner(lambda frame: None)
    owner.processor = ReadinessGate(
        dispatcher, ready=asyncio.Event(), is_ready_for=lambda principal: False, timeout_s=0
    )
    connection, transport = connect(owner)
    header = RequestHeader(request_api_key=29, request_api_version=3, correlation_id=7, client_id="c").encode(2)
    receive(connection, header + DescribeAclsRequest(**EVERY_ACL).encode(3))
    await asyncio.sleep(0)
    await _settle()
    (body,) = answers(transport)
    assert body[:4] == b"\0\0\0\x07"
    response = DescribeAclsResponse.decode(body, 3, 5)
    assert (response.error_code, response.resources) == (ErrorCode.REQUEST_TIMED_OUT, [])
    assert "try again" in (response.error_message or "")


EVERY_ACL: dict[str, Any] = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
BROKER_TABLE = HandlerTable("barnabas.broker.apis", SERVED_BY_BROKER)
CONTROLLER_TABLE = ControllerHandlers(SERVED_ON_CONTROLLER_LISTENERS)


@pytest.mark.parametrize(
    "handler",
    [
        *(pytest.param(BROKER_TABLE.handler(key), id=f"broker-{key.name}") for key in SERVED_BY_BROKER),
        *(
            pytest.param(CONTROLLER_TABLE.handler(key), id=f"controller-{key.name}")
            for key in SERVED_ON_CONTROLLER_LISTENERS
            if key is not ApiKey.ENVELOPE  # Opened by the dispatcher: see test_controller_dispatcher.
        ),
    ],
)
def test_every_api_can_report_a_timeout(handler: ApiHandler) -> None:
    error = ApiException(ErrorCode.REQUEST_TIMED_OUT, "later")
    fields: dict[ApiKey, dict[str, Any]] = {
        ApiKey.PRODUCE: {"acks": 1},
        ApiKey.FIND_COORDINATOR: {"coordinator_keys": ["group"]},
    }
    request = handler.request_type(**fields.get(handler.api_key, {}))
    version = API_TABLE[handler.api_key].highest
    assert handler.response_type.decode(handler.on_error(request, error).encode(version), version)
