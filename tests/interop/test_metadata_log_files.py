"""The directories of a node move between Kafka and barnabas, both ways, and Kafka's tools read our files."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.storage.metadata_log import MetadataLog
from tests.oracles.metadata_log_dump import dump_metadata_log
from tests.peers import KafkaNode, metadata_shell, run_class
from tests.peers.command_node import CommandNode

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

LOG = "__cluster_metadata-0/00000000000000000000.log"
OURS = {"group.initial.rebalance.delay.ms": "0"}


def topics(bootstrap: str, *args: str) -> list[str]:
    return run_class("topics", "--bootstrap-server", bootstrap, *args).stdout.split()


def create(bootstrap: str, name: str) -> None:
    topics(bootstrap, "--create", "--topic", name, "--partitions", "2")


def settings_for_both(kafka: KafkaNode) -> Path:
    """A configuration that either node accepts: KafkaNode's, without settings that only Kafka has."""
    text = (
        "process.roles=broker,controller\nnode.id=1\n"
        f"controller.quorum.bootstrap.servers=127.0.0.1:{kafka.controller_port}\n"
        f"listeners=PLAINTEXT://127.0.0.1:{kafka.port},CONTROLLER://127.0.0.1:{kafka.controller_port}\n"
        "controller.listener.names=CONTROLLER\n"
        f"log.dirs={kafka.folder}/data\n"
        "offsets.topic.replication.factor=1\noffsets.topic.num.partitions=4\n"
    )
    kafka.folder.mkdir(parents=True, exist_ok=True)
    kafka.properties.write_text(text)
    return kafka.properties


def ours(kafka: KafkaNode) -> CommandNode:
    """Our node in the place of Kafka: with its configuration, folder and ports."""
    node = CommandNode(kafka.folder, properties=kafka.properties)
    node.port, node.controller_port = kafka.port, kafka.controller_port
    node._settings = dict(OURS)
    return node


def run_ours(*args: str) -> str:
    command = [str(Path(sys.executable).parent / "barnabas"), "storage", *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def dumped_by_kafka(path: Path) -> list[str]:
    done = run_class("dump-log", "--cluster-metadata-decoder", "--files", str(path))
    return done.stdout.splitlines()


@pytest.fixture
def kafka(kafka_peer: Path, tmp_path: Path) -> KafkaNode:
    kafka = KafkaNode(tmp_path / "node")
    settings_for_both(kafka)
    return kafka


@pytest.fixture
def formatted_by_kafka(kafka: KafkaNode) -> Callable[[], None]:
    def run() -> None:
        cluster_id = "IxBJmFq_QQSa0i06awp6oA"
        run_class("storage", "format", "--standalone", "-t", cluster_id, "-c", str(kafka.properties))

    return run


def test_a_directory_formatted_by_us_moves_to_kafka_and_back(kafka: KafkaNode) -> None:
    run_ours("format", "--standalone", "-t", "IxBJmFq_QQSa0i06awp6oA", "-c", str(kafka.properties))
    kafka.start()
    create(kafka.bootstrap_servers, "made-by-kafka")
    kafka.stop()
    node = ours(kafka)
    node.start()
    create(node.bootstrap_servers, "made-by-us")
    assert node.stop() == 0
    kafka.start()
    assert sorted(topics(kafka.bootstrap_servers, "--list")) == ["made-by-kafka", "made-by-us"]
    kafka.stop()
    log = MetadataLog(str(kafka.folder / "data"))
    assert log.recovered_from is None
    assert len(log.epochs) == 3


def test_we_start_on_a_directory_formatted_by_kafka(kafka: KafkaNode, formatted_by_kafka: Callable[[], None]) -> None:
    formatted_by_kafka()
    node = ours(kafka)
    node.start()
    create(node.bootstrap_servers, "made-by-us")
    assert node.stop() == 0
    kafka.start()
    assert topics(kafka.bootstrap_servers, "--list") == ["made-by-us"]
    kafka.stop()


def wait_for_a_snapshot_with(name: str, folder: Path, *, timeout_s: float = 60) -> None:
    """Snapshots are written beside the log: NoOps alone fill the bytes between two of them within seconds."""
    deadline = time.monotonic() + timeout_s
    while not any(name.encode() in path.read_bytes() for path in folder.glob("*.checkpoint")):
        assert time.monotonic() < deadline, f"no snapshot with {name} after {timeout_s} s"
        time.sleep(0.1)


def test_kafkas_tools_read_our_log_and_our_snapshot(kafka_peer: Path, tmp_path: Path) -> None:
    node = CommandNode(tmp_path / "node", settings={"metadata.log.max.record.bytes.between.snapshots": "1500"})
    node.start()
    create(node.bootstrap_servers, "first")
    create(node.bootstrap_servers, "second")
    data = tmp_path / "node" / "data"
    wait_for_a_snapshot_with("first", data / "__cluster_metadata-0")
    assert node.stop() == 0
    assert dumped_by_kafka(data / LOG) == list(dump_metadata_log(str(data / LOG)))
    listed = metadata_shell(data / LOG, "ls image/topics/byName")[0].split()
    assert "first" in listed
    assert "second" in listed
    snapshots = sorted((data / "__cluster_metadata-0").glob("*.checkpoint"))
    assert len(snapshots) >= 2, "the voters' checkpoint and one of the metadata"
    assert dumped_by_kafka(snapshots[-1]) == list(dump_metadata_log(str(snapshots[-1])))
    assert "first" in metadata_shell(snapshots[-1], "ls image/topics/byName")[0].split()
    indexes = ",".join(str(path) for path in sorted((data / "__cluster_metadata-0").glob("0*.*index")))
    checked = run_class("dump-log", "--index-sanity-check", "--files", indexes).stdout
    assert checked.count("passed sanity check") + checked.count("is empty") == indexes.count(",") + 1


def test_our_quorum_state_equals_kafkas(tmp_path: Path) -> None:
    node = CommandNode(tmp_path / "node")
    node.start()
    node.stop()
    state = json.loads((tmp_path / "node" / "data" / "__cluster_metadata-0" / "quorum-state").read_text())
    assert state == {
        "leaderId": 1,
        "leaderEpoch": 1,
        "votedId": -1,
        "votedDirectoryId": "AAAAAAAAAAAAAAAAAAAAAA",
        "data_version": 1,
    }
