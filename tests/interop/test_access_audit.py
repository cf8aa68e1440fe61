"""The access audit of a node with users and ACLs: log lines, the topic, and the operations on both that clients are
denied."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas.common.acl import AclOperation, AclPermissionType
from barnabas.common.resource import PatternType, ResourceType
from barnabas.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.record_batch import Record, iter_batches
from barnabas.protocol.record_batch_builder import build_batch
from tests.interop.raw_client import RawClient
from tests.peers.secure import USERS, SecureNode, running_secure_barnabas

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

TOPIC = "__access_audit"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureNode]:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
        "barnabas.audit.topic.enable": "true",
        "barnabas.audit.topic.partitions": "3",
        "barnabas.audit.window.ms": "500",
        "barnabas.audit.denials.per.window": "2",
        "barnabas.metrics.listener": "",
    }
    with running_secure_barnabas(
        tmp_path_factory.mktemp("audit"),
        protocols=("PLAINTEXT", "SASL_PLAINTEXT"),
        mechanisms=("PLAIN",),
        settings=settings,
    ) as running:
        admin = login(running, "admin")
        admin.call(CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=2, replication_factor=1)]))
        admin.call(CreateAclsRequest(creations=[acl("orders", "User:alice", AclOperation.WRITE)]))
        admin.close()
        yield running


def login(node: SecureNode, user: str, client_id: str = "tests") -> RawClient:
    client = RawClient(node.ports["SASL_PLAINTEXT"], client_id=client_id)
    client.log_in(user, USERS[user])
    return client


def acl(name: str, principal: str, operation: AclOperation) -> AclCreation:
    return AclCreation(
        resource_type=ResourceType.TOPIC,
        resource_name=name,
        resource_pattern_type=PatternType.LITERAL,
        principal=principal,
        host="*",
        operation=operation,
        permission_type=AclPermissionType.ALLOW,
    )


def produce(client: RawClient, topic: str, *partitions: int) -> Any:
    batch = build_batch([Record(0, 1000, None, b"x", ())])
    data = [PartitionProduceData(index=index, records=batch) for index in partitions]
    request = ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[TopicProduceData(name=topic, partition_data=data)])
    return client.call(request, 9).responses[0].partition_responses


def audited(node: SecureNode, wanted: Callable[[dict[str, Any]], bool], count: int = 1) -> list[dict[str, Any]]:
    """Return the matching events of the topic once there are at least this many."""
    admin = login(node, "admin")
    deadline = time.monotonic() + 20
    while True:
        topics = [
            FetchTopic(
                topic=TOPIC,
                partitions=[
                    FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20) for index in range(3)
                ],
            )
        ]
        answer = admin.call(FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 24, topics=topics), 12)
        found = [
            json.loads(bytes(record.value or b""))
            for partition in answer.responses[0].partitions
            for batch in iter_batches(partition.records or b"")
            for record in batch.records()
        ]
        fitting = [event for event in found if wanted(event)]
        if len(fitting) >= count:
            admin.close()
            return fitting
        assert time.monotonic() < deadline, found
        time.sleep(0.2)


def test_an_allowed_and_a_denied_decision_name_their_acls(node: SecureNode) -> None:
    alice = login(node, "alice", client_id='app"1\n')
    assert [response.error_code for response in produce(alice, "orders", 0, 1)] == [0, 0]
    (denied,) = produce(alice, "payments", 0)
    alice.close()
    assert (denied.error_code, denied.error_message) == (29, "User:alice lacks WRITE on Topic:payments")
    (allowed,) = audited(node, lambda event: event["principal"] == "User:alice" and event["allowed"])
    assert (allowed["api"], allowed["resource_name"], allowed["references"]) == ("Produce", "orders", 2)
    assert allowed["rule"] == "MatchingAcl"
    assert re.fullmatch(r"[A-Za-z0-9_-]{22}", allowed["rule_id"])
    assert "User:alice" in allowed["rule_text"]
    assert (allowed["listener"], allowed["host"], allowed["client_id"]) == ("SASL_PLAINTEXT", "127.0.0.1", 'app"1\n')
    (refused,) = audited(node, lambda event: event.get("resource_name") == "payments")
    assert (refused["allowed"], refused["rule"], refused["rule_id"]) == (False, "DefaultDeny", None)
    lines = [line for line in node.process.printed().splitlines() if "kafka.authorizer.logger" in line]
    (line,) = [line for line in lines if "payments" in line]
    assert "Principal = User:alice is Denied operation = WRITE from host = 127.0.0.1" in line
    assert 'client = "app\\"1\\\\n"' in line or 'client = "app\\"1\\n"' in line


def test_a_flood_of_denials_is_counted(node: SecureNode) -> None:
    bob = login(node, "bob")
    for _ in range(20):
        bob.call(MetadataRequest(topics=[MetadataRequestTopic(name="secret")]), 12)
    bob.close()

    def is_recorded(event: dict[str, Any]) -> bool:
        return event.get("resource_name") == "secret"

    deadline = time.monotonic() + 20
    while sum(event["decisions"] for event in audited(node, is_recorded)) < 20 and time.monotonic() < deadline:
        time.sleep(0.2)
    events = audited(node, is_recorded)
    assert sum(event["decisions"] for event in events) == 20
    assert len(events) < 10


def test_no_client_writes_to_the_audit_topic_or_deletes_from_it(node: SecureNode) -> None:
    admin = login(node, "admin")
    admin_tool = login(node, "admin", client_id="__admin_client")
    for client in (admin, admin_tool):
        (refused,) = produce(client, TOPIC, 0)
        assert refused.error_code == 17
    (kept,) = admin.call(DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC)]), 6).responses
    assert kept.error_code == 42
    assert "barnabas.audit.topic.enable" in kept.error_message
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=TOPIC, partitions=[DeleteRecordsPartition(partition_index=0, offset=-1)])],
        timeout_ms=5000,
    )
    assert admin.call(request).topics[0].partitions[0].error_code == 17
    admin.close()
    admin_tool.close()
    alice = login(node, "alice")
    fetch = FetchTopic(topic=TOPIC, partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)])
    answer = alice.call(FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1000, topics=[fetch]), 12)
    assert answer.responses[0].partitions[0].error_code == 29
    (described,) = alice.call(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 12).topics
    assert described.error_code == 29
    alice.close()


def test_an_idle_node_stops_appending_to_the_audit_topic(node: SecureNode) -> None:
    """Appends to the topic need no access decision: without clients, only the node's own heartbeats are recorded."""
    time.sleep(1.5)
    before = len(audited(node, lambda event: event.get("principal") not in ("User:ANONYMOUS", "User:admin"), 0))
    time.sleep(1.5)
    after = audited(node, lambda event: event.get("principal") not in ("User:ANONYMOUS", "User:admin"), 0)
    assert len(after) == before
