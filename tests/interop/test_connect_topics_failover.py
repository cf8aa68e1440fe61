"""Leaders of an internal topic are killed while two workers write and read it: both receive every record once, in
order."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from barnabas.clients.admin import AdminClient, NewTopic
from barnabas.clients.consumer.topic_consumer import ConsumerRecord
from barnabas.connect.run.internal_topics.topic_admin import config_topic, internal_client_properties
from barnabas.connect.run.internal_topics.topic_log import TopicLog
from tests.peers.command_node import running_barnabas
from tests.peers.mixed import OurBroker

pytestmark = [pytest.mark.interop, pytest.mark.long]

TOPIC = "configs"
QUICK_FAILOVER = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[list[OurBroker]]:
    """Three brokers, of which two may be killed; the first is also a voter."""
    with running_barnabas(tmp_path / "1", settings={"node.id": "1", **QUICK_FAILOVER}) as node:
        cluster_id = asyncio.run(_cluster_id(node.bootstrap_servers))
        controllers = f"127.0.0.1:{node.controller_port}"
        started = [
            OurBroker(
                tmp_path / str(number), number, controllers=controllers, cluster_id=cluster_id, settings=QUICK_FAILOVER
            )
            for number in (2, 3)
        ]
        try:
            for broker in started:
                broker.start()
            yield started
        finally:
            for broker in started:
                broker.kill()


async def _cluster_id(bootstrap: str) -> str:
    async with AdminClient(bootstrap) as admin:
        cluster_id = (await admin.describe_cluster()).cluster_id
        assert cluster_id is not None
        return str(cluster_id)


async def _leader(admin: AdminClient) -> int | None:
    for _ in range(100):
        leader = (await admin.describe_topics([TOPIC]))[TOPIC].partitions[0].leader
        if leader is not None:
            break
        await asyncio.sleep(0.2)
    return leader


def test_no_record_is_lost_or_delivered_twice_while_leaders_are_killed(brokers: Sequence[OurBroker]) -> None:
    settings = {
        "bootstrap.servers": ",".join(broker.bootstrap_servers for broker in brokers),
        "group.id": "g",
        "config.storage.topic": TOPIC,
    }
    received: list[list[ConsumerRecord]] = [[], []]

    async def check() -> None:
        properties = internal_client_properties(settings, "configs")
        writer, reader = (TopicLog(config_topic(settings), properties, records.append) for records in received)

        async def write(until: asyncio.Event) -> int:
            count = 0
            while not until.is_set():
                await writer.write([(b"key", b"%d" % count)], timeout_s=60)
                count += 1
                await reader.read_to_end(timeout_s=60)
                assert received[1][-1].value == b"%d" % (count - 1)
            return count

        async with writer, reader, AdminClient(settings["bootstrap.servers"]) as admin:
            compacted = {"cleanup.policy": "compact", "min.insync.replicas": "1"}
            of_both = NewTopic(TOPIC, configs=compacted, assignments=[[broker.node_id for broker in brokers]])
            (await admin.create_topics([of_both], wait=True)).raise_for_errors()
            await writer.start()
            await reader.start()
            enough = asyncio.Event()
            writing = asyncio.create_task(write(enough))
            for _ in range(3):
                await asyncio.sleep(1)
                leader = await _leader(admin)
                (broker,) = [broker for broker in brokers if broker.node_id == leader]
                broker.kill()
                await asyncio.sleep(1)
                await asyncio.to_thread(broker.start)
            enough.set()
            written = await writing
            await writer.read_to_end()
        for records in received:
            assert [record.value for record in records] == [b"%d" % number for number in range(written)]
            assert [record.offset for record in records] == sorted({record.offset for record in records})

    asyncio.run(check())
