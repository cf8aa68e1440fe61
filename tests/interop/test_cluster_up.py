"""``barnabas cluster up``: a controller and two brokers that serve, stop with Ctrl-C, and continue with their data."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.access.command import main as access
from barnabas.cli.acls.command import main as acls
from barnabas.cli.cluster.local_folder import read_cluster, taken_ports
from barnabas.cli.quorum.command import main as quorum
from barnabas.cli.topics.command import main as topics
from barnabas.clients.admin import NewTopic, SyncAdminClient
from tests.peers.node_process import free_ports

pytestmark = pytest.mark.interop

BARNABAS = str(Path(sys.executable).parent / "barnabas")


class Up:
    """A running ``cluster up``, and its parsed output."""

    def __init__(self, process: subprocess.Popen[bytes], document: dict[str, Any], stderr: Path) -> None:
        self._process = process
        self.document = document
        self._stderr = stderr

    @property
    def printed(self) -> str:
        return self._stderr.read_text()

    @property
    def pids(self) -> list[int]:
        return [node["pid"] for node in self.document["nodes"]]

    def address(self, role: str, index: int) -> str:
        return str([node["address"] for node in self.document["nodes"] if node["role"] == role][index])

    def end(self, number: signal.Signals) -> int:
        self._process.send_signal(number)
        return self._process.wait(30)


@contextmanager
def up(folder: Path, *options: str) -> Iterator[Up]:
    out, err = folder.parent / "out", folder.parent / "err"
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(
            [BARNABAS, "cluster", "up", "--data", str(folder), *options, "-o", "json"], stdout=stdout, stderr=stderr
        )
    try:
        deadline = time.monotonic() + 30
        while not out.read_bytes().endswith(b"}\n"):
            assert process.poll() is None, err.read_text()
            assert time.monotonic() < deadline, err.read_text()
            time.sleep(0.02)
        yield Up(process, json.loads(out.read_text()), err)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(40)


def test_a_cluster_with_acls_admits_its_users_and_prints_their_properties(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_ports(1)[0]
    options = ["--controllers", "1", "--brokers", "1", "--port-base", str(port), "--acls"]
    with up(tmp_path / "cluster", *options) as running:
        users = {user["user"]: user["properties"] for user in running.document["users"]}
        server = ["--bootstrap-server", running.document["bootstrap_server"], "--command-config"]
        admin, alice = [*server, users["User:admin"]], [*server, users["User:alice"]]
        assert topics(["create", "orders", "--partitions", "1", *admin]) == 0
        assert topics(["create", "payments", "--partitions", "1", *alice]) == 1
        assert "User:alice lacks CREATE on Topic:payments" in capsys.readouterr().err
        read = ["--allow-principal", "User:alice", "--operation", "read", "--topic", "orders"]
        assert acls(["add", *read, *admin]) == 0
        capsys.readouterr()
        assert access(["mine", *alice, "-o", "json"]) == 0
        assert json.loads(capsys.readouterr().out)["topics"] == [
            {"topic": "orders", "operations": ["Read", "Describe"]}
        ]
        controller = ["--bootstrap-controller", running.document["bootstrap_controller"], *admin[2:]]
        assert quorum(["describe", "--status", *controller]) == 0


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def produce(bootstrap: str, topic: str, text: str) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap})
    for partition in range(2):
        producer.produce(topic, text, partition=partition)
    assert producer.flush(20) == 0


def consume(bootstrap: str, topic: str, count: int) -> list[str]:
    from confluent_kafka import Consumer

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[str] = []
    deadline = time.monotonic() + 20
    while len(found) < count and time.monotonic() < deadline:
        found += [message.value().decode() for message in consumer.consume(count, 0.2) if not message.error()]
    consumer.close()
    return sorted(found)


def test_a_cluster_serves_stops_in_order_and_continues_with_its_data(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    with up(folder, "--controllers", "1", "--brokers", "2", "--port-base", str(free_ports(1)[0])) as first:
        for index in range(2):
            with SyncAdminClient(first.address("broker", index)) as admin:
                made = admin.create_topics([NewTopic(f"by-{index}", partitions=2, replication_factor=1)])
                made.raise_for_errors()
                described = admin.describe_topics([f"by-{index}"]).values[f"by-{index}"]
                assert {partition.leader for partition in described.partitions} == {101, 102}
        for index in range(2):
            produce(first.address("broker", 1 - index), f"by-{index}", "before")
        refused = subprocess.run([BARNABAS, "cluster", "up", "--data", str(folder)], capture_output=True, check=False)
        assert refused.returncode == 2
        assert b"is already running" in refused.stderr
        pids = first.pids
        assert first.end(signal.SIGINT) == 0, first.printed
    assert not any(map(is_alive, pids))
    with up(folder) as second:
        assert second.document["cluster_id"] == first.document["cluster_id"]
        produce(second.document["bootstrap_server"], "by-0", "after")
        assert consume(second.address("broker", 1), "by-0", 4) == ["after", "after", "before", "before"]
        os.kill(second.pids[2], signal.SIGKILL)
        deadline = time.monotonic() + 10
        while "broker-102 was killed by signal 9" not in second.printed:
            assert time.monotonic() < deadline, second.printed
            time.sleep(0.02)
        assert second.end(signal.SIGTERM) == 0, second.printed
    assert "controller-1 is the active controller" in second.printed
    assert not any(map(is_alive, second.pids))


def test_when_a_node_cannot_start_its_log_is_shown_and_the_others_are_stopped(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    smallest = ("--controllers", "1", "--brokers", "1")
    with up(folder, *smallest, "--port-base", str(free_ports(1)[0])) as first:
        assert first.end(signal.SIGINT) == 0
    with (folder / "broker-101" / "server.properties").open("a") as file:
        file.write("num.partitions=none\n")
    done = subprocess.run(
        [BARNABAS, "cluster", "up", "--data", str(folder)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "broker-101 did not start: it ended with status 1" in done.stderr
    assert "num.partitions" in done.stderr
    left = read_cluster(folder)
    assert left is not None
    assert taken_ports(left) == []
