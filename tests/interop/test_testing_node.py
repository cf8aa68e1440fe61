"""A node of ``barnabas.testing`` serves other clients, survives faults, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from barnabas.clients.admin import SyncAdminClient, TopicAuthorizationFailed
from barnabas.clients.errors import ClientError
from barnabas.clients.producer.record_producer import NotDelivered
from barnabas.testing import Node, NodeFailed, NotPossible, allow
from barnabas.testing.launch import Launch
from barnabas.testing.node_log import NodeLog
from barnabas.testing.options import NodeOptions
from barnabas.testing.process_runner import ProcessRunner
from barnabas.testing.security import MECHANISMS

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def shared() -> Iterator[Node]:
    """A node for tests that do not disturb it."""
    with Node() as node:
        yield node


def until(is_true: Callable[[], bool], what: str, timeout_s: float = 20) -> None:
    deadline = time.monotonic() + timeout_s
    while not is_true():
        assert time.monotonic() < deadline, f"{what} did not happen in {timeout_s} s"
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def test_records_and_topics_exist_from_the_beginning() -> None:
    events = (value for value in ("x", b"y"))
    with Node(topics={"orders": 3}, records={"orders": [("k1", "a"), ("k2", None)], "events": events}) as node:
        assert {(record.key, record.value) for record in node.consume("orders")} == {(b"k1", b"a"), (b"k2", None)}
        assert [(record.offset, record.value) for record in node.consume("events")] == [(0, b"x"), (1, b"y")]
        with node.admin() as admin:
            assert len(admin.describe_topics(["orders"])["orders"].partitions) == 3


def test_consume_waits_for_records_that_come_later(shared: Node) -> None:
    topic = shared.create_topic("later")

    async def both() -> list[bytes | None]:
        reading = asyncio.create_task(asyncio.to_thread(shared.consume, topic, 2))
        await asyncio.to_thread(shared.produce, topic, ["a"])
        await asyncio.to_thread(shared.produce, topic, ["b", "c"])
        return [record.value for record in await reading]

    assert asyncio.run(both()) == [b"a", b"b"]
    with pytest.raises(TimeoutError, match=r"topic later: 3 of 4 records arrived in 0.5 s"):
        shared.consume(topic, 4, timeout_s=0.5)


def test_a_setting_reaches_the_node_and_a_wrong_one_is_named() -> None:
    with Node(settings={"auto.create.topics.enable": False, "num.partitions": 3}) as node:
        node.create_topic("t", configs={"retention.ms": "1000"})
        with node.admin() as admin:
            assert len(admin.describe_topics(["t"])["t"].partitions) == 1
            assert [topic.name for topic in admin.list_topics()] == ["t"]
    with pytest.raises(NodeFailed, match=r"node-1 can't start: .*\n.*did you mean num.partitions\?"):
        Node(settings={"num.partitons": 3}).start()


@pytest.mark.parametrize("in_process", [False, True])
def test_a_restarted_node_has_its_data_at_the_same_address(in_process: bool) -> None:
    with Node(topics=["orders"], in_process=in_process) as node:
        before = node.bootstrap_servers
        node.produce("orders", ["a"])
        node.restart()
        assert node.bootstrap_servers == before
        assert [record.value for record in node.consume("orders")] == [b"a"]
        node.stop()
        assert not node.is_running
        node.start()
        assert len(node.consume("orders")) == 1


def test_a_killed_node_refuses_connections_and_keeps_its_port() -> None:
    with Node(topics=["orders"]) as node:
        host, port = node.bootstrap_servers.split(":")
        node.produce("orders", ["a"])
        node.kill()
        assert not node.is_running
        with socket.socket() as probe:
            assert probe.connect_ex((host, int(port))) != 0
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind((host, int(port)))
        node.start()
        assert len(node.consume("orders")) == 1


STUBBORN = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
FAILING = "signal.signal(signal.SIGTERM, lambda *_: os._exit(3))"


@pytest.mark.parametrize(
    ("reaction", "text"),
    [(STUBBORN, r"node-1 did not stop in 0\.5 s and was killed"), (FAILING, "node-1 ended with status 3")],
    ids=["it does not end", "it ends with an error"],
)
def test_a_stop_that_is_not_in_order_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reaction: str, text: str
) -> None:
    (tmp_path / "node_that_fails.py").write_text(
        "import os, signal, socket, sys, time\n"
        "def main():\n"
        f"    {reaction}\n"
        "    parent = socket.socket(fileno=int(sys.argv[-1]))\n"
        '    parent.sendall(b\'{"event": "ready"}\\n\')\n'
        "    time.sleep(60)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    runner = ProcessRunner(NodeLog(tmp_path / "node.log", "node-1"), "node_that_fails")
    runner.launch(Launch(name="node-1", settings={}, cluster_id="", folder=str(tmp_path)))
    runner.await_ready(20)
    with pytest.raises(NodeFailed, match=text):
        runner.stop(0.5)
    runner.stop(0.5)  # A process that has ended is left as it is.


def test_an_admin_client_contacts_the_controller_itself(shared: Node) -> None:
    assert shared.bootstrap_servers == f"127.0.0.1:{shared.port}"
    assert shared.bootstrap_controllers == f"127.0.0.1:{shared.controller_port}"
    with SyncAdminClient(properties={"bootstrap.controllers": shared.bootstrap_controllers}) as admin:
        assert admin.describe_quorum().leader_id == 1


@pytest.mark.parametrize("in_process", [False, True])
def test_a_paused_node_is_silent_until_it_resumes(in_process: bool) -> None:
    with Node(topics=["orders"], in_process=in_process) as node:
        node.pause()
        node.pause()
        with pytest.raises(TimeoutError, match="no acknowledgement of 1 records in 0.5 s"):
            node.produce("orders", ["a"], timeout_s=0.5)
        with pytest.raises(NotPossible, match=r"call resume\(\) before disk_full"):
            node.disk_full()
        node.resume()
        node.produce("orders", ["b"])
        node.pause()  # The end of the block ends a paused node too.


@pytest.mark.parametrize("in_process", [False, True])
def test_a_node_with_a_full_disk_ends_and_returns_with_its_records(in_process: bool) -> None:
    with Node(topics=["orders"], in_process=in_process) as node:
        node.produce("orders", ["a"])
        node.disk_full()
        with pytest.raises((TimeoutError, ClientError, NotDelivered)):
            node.produce("orders", ["b"], timeout_s=2)
        until(lambda: not node.is_running, "the end of the node")
        assert "No space left on device" in node.log
        with pytest.raises(NodeFailed):
            node.start()
        node.disk_free()
        node.start()
        assert [record.value for record in node.consume("orders")] == [b"a"]


def test_a_thread_can_not_be_killed() -> None:
    with Node(in_process=True) as node, pytest.raises(NotPossible, match="omit in_process=True"):
        node.kill()


def test_code_with_asyncio_uses_the_same_node() -> None:
    async def use() -> list[bytes | None]:
        async with Node(topics=["orders"]) as node:
            await asyncio.to_thread(node.produce, "orders", ["a"])
            async with node.async_admin() as admin:
                await admin.describe_cluster()
            return [record.value for record in node.consume("orders")]

    assert asyncio.run(use()) == [b"a"]


def test_a_folder_of_the_test_stays(tmp_path: Path) -> None:
    with Node(folder=tmp_path / "data", records={"orders": ["a"]}) as node:
        pid = node.pid
    assert not is_alive(pid)
    assert (tmp_path / "data" / "node-1" / "data" / "orders-0").is_dir()
    assert "has stopped" in (tmp_path / "data" / "node-1" / "node.log").read_text()


PARENT = """
import signal, time
from barnabas.testing import Cluster
signal.signal(signal.SIGINT, signal.default_int_handler)  # A test run in the background of a script ignores it.
cluster = Cluster(brokers=2, topics=["orders"])
cluster.start()
cluster.brokers[1].pause()
print(cluster.folder, *(broker.pid for broker in cluster.brokers), flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nodes_end_with_their_parent_however_it_dies(number: signal.Signals) -> None:
    source = Path(__file__).parents[2] / "src"
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(source)},
    )
    with parent:
        assert parent.stdout is not None
        folder, *pids = parent.stdout.readline().decode().split()
        assert all(is_alive(int(pid)) for pid in pids)
        parent.send_signal(number)
        parent.wait(20)
    until(lambda: not any(is_alive(int(pid)) for pid in pids), "the end of the nodes")
    until(lambda: not Path(folder).exists(), "the removal of the folder")


