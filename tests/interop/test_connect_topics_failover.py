"""Leaders of an internal topic are killed while two workers write and read it: both receive every record once, in
order."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from barnabas.clients.admin import AdminClient, NewTopic
from barnabas.clients.consumer.topic_consumer import ConsumerRecord
from barnabas.connect.run.internal_topics.topic_admin import config_topic, internal_client_properties
from barnabas.connect.run.internal_topics.topic_log import TopicLog
from barnabas.testing import Cluster

pytestmark = [pytest.mark.interop, pytest.mark.long]

TOPIC = "configs"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Two brokers that may be killed, and a controller."""
    with Cluster(brokers=2, controllers=1) as cluster:
        yield cluster


def test_no_record_is_lost_or_delivered_twice_while_leaders_are_killed(cluster: Cluster) -> None:
    settings = {
        "bootstrap.servers": cluster.bootstrap_servers,
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
            of_both = NewTopic(TOPIC, configs=compacted, assignments=[[broker.node_id for broker in cluster.brokers]])
            (await admin.create_topics([of_both], wait=True)).raise_for_errors()
            await writer.start()
            await reader.start()
            enough = asyncio.Event()
            writing = asyncio.create_task(write(enough))
            for _ in range(3):
                await asyncio.sleep(1)
                leader = await asyncio.to_thread(cluster.leader, TOPIC)
                leader.kill()
                await asyncio.sleep(1)
                await asyncio.to_thread(leader.start)
            enough.set()
            written = await writing
            await writer.read_to_end()
        for records in received:
            assert [record.value for record in records] == [b"%d" % number for number in range(written)]
            assert [record.offset for record in records] == sorted({record.offset for record in records})

    asyncio.run(check())
