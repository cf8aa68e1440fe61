"""Several log directories: replicas move, directories are cordoned, one fails. The answers equal those of a real
Kafka."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.peers import run_class
from tests.peers.command_node import CommandNode
from tests.peers.directory_story import NAMES, SETTINGS, DirectoryStory, log_dirs
from tests.peers.record_directory_answers import answers_of, kafka_node

pytestmark = pytest.mark.interop

RECORDED = Path(__file__).parent.parent / "vectors" / "log_dirs" / "answers-4.3.1.json"


def recorded() -> dict[str, Any]:
    answers: dict[str, Any] = json.loads(RECORDED.read_text())
    return answers


def test_our_node_describes_its_log_directories_as_kafka_does(tmp_path: Path) -> None:
    node = CommandNode(tmp_path / "node", settings={"log.dirs": log_dirs(tmp_path / "dirs"), **SETTINGS})
    assert answers_of(node, tmp_path / "dirs") == recorded()


@pytest.mark.long
def test_the_recorded_answers_are_kafkas(tmp_path: Path) -> None:
    assert answers_of(kafka_node(tmp_path), tmp_path / "dirs") == recorded()


@pytest.mark.long
def test_the_java_tools_move_a_replica_and_report_its_progress(tmp_path: Path) -> None:
    directories = tmp_path / "dirs"
    directories.mkdir()
    node = CommandNode(tmp_path / "node", settings={"log.dirs": log_dirs(directories), **SETTINGS})
    with ExitStack() as stack:
        stack.callback(node.stop)
        node.start()
        story, server = DirectoryStory(node.port, directories), ("--bootstrap-server", f"127.0.0.1:{node.port}")
        story.create("orders", 2)
        for _ in range(20):
            story.produce("orders", 0, b"x" * 100_000)
        target = next(name for name in NAMES if name != story.where("orders", 0))
        plan = tmp_path / "plan.json"
        partition = {"topic": "orders", "partition": 0, "replicas": [1], "log_dirs": [story.path(target)]}
        plan.write_text(json.dumps({"version": 1, "partitions": [partition]}))
        move = ("reassign-partitions", *server, "--reassignment-json-file", str(plan))
        throttle = ("--replica-alter-log-dirs-throttle", "1000000")
        assert "Successfully started moving log directory" in run_class(*move, "--execute", *throttle).stdout
        described = run_class("log-dirs", *server, "--describe", "--topic-list", "orders").stdout.splitlines()
        by_path = {directory["logDir"]: directory for directory in json.loads(described[-1])["brokers"][0]["logDirs"]}
        assert {directory["error"] for directory in by_path.values()} == {None}
        assert any(replica["partition"] == "orders-0" for replica in by_path[story.path(target)]["partitions"])
        story.until(lambda: story.where("orders", 0) == target)
        assert "Reassignment of replica orders-0-1 completed successfully" in run_class(*move, "--verify").stdout
        assert story.offsets("orders", 0) == [0, 20]
        story.client.close()


@pytest.mark.long
def test_nothing_acknowledged_is_lost_when_a_node_is_killed_while_replicas_move(tmp_path: Path) -> None:
    directories, rng, acknowledged = tmp_path / "dirs", Random(7), [0, 0, 0]
    directories.mkdir()
    node = CommandNode(tmp_path / "node", settings={"log.dirs": log_dirs(directories), **SETTINGS})
    try:
        for life in range(12):
            node.start()
            story = DirectoryStory(node.port, directories)
            if not life:
                story.create("orders", 3)
            for partition in range(3):
                (start, end), known = story.offsets("orders", partition), acknowledged[partition]
                assert (start, known <= end <= known + 1) == (0, True), f"partition {partition} in life {life}"
                acknowledged[partition] = end
                story.alter({("orders", partition): rng.choice(NAMES)})
            for number in range(rng.randrange(20, 120)):
                partition = number % 3
                assert story.produce("orders", partition, b"x" * 20_000) == 0
                acknowledged[partition] += 1
            node.kill()
            story.client.close()
        node.start()
        story = DirectoryStory(node.port, directories)
        story.until(lambda: not story.futures())
        assert [story.offsets("orders", partition)[1] for partition in range(3)] == acknowledged
        assert all(len(list(directories.glob(f"*/orders-{partition}"))) == 1 for partition in range(3))
        story.client.close()
    finally:
        node.kill()