SECURITY: dict[str, NodeOptions] = {
    "nothing": {},
    "TLS": {"tls": True},
    "client certificates": {"tls": True, "client_certificates": True},
    "SASL": {"users": {"alice": "secret"}},
    "SASL and TLS": {"users": {"alice": "p w;=#'"}, "tls": True},
}


@pytest.mark.parametrize("name", SECURITY)
def test_clients_reach_a_node_with_the_settings_it_names(name: str) -> None:
    with Node(**SECURITY[name]) as node:
        node.create_topic("orders")
        user = "alice" if "users" in SECURITY[name] else None
        for number, mechanism in enumerate(MECHANISMS if user else MECHANISMS[:1]):
            config = node.confluent_config(user, mechanism=mechanism)
            assert _error_of_confluent(config) is None
            consumer = Consumer({**config, "group.id": f"g{number}", "auto.offset.reset": "earliest"})
            consumer.subscribe(["orders"])
            message = consumer.poll(20)
            consumer.close()
            assert message is not None
            assert message.error() is None
        assert asyncio.run(_sent_by_aiokafka(node, user)) == number + 1
        assert len(node.consume("orders", user=user)) == number + 2


def _error_of_confluent(config: dict[str, str]) -> object:
    errors: list[object] = []
    producer = Producer(config)
    producer.produce("orders", b"confluent", callback=lambda error, _: errors.append(error))
    producer.flush(20)
    (error,) = errors
    return error


