"""Kafka Streams with ``group.protocol=streams`` (KIP-1071): the coordinator assigns tasks and creates topics."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from barnabas.clients.admin import AlterConfigOp, ConfigResource, ConfigResourceType, SyncAdminClient
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.testing import Cluster, Node
from tests.interop.raw_client import RawClient
from tests.interop.streams_load import PARTITIONS, TOPICS, Load, await_everything, disturb, random_of_run
from tests.peers.streams_application import StreamsApplication

pytestmark = [pytest.mark.interop, pytest.mark.ecosystem, pytest.mark.timeout(400)]

GROUP = "application"
NODE_SETTINGS = {
    "group.streams.min.session.timeout.ms": "5000",
    "group.streams.session.timeout.ms": "5000",  # How long a killed instance keeps its tasks.
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.initial.rebalance.delay.ms": "500",
}
CLUSTER_SETTINGS = {**NODE_SETTINGS, "broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
SETTINGS = {
    "group.protocol": "streams",
    "commit.interval.ms": "100",
    "num.stream.threads": "2",
    "repartition.purge.interval.ms": "1000",
}
TASKS = 4 * PARTITIONS
TASKS_WITH_STATE = 3 * PARTITIONS  # All but those that split lines to words.


def test_counts_and_joins_are_exact_when_the_application_is_killed(tmp_path: Path) -> None:
    with Node(topics=dict.fromkeys(TOPICS, PARTITIONS), settings=NODE_SETTINGS) as node, ExitStack() as stack:
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
def test_counts_and_joins_are_exact_when_brokers_and_instances_are_killed(tmp_path: Path) -> None:
    random = random_of_run()
    with (
        Cluster(3, topics=dict.fromkeys(TOPICS, PARTITIONS), settings=CLUSTER_SETTINGS) as cluster,
        ExitStack() as stack,
    ):
        servers = cluster.bootstrap_servers
        want_standby_tasks(servers)
        load = Load(servers, random)
        load.fill_table()
        instances = []
        for number in range(2):
            instances.append(
                StreamsApplication(tmp_path / f"{number}", servers, {**SETTINGS, "replication.factor": "3"})
            )
            stack.callback(instances[-1].kill)
            instances[-1].start(timeout_s=120)
        await_all_tasks(servers)
        load.write(100)
        kill_the_coordinator(cluster, load)
        kills = disturb(cluster, instances, load, random)
        print(f"killed: {', '.join(kills)}; {sum(load.words.values())} words, {len(load.pairs)} pairs")
        await_everything(servers, load, timeout_s=180)
        await_all_tasks(servers)
        assert sum(instance.restored() for instance in instances) > 0
        assert not [failure for instance in instances for failure in instance.failures()]
        for instance in instances:
            instance.stop()
        assert not [broker.log for broker in cluster.brokers if "Traceback" in broker.log]


def want_standby_tasks(servers: str) -> None:
    with SyncAdminClient(servers) as admin:
        one = AlterConfigOp("streams.num.standby.replicas", "1")
        group = ConfigResource(ConfigResourceType.GROUP, GROUP)
        admin.incremental_alter_configs({group: [one]}).raise_for_errors()


def await_all_tasks(servers: str, *, timeout_s: float = 90) -> None:
    """Wait until each task is active once, and on standby in another process if it has state."""
    deadline = time.monotonic() + timeout_s
    with SyncAdminClient(servers) as admin:
        while True:
            active, standby = Counter[object](), Counter[object]()
            processes = set[tuple[object, str | None]]()
            for member in admin.describe_groups([GROUP])[GROUP].members:
                assert member.tasks is not None
                active.update(member.tasks.active)
                standby.update(member.tasks.standby)
                processes |= {(task, member.process_id) for task in member.tasks.active + member.tasks.standby}
            assert not active or max(active.values()) == 1
            assert len(processes) == active.total() + standby.total(), "a process has a task twice"
            if (active.total(), standby.total()) == (TASKS, TASKS_WITH_STATE):
                return
            assert time.monotonic() < deadline, f"active: {active}, standby: {standby}"
            time.sleep(0.5)


def kill_the_coordinator(cluster: Cluster, load: Load) -> None:
    """Kill the broker that coordinates the group, while records are written."""
    with closing(RawClient(cluster.brokers[0].port)) as client:
        (found,) = client.call(FindCoordinatorRequest(coordinator_keys=[GROUP], key_type=0)).coordinators
    broker = cluster.node(found.node_id)
    load.write(50)
    broker.kill()
    load.write(50)
    broker.start()
