"""Every version of every API that ApiVersions names is answered in that version; every other one is refused."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.broker.apis import SERVED_BY_BROKER
from barnabas.common.errors import ErrorCode
from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.protocol.headers import RequestHeader, ResponseHeader, request_header_version
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.server.controller.quorum_handlers import QUORUM_APIS, SERVED_BY_CONTROLLER
from barnabas.testing import Node
from tests.interop.raw_client import RawClient
from tests.peers.every_request import Target, request_for
from tests.peers.node_requests import NODE_REQUESTS
from tests.peers.quorum_requests import outdated_quorum_request

pytestmark = pytest.mark.interop

FIRST_SERVED = {ApiKey.PRODUCE: 3}
"""Produce is advertised from 0 for old librdkafka, and served from 3."""

# Allowed errors: the request names a member that does not exist, or a change that is already done.
EXPECTED = {
    ApiKey.CONSUMER_GROUP_DESCRIBE: {ErrorCode.GROUP_ID_NOT_FOUND},
    ApiKey.STREAMS_GROUP_HEARTBEAT: {ErrorCode.GROUP_ID_NOT_FOUND},
    ApiKey.STREAMS_GROUP_DESCRIBE: {ErrorCode.GROUP_ID_NOT_FOUND},
    ApiKey.SHARE_GROUP_DESCRIBE: {ErrorCode.GROUP_ID_NOT_FOUND},
    ApiKey.SHARE_FETCH: {ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR},  # As in Kafka, for a group without state.
    ApiKey.SHARE_ACKNOWLEDGE: {ErrorCode.SHARE_SESSION_NOT_FOUND},
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: {ErrorCode.GROUP_ID_NOT_FOUND},
    ApiKey.ALTER_REPLICA_LOG_DIRS: {ErrorCode.LOG_DIR_NOT_FOUND},
    ApiKey.HEARTBEAT: {ErrorCode.UNKNOWN_MEMBER_ID},
    ApiKey.SYNC_GROUP: {ErrorCode.UNKNOWN_MEMBER_ID},
    ApiKey.LEAVE_GROUP: {ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID},
    ApiKey.JOIN_GROUP: {ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED},
    ApiKey.OFFSET_DELETE: {ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC},
    ApiKey.DELETE_GROUPS: {ErrorCode.GROUP_ID_NOT_FOUND},
    ApiKey.DESCRIBE_GROUPS: {ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND},
    ApiKey.CREATE_TOPICS: {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS},
    ApiKey.CREATE_DELEGATION_TOKEN: {ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED},
    ApiKey.RENEW_DELEGATION_TOKEN: {ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED},
    ApiKey.EXPIRE_DELEGATION_TOKEN: {ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED},
    ApiKey.DESCRIBE_DELEGATION_TOKEN: {ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED},
    ApiKey.SASL_HANDSHAKE: {ErrorCode.ILLEGAL_SASL_STATE},
    ApiKey.SASL_AUTHENTICATE: {ErrorCode.ILLEGAL_SASL_STATE},
    ApiKey.ELECT_LEADERS: {ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED},
    ApiKey.UNREGISTER_BROKER: {ErrorCode.BROKER_ID_NOT_REGISTERED},
    ApiKey.ADD_RAFT_VOTER: {ErrorCode.INCONSISTENT_CLUSTER_ID},
    ApiKey.REMOVE_RAFT_VOTER: {ErrorCode.INCONSISTENT_CLUSTER_ID},
    ApiKey.DESCRIBE_ACLS: {ErrorCode.SECURITY_DISABLED},
    ApiKey.CREATE_ACLS: {ErrorCode.SECURITY_DISABLED},
    ApiKey.DELETE_ACLS: {ErrorCode.SECURITY_DISABLED},
    ApiKey.ALTER_PARTITION: {ErrorCode.STALE_BROKER_EPOCH},
    ApiKey.BROKER_REGISTRATION: {ErrorCode.INCONSISTENT_CLUSTER_ID},
    ApiKey.ADD_OFFSETS_TO_TXN: {ErrorCode.INVALID_PRODUCER_ID_MAPPING},
    ApiKey.END_TXN: {ErrorCode.INVALID_PRODUCER_ID_MAPPING},
    ApiKey.TXN_OFFSET_COMMIT: {ErrorCode.INVALID_PRODUCER_ID_MAPPING},
    ApiKey.DESCRIBE_TRANSACTIONS: {ErrorCode.TRANSACTIONAL_ID_NOT_FOUND},
    ApiKey.BROKER_HEARTBEAT: {ErrorCode.STALE_BROKER_EPOCH},
    ApiKey.ALLOCATE_PRODUCER_IDS: {ErrorCode.STALE_BROKER_EPOCH},
    ApiKey.CONTROLLER_REGISTRATION: {ErrorCode.UNSUPPORTED_VERSION},
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: {ErrorCode.STALE_BROKER_EPOCH},
}
VERSIONS = [
    (key, version)
    for key, (low, high) in SERVED_BY_BROKER.items()
    for version in range(FIRST_SERVED.get(key, low), high + 1)
]
REFUSED = [
    *((key, version) for key, (low, high) in SERVED_BY_BROKER.items() for version in (low - 1, high + 1, 32767)),
    *((ApiKey.PRODUCE, version) for version in range(3)),
    *((key, API_TABLE[key].highest) for key in API_TABLE if key not in SERVED_BY_BROKER),
]


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as running:
        yield running
        assert " ERROR " not in running.log
        assert "Traceback" not in running.log


@pytest.fixture(scope="module")
def target(node: Node) -> Target:
    client = RawClient(node.port)
    client.call(CreateTopicsRequest(topics=[CreatableTopic(name="versions", num_partitions=1, replication_factor=1)]))
    topic_id = client.call(MetadataRequest(topics=[MetadataRequestTopic(name="versions")]), 12).topics[0].topic_id
    deadline = time.monotonic() + 10
    while client.call(FindCoordinatorRequest(key="a-group"), 3).error_code and time.monotonic() < deadline:
        time.sleep(0.02)
    of_transaction = FindCoordinatorRequest(key="a-transaction", key_type=1)
    while client.call(of_transaction, 3).error_code and time.monotonic() < deadline:
        time.sleep(0.02)
    client.close()
    return Target(topic="versions", topic_id=topic_id, group="a-group", new_topic="made-and-deleted")


def error_codes(message: Any) -> set[int]:
    """Yield every error code anywhere in a response."""
    found: set[int] = set()
    for name in type(message).__slots__:
        value = getattr(message, name, None)
        if name == "error_code" and isinstance(value, int):
            found.add(value)
        elif isinstance(value, list):
            for element in value:
                if hasattr(type(element), "__slots__") and not isinstance(element, tuple | bytes):
                    found |= error_codes(element)
    return found


@pytest.mark.parametrize(("key", "version"), VERSIONS, ids=lambda value: getattr(value, "name", f"v{value}"))
def test_an_advertised_version_is_answered(node: Node, target: Target, key: ApiKey, version: int) -> None:
    client = RawClient(node.port)
    if key is ApiKey.DELETE_TOPICS:
        client.call(request_for(ApiKey.CREATE_TOPICS, 7, target), 7)
    answer = client.call(request_for(key, version, target._replace(group=f"group-{key.name}")), version)
    client.close()
    allowed = EXPECTED.get(key, {ErrorCode.NONE})
    assert error_codes(answer) <= allowed, answer
    assert answer.encode(version), "the answer is a message of that version"


def test_this_file_tries_exactly_the_advertised_versions(node: Node) -> None:
    client = RawClient(node.port)
    answer = client.call(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 4)
    client.close()
    advertised = {ApiKey(entry.api_key): (entry.min_version, entry.max_version) for entry in answer.api_keys}
    assert advertised == SERVED_BY_BROKER


CONTROLLER_VERSIONS = [
    (key, version) for key, (low, high) in SERVED_BY_CONTROLLER.items() for version in range(low, high + 1)
]


def controller_request(key: ApiKey, version: int, target: Target) -> Any:
    if key is ApiKey.DESCRIBE_CLUSTER and version >= 1:
        return DescribeClusterRequest(endpoint_type=2)
    if key in QUORUM_APIS:
        return outdated_quorum_request(key, version)
    if key in NODE_REQUESTS:
        return NODE_REQUESTS[key]
    return request_for(key, version, target)


@pytest.mark.parametrize(("key", "version"), CONTROLLER_VERSIONS, ids=lambda value: getattr(value, "name", f"v{value}"))
def test_an_advertised_version_is_answered_by_a_controller(
    node: Node, target: Target, key: ApiKey, version: int
) -> None:
    client = RawClient(node.controller_port)
    if key is ApiKey.DELETE_TOPICS:
        client.call(request_for(ApiKey.CREATE_TOPICS, 7, target), 7)
    answer = client.call(controller_request(key, version, target), version)
    client.close()
    allowed = EXPECTED.get(key, {ErrorCode.NONE})
    if key is ApiKey.DESCRIBE_CLUSTER and version == 0:
        allowed = {ErrorCode.INVALID_REQUEST}  # Version 0 describes only brokers.
    if key in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
        allowed = EXPECTED[key]
    if key in QUORUM_APIS:
        allowed = {ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INCONSISTENT_CLUSTER_ID}
        if key is ApiKey.VOTE:
            allowed = {ErrorCode.NONE, ErrorCode.INVALID_REQUEST}  # Epoch 0 has no candidate.
        if key is ApiKey.FETCH and version < 13:
            allowed = {ErrorCode.NONE, ErrorCode.INVALID_REQUEST}  # The request names no topic by id.
    assert error_codes(answer) <= allowed, answer
    assert answer.encode(version)


def test_this_file_tries_exactly_the_versions_that_a_controller_advertises(node: Node) -> None:
    client = RawClient(node.controller_port)
    answer = client.call(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 4)
    client.close()
    advertised = {ApiKey(entry.api_key): (entry.min_version, entry.max_version) for entry in answer.api_keys}
    assert advertised == SERVED_BY_CONTROLLER


def closes(node: Node, key: int, version: int) -> bytes:
    """Return the answer to a bare header of that API and version before the connection ends, at most 20 bytes."""
    header = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True)
    frame = header + (7).to_bytes(4, "big") + b"\xff\xff"
    with socket.create_connection(("127.0.0.1", node.port), 10) as connection:
        connection.sendall(len(frame).to_bytes(4, "big") + frame)
        return connection.recv(100_000)


@pytest.mark.parametrize(("key", "version"), REFUSED, ids=lambda value: getattr(value, "name", f"v{value}"))
def test_any_other_version_closes_the_connection(node: Node, key: ApiKey, version: int) -> None:
    answer = closes(node, key, version)
    if key is not ApiKey.API_VERSIONS:
        assert answer == b""
        return
    _, position = ResponseHeader.read(answer[4:], 0, 0)
    refusal = ApiVersionsResponse.decode(answer[4:], 0, position)
    assert refusal.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert {ApiKey(entry.api_key) for entry in refusal.api_keys} >= {ApiKey.API_VERSIONS}


@pytest.mark.parametrize("key", [-1, 999, 32767])
def test_an_unknown_api_key_closes_the_connection(node: Node, key: int) -> None:
    assert closes(node, key, 0) == b""


def test_a_real_produce_of_an_unserved_version_closes_the_connection(node: Node, target: Target) -> None:
    header = RequestHeader(request_api_key=0, request_api_version=2, correlation_id=1, client_id="old")
    body = b"\xff\xff\x00\x00\x27\x10\x00\x00\x00\x00"
    frame = header.encode(request_header_version(ApiKey.PRODUCE, 3)) + body
    with socket.create_connection(("127.0.0.1", node.port), 10) as connection:
        connection.sendall(len(frame).to_bytes(4, "big") + frame)
        assert connection.recv(100) == b""
    assert "PRODUCE" in node.log.upper()
