"""Rights are revoked while a client is connected: soon its next answer is a denial, with ours as with Kafka."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.sync_group import SyncGroupRequest
from tests.interop.raw_client import RawClient
from tests.peers import KafkaNode
from tests.peers.acl_matrix import ADMIN, parse_rights
from tests.peers.acl_rows_data import BATCH
from tests.peers.acl_stage import Stage, create_acls, delete_acls, log_in, secure_settings
from tests.peers.command_node import CommandNode

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

USER = "someone"
Story = list[tuple[str, Any]]


class Rights:
    """Grants and revokes rights. Kafka's broker learns of it later than its controller, so the tests poll for
    answers."""

    def __init__(self, port: int) -> None:
        self._admin = log_in(port, ADMIN)

    def grant(self, text: str) -> None:
        create_acls(self._admin, parse_rights(text, USER, None))

    def revoke(self, text: str) -> None:
        delete_acls(self._admin, parse_rights(text, USER, None))

    def close(self) -> None:
        self._admin.close()


def story_of(node: KafkaNode | CommandNode) -> Story:
    node.change_settings(secure_settings(node, [USER]))
    node.start()
    try:
        Stage(node, []).close()
        rights = Rights(node.port)
        story = [
            *_of_a_fetch_session(node.port, rights),
            *_of_a_producer(node.port, rights),
            *_of_a_group_member(node.port, rights),
            *_of_metadata(node.port, rights),
        ]
        rights.close()
        return story
    finally:
        node.stop()


def _of_a_fetch_session(port: int, rights: Rights) -> Story:
    """The session continues; the forbidden partition appears in it with an error, and returns later."""
    rights.grant("READ TOPIC orders; READ TOPIC other")
    client = log_in(port, USER)
    first = _fetched(client, "orders", "other")
    story = [("session", _errors(first))]
    session = first.session_id
    rights.revoke("READ TOPIC orders")
    story.append(("revoked", _first_that(lambda epoch: _errors(_next(client, session, epoch)))))
    rights.grant("READ TOPIC orders")
    client.close()
    client = log_in(port, USER)
    story.append(("granted again", _errors(_fetched(client, "orders", "other"))))
    client.close()
    rights.revoke("READ TOPIC orders; READ TOPIC other")
    return story


def _fetched(client: RawClient, *topics: str) -> Any:
    wanted = [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=10_000)]
    request = FetchRequest(
        max_bytes=100_000,
        session_epoch=0,
        session_id=0,
        topics=[FetchTopic(topic=topic, partitions=wanted) for topic in topics],
    )
    return client.call(request, 12)


def _next(client: RawClient, session: int, epoch: int) -> Any:
    return client.call(FetchRequest(max_bytes=100_000, session_epoch=epoch, session_id=session), 12)


def _errors(response: Any) -> list[tuple[str, str]]:
    return sorted(
        (topic.topic, ErrorCode(partition.error_code).name)
        for topic in response.responses
        for partition in topic.partitions
    )


def _first_that(ask: Callable[[int], list[tuple[str, str]]]) -> list[tuple[str, str]]:
    """Return the first answer with a denial; earlier answers may still follow the old rights."""
    for epoch in range(1, 100):
        found = ask(epoch)
        if any("AUTHORIZATION" in error for _, error in found):
            return [item for item in found if "AUTHORIZATION" in item[1]]
        time.sleep(0.05)
    raise AssertionError("the right was never revoked")


def _of_a_producer(port: int, rights: Rights) -> Story:
    rights.grant("WRITE TOPIC ord...")
    client = log_in(port, USER)
    story: Story = [("produced", _produced(client))]
    rights.grant("deny WRITE TOPIC orders")
    story.append(("denied", _until(lambda: _produced(client), "TOPIC_AUTHORIZATION_FAILED")))
    rights.revoke("deny WRITE TOPIC orders")
    story.append(("allowed", _until(lambda: _produced(client), "NONE")))
    rights.revoke("WRITE TOPIC ord...")
    story.append(("revoked", _until(lambda: _produced(client), "TOPIC_AUTHORIZATION_FAILED")))
    client.close()
    return story


def _produced(client: RawClient) -> str:
    data = TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=0, records=BATCH)])
    response = client.call(ProduceRequest(acks=1, timeout_ms=5000, topic_data=[data]), 12)
    return ErrorCode(response.responses[0].partition_responses[0].error_code).name


def _until(ask: Callable[[], str], wanted: str) -> str:
    for _ in range(100):
        if (answer := ask()) == wanted:
            break
        time.sleep(0.05)
    return answer


def _of_a_group_member(port: int, rights: Rights) -> Story:
    rights.grant("READ GROUP members")
    client = log_in(port, USER)
    join = JoinGroupRequest(
        group_id="members",
        session_timeout_ms=20_000,
        rebalance_timeout_ms=20_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    join.member_id = client.call(join, 9).member_id
    joined = client.call(join, 9)
    client.call(
        SyncGroupRequest(
            group_id="members",
            generation_id=joined.generation_id,
            member_id=join.member_id,
            protocol_type="consumer",
            protocol_name="range",
        ),
        5,
    )
    beat = HeartbeatRequest(group_id="members", generation_id=joined.generation_id, member_id=join.member_id)

    def answer() -> str:
        return ErrorCode(client.call(beat, 4).error_code).name

    story: Story = [("heartbeat", answer())]
    rights.revoke("READ GROUP members")
    story.append(("revoked", _until(answer, "GROUP_AUTHORIZATION_FAILED")))
    rights.grant("READ GROUP members")
    story.append(("still a member", _until(answer, "NONE")))
    client.close()
    return story


def _of_metadata(port: int, rights: Rights) -> Story:
    client = log_in(port, USER)

    def seen() -> str:
        return ",".join(sorted(topic.name for topic in client.call(MetadataRequest(topics=None), 12).topics))

    story: Story = [("nothing", seen())]
    rights.grant("DESCRIBE TOPIC ord...")
    story.append(("prefix", _until(seen, "orders,orders-eu")))
    rights.grant("deny DESCRIBE TOPIC orders-eu")
    story.append(("one denied", _until(seen, "orders")))
    rights.revoke("DESCRIBE TOPIC ord...")
    story.append(("revoked", _until(seen, "")))
    client.close()
    return story


def test_a_connected_client_loses_revoked_rights_as_with_kafka(kafka_peer: Path, tmp_path: Path) -> None:
    theirs = story_of(KafkaNode(tmp_path / "kafka"))
    assert [label for label, answer in theirs if not answer] == ["nothing", "revoked"]
    assert story_of(CommandNode(tmp_path / "ours")) == theirs
