"""Members of share groups on our node: raw requests, answered like Kafka's, and Java's share consumer, as on Kafka."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer

from barnabas.clients.admin import AlterConfigOp, ConfigResource, NewTopic, SyncAdminClient
from barnabas.common.config_codes import ConfigResourceType
from tests.peers import KafkaNode
from tests.peers.command_node import CommandNode
from tests.peers.java import run_source
from tests.peers.live_share_broker import LiveShareBroker
from tests.peers.share_requests import assert_equal_to_kafkas, walk

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]

RECORDS = 600
MODES = ("batch_optimized", "record_limit")
SETTINGS = {
    "share.coordinator.state.topic.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
Node = CommandNode | KafkaNode


class Settled(NamedTuple):
    """What the members did with records: value -> how often they accepted or rejected it."""

    confirmed: Counter[str]
    unclear: Counter[str]
    deliveries_max: int
    lines: Counter[str]


@pytest.fixture(params=["ours", "kafka"])
def node(request: pytest.FixtureRequest, kafka_peer: Path, tmp_path: Path) -> Iterator[Node]:
    made: Node
    if request.param == "ours":
        made = CommandNode(tmp_path / "node", settings=SETTINGS)
    else:
        made = KafkaNode(tmp_path / "node", settings=SETTINGS)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def our_node(kafka_peer: Path, tmp_path: Path) -> Iterator[CommandNode]:
    with _our_node(tmp_path, SETTINGS) as made:
        yield made


@pytest.fixture
def killed_node(kafka_peer: Path, tmp_path: Path) -> Iterator[CommandNode]:
    """Records whose delivery a kill has cut off wait until their locks end, by default for 30 seconds each time."""
    locks = {"group.share.min.record.lock.duration.ms": "1000", "group.share.record.lock.duration.ms": "5000"}
    limit = {"group.share.delivery.count.limit": "10"}  # Each such delivery counts.
    with _our_node(tmp_path, {**SETTINGS, **locks, **limit}) as made:
        yield made


@contextmanager
def _our_node(folder: Path, settings: dict[str, str]) -> Iterator[CommandNode]:
    made = CommandNode(folder / "node", settings=settings)
    made.start()
    yield made
    made.stop()
    assert "Traceback" not in made.printed()


def fill(node: Node, topic: str) -> None:
    server = f"127.0.0.1:{node.port}"
    with SyncAdminClient(server) as admin:
        admin.create_topics([NewTopic(topic, partitions=3)], wait=True).raise_for_errors()
        earliest = AlterConfigOp("share.auto.offset.reset", "earliest")
        admin.incremental_alter_configs(
            {ConfigResource(ConfigResourceType.GROUP, topic): [earliest]}
        ).raise_for_errors()
    producer = Producer({"bootstrap.servers": server, "linger.ms": 5})
    for number in range(RECORDS):
        producer.produce(topic, f"record-{number}", partition=number % 3)
    producer.flush(30)


def work(node: Node, topic: str, *, members: int, mode: str) -> Settled:
    """Let members of the group of the same name as the topic settle all records."""
    server = f"127.0.0.1:{node.port}"
    output = run_source("ShareWorkers", server, topic, topic, str(members), str(RECORDS), "90", mode)
    lines = [line.split() for line in output.splitlines()]
    assert not [line for line in lines if line[0] == "failed"]
    confirmed = [line for line in lines if line[0] in ("accept", "reject")]
    return Settled(
        Counter(line[1] for line in confirmed),
        Counter(line[2] for line in lines if line[0] == "unclear"),
        max(int(line[2]) for line in confirmed),
        Counter(line[0] for line in lines),
    )


def test_raw_requests_are_answered_like_kafkas(our_node: CommandNode) -> None:
    with closing(LiveShareBroker(our_node.port)) as broker:
        assert_equal_to_kafkas(walk(broker))


@pytest.mark.parametrize("mode", MODES)
def test_members_settle_each_record_once(node: Node, mode: str) -> None:
    fill(node, mode)
    settled = work(node, mode, members=4, mode=mode)
    assert settled.confirmed == Counter(f"record-{number}" for number in range(RECORDS))
    assert not settled.unclear
    assert settled.deliveries_max > 1, "some were released"
    assert settled.lines["renew"] > 0
    assert settled.lines["reject"] > 0


def test_members_settle_no_record_twice_while_the_node_is_killed(killed_node: CommandNode) -> None:
    fill(killed_node, "killed")
    with ThreadPoolExecutor() as pool:
        working = pool.submit(work, killed_node, "killed", members=4, mode="record_limit")
        for _ in range(2):
            time.sleep(5)
            killed_node.kill()
            killed_node.start()
        settled = working.result()
    assert max(settled.confirmed.values()) == 1
    assert settled.confirmed.keys() | settled.unclear.keys() == {f"record-{number}" for number in range(RECORDS)}
