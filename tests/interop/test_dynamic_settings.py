"""A running node follows its settings: certificates, users of PLAIN, the log cleaner, defaults of topics."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from barnabas.testing import Node
from tests.interop.raw_client import RawClient
from tests.peers.admin_requests import BROKER, DELETE, SET, TOPIC, alter, create, new_topic
from tests.peers.certificates import PASSWORD, Authority
from tests.peers.command_node import CommandNode
from tests.peers.node_process import free_ports

pytestmark = [pytest.mark.interop, pytest.mark.timeout(60)]


def eventually(is_so: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 10
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def certificate(port: int) -> bytes:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port)) as plain, context.wrap_socket(plain) as secured:
        return secured.getpeercert(binary_form=True) or b""


def test_a_listener_reloads_its_certificate_while_it_runs(tmp_path: Path) -> None:
    authority, prefix = Authority(), "listener.name.tls.ssl.keystore."
    first, second = (authority.issue("node") for _ in range(2))
    for number, identity in enumerate((first, second)):
        identity.write_pkcs12(tmp_path / f"{number}.p12")
    (tmp_path / "node").mkdir()
    node, (port,) = CommandNode(tmp_path / "node"), free_ports(1)
    node.change_settings(
        {
            "listeners": f"PLAINTEXT://127.0.0.1:{node.port},TLS://127.0.0.1:{port},"
            f"CONTROLLER://127.0.0.1:{node.controller_port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TLS:SSL,CONTROLLER:PLAINTEXT",
            f"{prefix}location": str(tmp_path / "0.p12"),
            f"{prefix}password": PASSWORD,
            f"{prefix}type": "PKCS12",
        }
    )
    node.start()
    client = RawClient(node.port)
    assert certificate(port) == first.der
    change = (f"{prefix}location", SET, str(tmp_path / "1.p12"))
    (refused,) = client.call(alter((BROKER, "1", (f"{prefix}location", SET, "missing.p12")))).responses
    assert refused.error_code == 42
    assert "missing.p12" in refused.error_message
    (done,) = client.call(alter((BROKER, "1", change))).responses
    assert done.error_code == 0, done.error_message
    assert eventually(lambda: certificate(port) == second.der)
    client.close()
    node.stop()
    node.start()
    assert eventually(lambda: certificate(port) == second.der)
    assert node.stop() == 0
    assert "Traceback" not in node.printed()


def change(client: RawClient, *changes: tuple[str, int, str | None]) -> None:
    (done,) = client.call(alter((BROKER, "1", *changes))).responses
    assert done.error_code == 0, done.error_message


def append(client: RawClient, topic: str, value: bytes) -> int:
    batch = build_batch([Record(0, int(time.time() * 1000), b"key", value, ())])
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    answer = client.call(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data]), 12)
    return int(answer.responses[0].partition_responses[0].error_code)


def test_the_cleaner_continues_with_changed_settings() -> None:
    with Node(settings={"log.cleaner.backoff.ms": "3600000"}) as node:
        client = RawClient(node.port)
        compacted: list[tuple[str, str | None]] = [
            ("cleanup.policy", "compact"), ("segment.ms", "100"), ("min.cleanable.dirty.ratio", "0"),
        ]  # fmt: skip
        client.call(create(new_topic("compacted", configs=compacted)))
        for _ in range(4):
            assert append(client, "compacted", b"value") == 0
            time.sleep(0.15)
        assert "cleaned" not in node.log
        change(client, ("log.cleaner.backoff.ms", SET, "100"), ("log.cleaner.threads", SET, "2"))
        assert eventually(lambda: "cleaned" in node.log)
        assert "log.cleaner.threads has no effect here" in node.log
        client.close()


def test_a_limit_for_all_topics_changes_immediately() -> None:
    with Node() as node:
        client = RawClient(node.port)
        client.call(create(new_topic("small")))
        assert eventually(lambda: append(client, "small", b"x" * 5000) == 0)
        change(client, ("message.max.bytes", SET, "1000"))
        assert append(client, "small", b"x" * 5000) == 10
        resource = DescribeConfigsResource(
            resource_type=TOPIC, resource_name="small", configuration_keys=["max.message.bytes"]
        )
        (described,) = client.call(DescribeConfigsRequest(resources=[resource])).results
        assert (described.configs[0].value, described.configs[0].config_source) == ("1000", 2)
        change(client, ("message.max.bytes", DELETE, None))
        assert append(client, "small", b"x" * 5000) == 0
        client.close()


def test_users_of_plain_change_while_the_node_runs(tmp_path: Path) -> None:
    line = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{}";'
    name = "listener.name.login.plain.sasl.jaas.config"
    node, (port,) = CommandNode(tmp_path), free_ports(1)
    node.change_settings(
        {
            "listeners": f"PLAINTEXT://127.0.0.1:{node.port},LOGIN://127.0.0.1:{port},"
            f"CONTROLLER://127.0.0.1:{node.controller_port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            name: line.format("before"),
        }
    )
    node.start()
    admin = RawClient(node.port)

    def logs_in(password: str) -> bool:
        client = RawClient(port)
        try:
            client.log_in("alice", password)
        except (PermissionError, ConnectionError):
            return False
        finally:
            client.close()
        return True

    assert logs_in("before")
    change(admin, (name, SET, line.format("Recognisable-Secret")))
    assert eventually(lambda: logs_in("Recognisable-Secret"))
    assert not logs_in("before")
    admin.close()
    assert node.stop() == 0
    assert "Recognisable-Secret" not in node.printed()


def test_a_limit_of_connections_changes_while_the_node_runs() -> None:
    with Node() as node:
        client = RawClient(node.port)

        def is_let_in() -> bool:
            another = RawClient(node.port)
            try:
                another.call(alter())
            except ConnectionError:
                return False
            finally:
                another.close()
            return True

        assert is_let_in()
        change(client, ("max.connections.per.ip", SET, "1"))
        assert eventually(lambda: not is_let_in())
        change(client, ("max.connections.per.ip", DELETE, None))
        assert eventually(is_let_in)
        client.close()
