"""The contents of an envelope, and of its response."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.forwarded_call import ForwardedCall
from barnabas.broker.forwarding_stats import OTHER_CLIENTS, ForwardingStats
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.headers import RequestHeader, ResponseHeader
from barnabas.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.security.request_context import RequestContext
from tests.peers.envelope_requests import inner
from tests.unit.controller.controller_harness import topic

ALICE = b"alice, as bytes"
CREATE = CreateTopicsRequest(topics=[topic("orders")], timeout_ms=7000)


def context(key: ApiKey, version: int, frame: bytes | None = None, host: str = "192.0.2.7") -> RequestContext:
    made = RequestContext(api_key=key, api_version=version, correlation_id=77, client_id="terminal", client_host=host)
    if frame is not None:
        made.frame = bytearray(frame)
    return made


def test_a_request_is_forwarded_unchanged() -> None:
    frame = inner(CREATE, 7) + b"an unknown encoding"
    call = ForwardedCall(CREATE, context(ApiKey.CREATE_TOPICS, 7, frame), ALICE, b"n" * 16)
    envelope = call.envelope({})
    assert envelope.request_data == frame
    assert envelope.request_principal == ALICE
    assert envelope.client_host_address == bytes((192, 0, 2, 7))
    assert call.timeout_ms == 7000


def test_an_ipv6_address_has_sixteen_bytes() -> None:
    call = ForwardedCall(CREATE, context(ApiKey.CREATE_TOPICS, 7, inner(CREATE, 7), "2001:db8::1"), ALICE, b"n" * 16)
    assert call.envelope({}).client_host_address == bytes.fromhex("20010db8" + "00" * 11 + "01")


def test_a_changed_body_is_forwarded_with_the_clients_header() -> None:
    original = IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=2, resource_name=name) for name in ("a", "b")]
    )
    left = IncrementalAlterConfigsRequest(resources=original.resources[1:])
    tagged = bytes.fromhex("002c00010000004d0008") + b"terminal" + b"\1\5\2hi"
    frame = tagged + original.encode(1)
    call = ForwardedCall(left, context(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, frame), ALICE, b"n" * 16)
    assert call.envelope({}).request_data == tagged + left.encode(1)


@pytest.mark.parametrize(("theirs", "version"), [((2, 5), 5), ((2, 99), 7), (None, 7)])
def test_a_request_as_a_client_has_a_version_that_the_controller_serves(
    theirs: tuple[int, int] | None, version: int
) -> None:
    call = ForwardedCall(CREATE, context(ApiKey.CREATE_TOPICS, 7), ALICE, b"n" * 16)
    data = call.envelope({} if theirs is None else {ApiKey.CREATE_TOPICS: theirs}).request_data
    header, end = RequestHeader.read(data, 0, 2)
    assert (header.request_api_version, header.correlation_id, header.client_id) == (version, 77, "terminal")
    assert CreateTopicsRequest.decode(data, version, end).topics[0].name == "orders"
    made = CreateTopicsResponse(topics=[CreatableTopicResult(name="orders")])
    answer = ResponseHeader(correlation_id=77).encode(1) + made.encode(version)
    read: Any = call.answer(answer, CreateTopicsResponse)
    assert read.topics[0].name == "orders"


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        ResponseHeader(correlation_id=78).encode(1) + CreateTopicsResponse().encode(7),
        ResponseHeader(correlation_id=77).encode(1) + CreateTopicsResponse().encode(7)[:-1],
    ],
    ids=["nothing", "empty", "to another request", "cut short"],
)
def test_an_invalid_response_is_refused(data: bytes | None) -> None:
    call = ForwardedCall(CREATE, context(ApiKey.CREATE_TOPICS, 7, inner(CREATE, 7)), ALICE, b"n" * 16)
    with pytest.raises(DecodeError):
        call.answer(data, CreateTopicsResponse)


def test_clients_are_counted_by_name_up_to_a_limit_of_names() -> None:
    stats = ForwardingStats()
    for number in range(150):
        stats.forwarded(f"client-{number}")
    stats.forwarded("client-7")
    stats.forwarded(None)
    assert len(stats.requests_by_client) == 101
    assert stats.requests_by_client["client-7"] == 2
    assert stats.requests_by_client[OTHER_CLIENTS] == 51
