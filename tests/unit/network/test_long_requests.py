"""Requests with many elements: decoded on a thread, answered in their turn, refused above a limit."""

import asyncio
from collections.abc import Iterator
from typing import Any, cast

import pytest

from barnabas.network.api_handler import Access, HandlerTable, handles
from barnabas.network.close_connection import CloseConnection
from barnabas.network.connection import Connection
from barnabas.network.long_work_scheduler import LongWork
from barnabas.network.request_dispatcher import RequestDispatcher
from barnabas.network.request_limits import RequestLimits
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.headers import RequestHeader
from barnabas.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from barnabas.security.authorizer.authorizer import AllowAllAuthorizer, Authorizer
from barnabas.security.principal import Principal

pytestmark = pytest.mark.anyio

SHORT, LONG, TOO_LONG = 3, 50, 400
LIMITS = RequestLimits(elements=100, elements_in_parts=200, elements_of_brokers=300, elements_inline=10)


@handles(ApiKey.METADATA)
def handle_metadata(server: list[int], request: MetadataRequest, access: Access) -> MetadataResponse:
    server.append(len(request.topics or ()))
    return MetadataResponse(topics=[MetadataResponseTopic(name=topic.name) for topic in request.topics or ()])


class Table(HandlerTable):
    def __init__(self) -> None:
        super().__init__("nowhere", {ApiKey.METADATA: (0, 12)})
        self._handlers[ApiKey.METADATA] = handle_metadata.api_handler  # type: ignore[attr-defined]


class Peers(AllowAllAuthorizer):
    """With ACLs in force, only ``broker`` has CLUSTER_ACTION."""

    is_absent = False

    def authorize(self, context: Any, *_: Any, **__: Any) -> bool:
        return bool(context.principal.name == "broker")


class Caller:
    listener_name, connection_id, peer_host = "CLIENTS", "c-1", "192.0.2.7"

    def __init__(self, name: str) -> None:
        self.principal = Principal("User", name)


@pytest.fixture
def work() -> Iterator[LongWork]:
    made = LongWork()
    yield made
    made.close()


def dispatcher(served: list[int], work: LongWork, authorizer: Authorizer | None = None) -> RequestDispatcher:
    return RequestDispatcher(
        server=served, handlers=Table(), authorizer=authorizer or Peers(), stats={}, limits=LIMITS, work=work
    )


def frame(topics: int) -> bytearray:
    header = RequestHeader(request_api_key=3, request_api_version=12, correlation_id=7, client_id="c").encode(2)
    body = MetadataRequest(topics=[MetadataRequestTopic(name=f"t{number}") for number in range(topics)]).encode(12)
    return bytearray(header + body)


def process(to: RequestDispatcher, topics: int, name: str = "alice") -> Any:
    return to.process(cast("Connection", Caller(name)), frame(topics))


async def test_a_short_request_is_answered_at_once(work: LongWork) -> None:
    served: list[int] = []
    assert isinstance(process(dispatcher(served, work), SHORT), list)
    assert served == [SHORT]


async def test_shorter_requests_overtake_a_long_request(work: LongWork) -> None:
    served: list[int] = []
    to = dispatcher(served, work)
    later = asyncio.ensure_future(process(to, LONG))
    process(to, SHORT)
    assert isinstance(await later, list)
    assert served == [SHORT, LONG]


async def test_a_request_above_the_limit_never_reaches_a_handler(work: LongWork) -> None:
    served: list[int] = []
    with pytest.raises(CloseConnection, match=r"Metadata version 12 cannot be read: .* 200 array elements"):
        await process(dispatcher(served, work), TOO_LONG)
    assert served == []


async def test_brokers_have_a_limit_of_their_own(work: LongWork) -> None:
    served: list[int] = []
    to = dispatcher(served, work)
    await process(to, 250, "broker")
    with pytest.raises(CloseConnection, match="300 array elements"):
        await process(to, TOO_LONG, "broker")
    with pytest.raises(CloseConnection, match="200 array elements"):
        await process(to, 250, "alice")
    assert served == [200, 50]


async def test_without_acls_a_client_is_not_taken_for_a_broker(work: LongWork) -> None:
    with pytest.raises(CloseConnection, match="200 array elements"):
        await process(dispatcher([], work, AllowAllAuthorizer()), 250)


async def test_a_long_request_is_handled_in_parts_with_one_complete_response(
    work: LongWork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barnabas.network.request_splitting.PART_SIZE", 20)
    served: list[int] = []
    answer = await process(dispatcher(served, work), LONG)
    assert served == [20, 20, 10]
    response = MetadataResponse.decode(b"".join(map(bytes, answer)), 12, 5)
    assert [topic.name for topic in response.topics] == [f"t{number}" for number in range(LONG)]


@pytest.mark.parametrize("topics", [9, LONG])
async def test_a_long_answer_is_encoded_in_steps(topics: int, work: LongWork, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.protocol.stepped_writing.ELEMENTS_A_STEP", 4)
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.ensure_future(count_turns())
    answer = await process(dispatcher([], work), topics)
    counting.cancel()
    assert turns >= topics // 4
    response = MetadataResponse.decode(b"".join(map(bytes, answer)), 12, 5)
    assert [topic.name for topic in response.topics] == [f"t{number}" for number in range(topics)]


async def test_the_request_of_a_disconnected_client_is_dropped(work: LongWork) -> None:
    served: list[int] = []
    to = dispatcher(served, work)
    waiting = [asyncio.ensure_future(process(to, LONG + number)) for number in range(3)]
    await asyncio.sleep(0)
    waiting[1].cancel()
    await asyncio.wait(waiting)
    assert served == [LONG, LONG + 2]
