"""Quotas, elections, reassignments, features and the quorum of a running node, by requests and by Java's tools."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.testing import Node
from tests.peers import run_class
from tests.peers.mutation_requests import mutations
from tests.peers.record_admin_answers import Connection
from tests.unit.controller.test_recorded_answers import comparable
from tests.unit.controller.test_recorded_mutations import BETTER, recorded

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]

FROM_RUN_TO_RUN = ("highWatermark", "logEndOffset", "lastFetchTimestamp", "lastCaughtUpTimestamp", "port")


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as node:
        yield node
        node.stop()
        assert "Traceback" not in node.log


def without_what_changes(answer: Any) -> Any:
    if isinstance(answer, dict):
        return {
            key: value > 0
            if key in FROM_RUN_TO_RUN
            else "set"
            if key == "replicaDirectoryId"
            else without_what_changes(value)
            for key, value in answer.items()
        }
    return [without_what_changes(item) for item in answer] if isinstance(answer, list) else answer


def test_every_answer_on_the_wire_equals_kafkas(node: Node) -> None:
    answers, connection = recorded(), Connection(node.port)
    different = {}
    for name, request, version in mutations():
        ours = comparable(without_what_changes(connection.ask(request, version).to_json(version)))
        kafka = comparable(without_what_changes(answers[name]))
        if ours != kafka and name not in BETTER:
            different[name] = (json.dumps(kafka), json.dumps(ours))
    connection.close()
    assert different == {}


def test_java_reads_the_quorum(kafka_peer: Path, node: Node) -> None:
    status = run_class("quorum", "--bootstrap-server", node.bootstrap_servers, "describe", "--status").stdout
    assert "LeaderId:               1" in status, status
    replication = run_class("quorum", "--bootstrap-server", node.bootstrap_servers, "describe", "--replication").stdout
    assert [line.split()[-1] for line in replication.strip().splitlines()[1:]] == ["Leader"], replication
    controllers = ("--bootstrap-controller", f"127.0.0.1:{node.controller_port}")
    assert "LeaderEpoch:" in run_class("quorum", *controllers, "describe", "--status").stdout


def test_java_sets_and_reads_quotas(kafka_peer: Path, node: Node) -> None:
    def configs(*arguments: str) -> str:
        return run_class("configs", "--bootstrap-server", node.bootstrap_servers, *arguments).stdout

    who = ("--entity-type", "users", "--entity-name", "quentin", "--entity-type", "clients", "--entity-name", "a b:c")
    configs("--alter", "--add-config", "producer_byte_rate=1024,request_percentage=50.5", *who)
    assert "producer_byte_rate=1024.0" in configs("--describe", *who)
    configs("--alter", "--delete-config", "producer_byte_rate", *who)
    described = configs("--describe", *who)
    assert "request_percentage=50.5" in described
    assert "producer_byte_rate" not in described
    configs("--alter", "--add-config", "connection_creation_rate=7", "--entity-type", "ips", "--entity-default")
    assert "connection_creation_rate=7.0" in configs("--describe", "--entity-type", "ips", "--entity-default")


def test_java_elects_reassigns_and_updates_features(kafka_peer: Path, node: Node, tmp_path: Path) -> None:
    to_node = ("--bootstrap-server", node.bootstrap_servers)
    run_class("topics", *to_node, "--create", "--topic", "elected", "--partitions", "2")
    run_class("leader-election", *to_node, "--election-type", "preferred", "--all-topic-partitions")
    plan = tmp_path / "plan.json"
    partitions = [{"topic": "elected", "partition": index, "replicas": [1]} for index in (0, 1)]
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    with_plan = (*to_node, "--reassignment-json-file", str(plan))
    assert "Successfully started" in run_class("reassign-partitions", *with_plan, "--execute").stdout
    assert "is completed" in run_class("reassign-partitions", *with_plan, "--verify").stdout
    assert "No partition reassignments found" in run_class("reassign-partitions", *to_node, "--list").stdout
    features = run_class("features", *to_node, "upgrade", "--feature", "transaction.version=2", "--dry-run").stdout
    assert "transaction.version can be upgraded to 2" in features
    run_class("features", *to_node, "downgrade", "--feature", "eligible.leader.replicas.version=0")
    levels = [line.split() for line in run_class("features", *to_node, "describe").stdout.splitlines()]
    assert ["eligible.leader.replicas.version", "0"] in [[line[1], line[7]] for line in levels]


def test_java_describes_the_cluster_and_unregisters_a_stopped_broker(kafka_peer: Path, node: Node) -> None:
    to_node = ("--bootstrap-server", node.bootstrap_servers)
    assert "Cluster ID:" in run_class("cluster", "cluster-id", *to_node).stdout
    assert str(node.port) in run_class("cluster", "list-endpoints", *to_node).stdout
    failed = run_class("cluster", "unregister", *to_node, "--id", "77", check=False)
    assert "77" in failed.stdout + failed.stderr
    assert "not currently registered" in failed.stdout + failed.stderr or "BrokerIdNotRegistered" in failed.stderr


@pytest.fixture
def node_without_quotas() -> Iterator[Node]:
    """The recorded mutations leave quotas of all users on the node that the other tests share."""
    with Node() as node:
        yield node


@pytest.mark.long
def test_a_java_producer_and_consumer_obey_their_quotas(kafka_peer: Path, node_without_quotas: Node) -> None:
    """Some megabytes beyond the windows' allowance take some seconds, and no client sees an error."""
    node = node_without_quotas
    clients = ("--entity-type", "clients", "--entity-name", "slow")
    to_node = ("--bootstrap-server", node.bootstrap_servers)
    rates = "producer_byte_rate=1000000,consumer_byte_rate=1000000"
    run_class("configs", *to_node, "--alter", "--add-config", rates, *clients)
    run_class("topics", *to_node, "--create", "--topic", "throttled")
    produced = run_class(
        "producer-perf", "--topic", "throttled", "--num-records", "12000", "--record-size", "1000", "--throughput",
        "-1", "--producer-props", f"bootstrap.servers={node.bootstrap_servers}", "client.id=slow", timeout_s=200,
    ).stdout  # fmt: skip
    average = float(produced.strip().splitlines()[-1].split("records/sec")[0].split()[-1])
    assert average < 4000, produced
    began = time.monotonic()
    consumed = run_class(
        "consumer-perf", *to_node, "--topic", "throttled", "--num-records", "12000", "--command-property",
        "client.id=slow", check=False, timeout_s=200,
    )  # fmt: skip
    assert "12000" in consumed.stdout, consumed.stdout + consumed.stderr
    assert time.monotonic() - began > 3