async def _sent_by_aiokafka(node: Node, user: str | None) -> int:
    from aiokafka import AIOKafkaProducer

    async with AIOKafkaProducer(**node.aiokafka_config(user)) as producer:
        sent = await producer.send_and_wait("orders", b"aiokafka")
    return sent.offset


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # It reads its files in an old way.
def test_kafka_python_reaches_a_secured_node() -> None:
    import kafka

    with Node(topics=["orders"], users={"alice": "secret"}, tls=True, client_certificates=True) as node:
        config = node.kafka_python_config("alice")
        with closing(kafka.KafkaProducer(**config)) as producer:
            assert producer.send("orders", b"a").get(20).offset == 0
        config |= {"auto_offset_reset": "earliest", "consumer_timeout_ms": 60_000}
        with closing(kafka.KafkaConsumer("orders", **config)) as consumer:
            assert next(consumer).value == b"a"


def test_acls_decide_for_users() -> None:
    acls = [*allow("alice", "read", "describe", topic="orders-*")]
    with Node(users={"alice": "a", "bob": "b"}, acls=acls, records={"orders-1": ["x"]}) as node:
        assert len(node.consume("orders-1", user="alice")) == 1
        with pytest.raises(TopicAuthorizationFailed):
            node.consume("orders-1", user="bob")
        node.create_acls(allow("bob", "read", "describe", topic="orders-1"))
        assert len(node.consume("orders-1", user="bob")) == 1


def test_our_commands_read_the_file_of_client_properties(tmp_path: Path) -> None:
    with Node(users={"alice": "secret"}, tls=True, topics=["orders"]) as node:
        file = node.write_client_properties(tmp_path / "admin.properties")
        command = [str(Path(sys.executable).parent / "barnabas"), "topics", "list", "--command-config", str(file)]
        printed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert "orders" in printed
