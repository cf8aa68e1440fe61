"""The persister of a node: its own share coordinator, and that of a real Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from barnabas.clients.admin import NewTopic, SyncAdminClient
from barnabas.common.error_code import ErrorCode
from barnabas.common.topic_name import SHARE_STATE_TOPIC
from barnabas.common.uuid import Uuid
from barnabas.coordinator.share.persister import (
    SUCCESS,
    Persister,
    SharePartitionKey,
    SharePartitionState,
    SharePartitionSummary,
    StateBatch,
)
from barnabas.server.node import Node
from barnabas.server.settings.node_config import load_node_config
from tests.interop.raw_client import RawClient
from tests.peers import KafkaNode
from tests.peers.node_process import free_ports
from tests.peers.quorums import barnabas, wait_until
from tests.peers.share_state_client import ShareStateClient

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

PARTITIONS = 30
BATCHES = [StateBatch(3, 5, 2, 1), StateBatch(9, 9, 0, 2)]
SETTINGS = {
    "share.coordinator.state.topic.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


@asynccontextmanager
async def running(settings: dict[str, str]) -> AsyncIterator[Node]:
    node = Node(load_node_config(None, [f"{key}={value}" for key, value in {**SETTINGS, **settings}.items()]))
    await node.start()
    try:
        yield node
    finally:
        await node.stop()


def persister_of(node: Node) -> Persister:
    assert node.broker_part is not None
    return node.broker_part.broker.share_persister


async def live(persister: Persister, topic_id: Uuid) -> None:
    """Create, write, read and remove the state of many share-partitions."""
    every = range(PARTITIONS)

    async def of_each(call: object) -> list[object]:
        return list(await asyncio.gather(*(call(partition) for partition in every)))  # type: ignore[operator]

    async def write_twice(partition: int) -> tuple[object, object]:
        written = (persister.write_state("g", topic_id, partition, 4, 7, 3, 2, [batch]) for batch in BATCHES)
        return tuple(await asyncio.gather(*written))  # type: ignore[return-value]

    assert await of_each(lambda number: persister.initialize_state("g", topic_id, number, 4, 3)) == [SUCCESS] * 30
    read = await of_each(lambda number: persister.read_state("g", topic_id, number, 7))
    assert read == [SharePartitionState(0, None, 4, 3, ())] * 30
    assert await of_each(write_twice) == [(SUCCESS, SUCCESS)] * 30
    read = await of_each(lambda number: persister.read_state("g", topic_id, number, 7))
    assert read == [SharePartitionState(0, None, 4, 3, tuple(BATCHES))] * 30
    summaries = await of_each(lambda number: persister.read_summary("g", topic_id, number, -1))
    assert summaries == [SharePartitionSummary(0, None, 4, 7, 3, 2)] * 30
    code, message = await persister.write_state("g", topic_id, 0, 4, 6, 3, 2, BATCHES)
    assert (code, bool(message)) == (ErrorCode.FENCED_LEADER_EPOCH, True)
    assert await persister.delete_state("g", topic_id, 0) == SUCCESS
    assert (await persister.read_summary("g", topic_id, 0, -1)).start_offset == -1


async def create_topic(port: int) -> Uuid:
    def create() -> Uuid:
        with closing(ShareStateClient(RawClient(port))) as client:
            return client.create_topic("queue", PARTITIONS)

    return await asyncio.to_thread(create)


def test_the_first_call_creates_the_topic_of_the_nodes_own_coordinator(tmp_path: Path) -> None:
    asyncio.run(_live_alone(tmp_path))


async def _live_alone(tmp_path: Path) -> None:
    port, controller_port = free_ports(2)
    settings = {
        "log.dirs": str(tmp_path / "data"),
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
    }
    async with running(settings) as node:
        topic_id = await create_topic(port)
        assert node.core.metadata.topic(SHARE_STATE_TOPIC) is None
        await live(persister_of(node), topic_id)
        topic = node.core.metadata.topic(SHARE_STATE_TOPIC)
        assert topic is not None
        assert len(topic.partitions) == 4


def test_state_is_kept_by_the_coordinator_of_a_real_kafka(kafka_peer: Path, tmp_path: Path) -> None:
    asyncio.run(_live_beside_kafka(tmp_path))


async def _live_beside_kafka(tmp_path: Path) -> None:
    kafka = KafkaNode(tmp_path / "kafka", settings=SETTINGS)
    await asyncio.to_thread(kafka.start)
    try:
        cluster_id = (tmp_path / "kafka/data/meta.properties").read_text().partition("cluster.id=")[2].split("\n")[0]
        (port,) = free_ports(1)
        settings = {
            "process.roles": "broker",
            "node.id": "2",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{kafka.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "log.dirs": str(tmp_path / "ours"),
        }
        properties = tmp_path / "ours.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in {**SETTINGS, **settings}.items()))
        await asyncio.to_thread(barnabas, "storage", "format", "-t", cluster_id, "-c", str(properties))
        await asyncio.to_thread(create_state_topic, kafka)
        async with running(settings) as node:
            topic_id = await create_topic(kafka.port)
            metadata = node.core.metadata
            await asyncio.to_thread(
                wait_until, lambda: metadata.topic_by_id(topic_id) is not None, what="the broker knows the topic"
            )
            await live(persister_of(node), topic_id)
            await asyncio.to_thread(check_at, kafka, SharePartitionKey("g", topic_id, 1))
    finally:
        await asyncio.to_thread(kafka.end)


def create_state_topic(kafka: KafkaNode) -> None:
    with SyncAdminClient(kafka.bootstrap_servers) as admin:
        configs = {"cleanup.policy": "delete", "retention.ms": "-1"}
        new = NewTopic(SHARE_STATE_TOPIC, configs=configs, assignments=[[1]] * 4)
        admin.create_topics([new], wait=True).raise_for_errors()


def check_at(kafka: KafkaNode, key: SharePartitionKey) -> None:
    with closing(ShareStateClient(RawClient(kafka.port))) as client:
        assert client.read(key) == SharePartitionState(0, None, 4, 3, tuple(BATCHES))
