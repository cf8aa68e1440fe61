"""Kafka Streams with exactly_once_v2 counts and joins each record once, also when it or a broker is killed."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.testing import Cluster, Node
from tests.interop.streams_load import (
    PARTITIONS,
    REPARTITION,
    TOPICS,
    Load,
    await_everything,
    disturb,
    first_offsets,
    random_of_run,
)
from tests.peers import running_kafka
from tests.peers.streams_application import StreamsApplication

pytestmark = [pytest.mark.interop, pytest.mark.ecosystem, pytest.mark.timeout(400)]

SETTINGS = {
    "commit.interval.ms": "100",
    "num.stream.threads": "2",
    "repartition.purge.interval.ms": "1000",
    "session.timeout.ms": "6000",  # How long a killed instance keeps its partitions.
    "heartbeat.interval.ms": "1000",
}


def test_counts_and_joins_are_exact_when_the_application_is_killed(tmp_path: Path) -> None:
    with Node(topics=dict.fromkeys(TOPICS, PARTITIONS)) as node, ExitStack() as stack:
        load = Load(node.bootstrap_servers, random_of_run())
        load.fill_table()
        load.write(200)
        application = StreamsApplication(tmp_path, node.bootstrap_servers, {**SETTINGS, "replication.factor": "1"})
        stack.callback(application.kill)
        application.start(timeout_s=120)
        await_everything(node.bootstrap_servers, load)
        load.write(300)
        application.kill()  # With records that it has read but not finished.
        application.start(timeout_s=120)
        load.write(100)
        await_everything(node.bootstrap_servers, load)
        assert application.restored() > 0
        assert not application.failures()
        assert application.stop() == 143
        assert "closed: true" in application.printed()
        assert "Traceback" not in node.log


@pytest.mark.long
@pytest.mark.parametrize("is_static", [False, True], ids=["dynamic members", "static members"])
def test_counts_and_joins_are_exact_when_brokers_and_instances_are_killed(tmp_path: Path, is_static: bool) -> None:
    random = random_of_run()
    broker_settings = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
    settings = {**SETTINGS, "replication.factor": "3", "num.standby.replicas": "1"}
    with (
        Cluster(3, topics=dict.fromkeys(TOPICS, PARTITIONS), settings=broker_settings) as cluster,
        ExitStack() as stack,
    ):
        servers = cluster.bootstrap_servers
        load = Load(servers, random)
        load.fill_table()
        instances = []
        for number in range(2):
            own = {"group.instance.id": f"instance{number}"} if is_static else {}
            instances.append(StreamsApplication(tmp_path / f"{number}", servers, {**settings, **own}))
            stack.callback(instances[-1].kill)
            instances[-1].start(timeout_s=120)
        kills = disturb(cluster, instances, load, random)
        print(f"killed: {', '.join(kills)}; {sum(load.words.values())} words, {len(load.pairs)} pairs")
        await_everything(servers, load, timeout_s=180)
        assert sum(instance.restored() for instance in instances) > 0
        assert not [failure for instance in instances for failure in instance.failures()]
        for instance in instances:
            instance.stop()
        assert not [broker.log for broker in cluster.brokers if "Traceback" in broker.log]


def undisturbed_run(servers: str, folder: Path, random: Random) -> StreamsApplication:
    """Run an instance from its start to its end, and return it."""
    admin = AdminClient({"bootstrap.servers": servers})
    for created in admin.create_topics([NewTopic(name, PARTITIONS) for name in TOPICS]).values():
        created.result(30)
    load = Load(servers, random)
    load.fill_table()
    application = StreamsApplication(folder, servers, {**SETTINGS, "replication.factor": "1"})
    try:
        application.start(timeout_s=120)
        load.write(1000)
        await_everything(servers, load)
        deadline = time.monotonic() + 30
        while min(first_offsets(servers, REPARTITION)) == 0:
            assert time.monotonic() < deadline, "the records of the repartition topic are not deleted"
            time.sleep(0.5)
        application.stop()
    finally:
        application.kill()
    return application


@pytest.mark.long
def test_streams_logs_no_warning_that_kafka_does_not_cause(tmp_path: Path) -> None:
    with running_kafka(tmp_path / "kafka-node") as kafka:
        expected = undisturbed_run(kafka.bootstrap_servers, tmp_path / "kafka", random_of_run()).warnings()
    with Node() as node:
        found = undisturbed_run(node.bootstrap_servers, tmp_path / "barnabas", random_of_run()).warnings()
    assert expected, "not even Streams' own advice was read"
    assert found - expected == set()
