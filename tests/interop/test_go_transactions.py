"""franz-go and sarama copy a topic exactly once, and fence each other's producers, on our nodes as on Kafka."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.testing import Cluster
from tests.peers.go import go_program
from tests.peers.kinds import BARNABAS, run_on_each_kind

pytestmark = [pytest.mark.interop, pytest.mark.ecosystem, pytest.mark.long, pytest.mark.timeout(300)]

COUNT = 2000
PARTITIONS = 4


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    run_on_each_kind(metafunc, "servers")


@pytest.fixture(scope="module")
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == BARNABAS:
        with Cluster(3) as cluster:
            yield cluster.bootstrap_servers
    else:
        yield request.getfixturevalue("real_kafka").bootstrap_servers


@pytest.fixture(scope="module")
def program() -> Path:
    return go_program("transactions")


def read(servers: str, topic: str, isolation: str) -> list[int]:
    """Return the numbers that a topic has now, without those of the producers that are fenced."""
    settings = {"bootstrap.servers": servers, "group.id": topic, "isolation.level": isolation}
    consumer = Consumer({**settings, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    values: list[str] = []
    ended = 0
    while ended < PARTITIONS:
        message = consumer.poll(30)
        assert message is not None
        if message.error() is None:
            values.append((message.value() or b"").decode())
        else:
            assert message.error().name() == "_PARTITION_EOF"
            ended += 1
    consumer.close()
    return sorted(int(value) for value in values if value != "open")


@pytest.mark.parametrize("client", ["franz", "sarama"])
def test_a_topic_is_copied_exactly_once(servers: str, program: Path, client: str) -> None:
    names = [f"{client}-{uuid4().hex[:8]}-{end}" for end in ("in", "out")]
    admin = AdminClient({"bootstrap.servers": servers})
    for created in admin.create_topics([NewTopic(name, PARTITIONS) for name in names]).values():
        created.result(30)
    producer = Producer({"bootstrap.servers": servers})
    for number in range(COUNT):
        producer.produce(names[0], f"{number}", f"{number}")
    assert producer.flush(30) == 0
    done = subprocess.run(
        [str(program), client, servers, *names, str(COUNT)], capture_output=True, text=True, timeout=150, check=False
    )
    assert done.returncode == 0, done.stderr
    printed = done.stdout.splitlines()
    assert printed[-2:] == ["copied", "fenced"]
    assert printed.count("aborted") > 1
    assert read(servers, names[1], "read_committed") == list(range(COUNT))
    assert len(read(servers, names[1], "read_uncommitted")) > COUNT
