"""What an operator sees when a node is stopped under load, and when it can't start."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.interop.raw_client import RawClient
from tests.peers.command_node import CommandNode
from tests.peers.node_process import free_ports

pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore::ResourceWarning")]

STOPS_WITHIN_S = 8.0


def start_and_fail(node: CommandNode) -> str:
    """Return the one line that it prints, after checking that it exits with status 1."""
    node.folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(node.command(), capture_output=True, text=True, timeout=60, cwd=node.folder, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    lines = (done.stdout + done.stderr).strip().splitlines()
    problems = [line for line in lines if "can't start" in line or "barnabas node:" in line]
    assert "Traceback" not in done.stdout + done.stderr
    assert len(problems) == 1, lines
    return problems[0]


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in sorted(folder.rglob("*"))
        if path.name != ".lock"
    }


def formatted(folder: Path) -> CommandNode:
    """The folder of a node that has run and has stopped."""
    node = CommandNode(folder)
    node.start()
    assert node.stop() == 0
    return node


def test_sigterm_under_load_ends_the_node_within_seconds(tmp_path: Path) -> None:
    from confluent_kafka import Producer

    node = CommandNode(tmp_path)
    node.start()
    client = RawClient(node.port)
    client.call(
        CreateTopicsRequest(
            topics=[CreatableTopic(name=name, num_partitions=3, replication_factor=1) for name in ("busy", "silent")]
        )
    )
    topic_id = client.call(MetadataRequest(topics=[MetadataRequestTopic(name="silent")]), 12).topics[0].topic_id
    waiting = [RawClient(node.port) for _ in range(20)]
    for waiter in waiting:
        waiter.send(
            FetchRequest(
                max_wait_ms=60_000,
                min_bytes=1,
                topics=[
                    FetchTopic(
                        topic_id=topic_id,
                        partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)],
                    )
                ],
            ),
            17,
        )
    _join_alone(node, waiting)
    stop = threading.Event()
    acknowledged = [0]

    def produce() -> None:
        producer = Producer({"bootstrap.servers": node.bootstrap_servers, "log_level": 0, "message.timeout.ms": 2000})

        def count(error: object, message: object) -> None:
            acknowledged[0] += error is None

        while not stop.is_set():
            with suppress(BufferError):
                producer.produce("busy", b"x" * 500, on_delivery=count)
            producer.poll(0)
        producer.purge()

    threads = [threading.Thread(target=produce) for _ in range(2)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 20
    while acknowledged[0] < 1000 and time.monotonic() < deadline:
        time.sleep(0.02)
    began = time.monotonic()
    status = node.stop()
    elapsed = time.monotonic() - began
    stop.set()
    for thread in threads:
        thread.join()
    for connection in (client, *waiting):
        connection.close()
    assert acknowledged[0] >= 1000
    assert status == 0
    assert elapsed < STOPS_WITHIN_S
    printed = node.printed()
    assert "Traceback" not in printed
    assert " ERROR " not in printed
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def _join_alone(node: CommandNode, held: list[RawClient]) -> None:
    """A member that joins a group and stays."""
    joining = RawClient(node.port)
    for _ in range(200):
        answer = joining.call(
            JoinGroupRequest(
                group_id="stopped",
                session_timeout_ms=60_000,
                rebalance_timeout_ms=60_000,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
            ),
            3,
        )
        if answer.error_code == 0:
            break
        time.sleep(0.05)
    held.append(joining)


def test_a_second_node_in_the_same_directory_is_refused(tmp_path: Path) -> None:
    first = CommandNode(tmp_path / "first")
    first.start()
    second = CommandNode(tmp_path / "second", settings={"log.dirs": str(tmp_path / "first" / "data")})
    error = start_and_fail(second)
    assert str(tmp_path / "first" / "data") in error
    assert "another process" in error
    client = RawClient(first.port)
    assert client.call(MetadataRequest(topics=None), 12).controller_id == 1
    client.close()
    assert first.stop() == 0


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("this is not a directory")
    node = CommandNode(tmp_path / "node", settings={"log.dirs": str(blocked / "data")})
    assert str(blocked / "data") in start_and_fail(node)
    assert blocked.read_text() == "this is not a directory"


@pytest.mark.parametrize("which", ["broker", "controller", "metrics"])
def test_a_port_in_use_is_named(tmp_path: Path, which: str) -> None:
    node = formatted(tmp_path)
    before = contents(tmp_path / "data")
    ports = {"broker": node.port, "controller": node.controller_port}
    (metrics,) = free_ports(1)
    port = ports.get(which, metrics)
    node = CommandNode(
        tmp_path,
        settings={
            "listeners": f"PLAINTEXT://127.0.0.1:{ports['broker']},CONTROLLER://127.0.0.1:{ports['controller']}",
            "barnabas.metrics.listener": f"127.0.0.1:{metrics}",
        },
    )
    node.port, node.controller_port = ports["broker"], ports["controller"]
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", port))
        taken.listen()
        error = start_and_fail(node)
    assert f"127.0.0.1:{port}" in error
    assert "in use" in error
    assert contents(tmp_path / "data").keys() == before.keys()
    node.start()  # No data was harmed.
    assert node.stop() == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("version=1\nnode.id=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAw\ndirectory.id=nonsense\n", "directory.id"),
        ("version=99\nnode.id=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAw\n", "99"),
        ("version=0\nbroker.id=1\n", "cluster.id"),
        ("version=1\nnode.id=7\ncluster.id=AAAAAAAAAAAAAAAAAAAAAw\n", "7"),
        ("version=1\nnode.id=one\ncluster.id=AAAAAAAAAAAAAAAAAAAAAw\n", "node.id"),
    ],
    ids=["bad directory id", "unknown version", "no cluster id", "other node id", "node id is not a number"],
)
def test_a_meta_properties_that_does_not_fit_is_refused(tmp_path: Path, text: str, expected: str) -> None:
    node = formatted(tmp_path)
    (tmp_path / "data" / "meta.properties").write_text(text)
    before = contents(tmp_path / "data")
    error = start_and_fail(node)
    assert expected in error
    assert str(tmp_path / "data") in error
    assert contents(tmp_path / "data") == before


def test_data_without_meta_properties_does_not_count_as_an_empty_directory(tmp_path: Path) -> None:
    node = formatted(tmp_path)
    (tmp_path / "data" / "meta.properties").unlink()
    before = contents(tmp_path / "data")
    error = start_and_fail(node)
    assert "meta.properties" in error
    assert contents(tmp_path / "data") == before


@pytest.mark.parametrize("files", range(1, 7))
def test_a_first_start_that_was_killed_can_be_repeated(tmp_path: Path, files: int) -> None:
    node = CommandNode(tmp_path)
    process = subprocess.Popen(node.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and process.poll() is None:
        if sum(len(names) for _, _, names in os.walk(tmp_path / "data")) >= files:
            break
    process.kill()
    process.wait()
    node.start()
    assert node.stop() == 0


def test_directories_of_two_clusters_are_refused(tmp_path: Path) -> None:
    formatted(tmp_path / "one")
    formatted(tmp_path / "two")
    folders = [tmp_path / name / "data" for name in ("one", "two")]
    before = [contents(folder) for folder in folders]
    node = CommandNode(
        tmp_path / "both",
        settings={"log.dirs": ",".join(map(str, folders)), "metadata.log.dir": str(folders[0])},
    )
    error = start_and_fail(node)
    assert "cluster" in error
    assert [contents(folder) for folder in folders] == before
