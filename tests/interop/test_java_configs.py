"""Kafka's own ConfigCommand against our node, for every kind of resource, and what follows changes while it runs."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop.raw_client import RawClient
from tests.interop.test_java_tools import tool
from tests.peers.admin_requests import BROKER, SET, alter
from tests.peers.barnabas_node import BarnabasNode
from tests.peers.certificates import PASSWORD, Authority
from tests.peers.node_process import free_ports

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

JAVA = pytest.mark.usefixtures("kafka_peer")


def configs(node: BarnabasNode, kind: str, name: str | None, *args: str, check: bool = True) -> str:
    entity = ("--entity-default",) if name is None else ("--entity-name", name)
    return tool(node, "configs", "--entity-type", kind, *entity, *args, check=check)


@JAVA
@pytest.mark.parametrize(
    ("kind", "name", "change"),
    [
        ("brokers", "1", "log.cleaner.backoff.ms=20000"),
        ("brokers", None, "message.max.bytes=2000000"),
        ("groups", "java-group", "consumer.session.timeout.ms=50000"),
        ("client-metrics", "java-metrics", "interval.ms=5000"),
        ("broker-loggers", "1", "barnabas.network.connection=ERROR"),
    ],
)
def test_configs_are_set_shown_and_deleted(
    barnabas_node: BarnabasNode, kind: str, name: str | None, change: str
) -> None:
    key = change.partition("=")[0]
    configs(barnabas_node, kind, name, "--alter", "--add-config", change)
    assert change in configs(barnabas_node, kind, name, "--describe")
    configs(barnabas_node, kind, name, "--alter", "--delete-config", key)
    assert change not in configs(barnabas_node, kind, name, "--describe")


@JAVA
def test_what_needs_a_restart_is_refused_with_its_name(barnabas_node: BarnabasNode) -> None:
    answer = configs(barnabas_node, "brokers", "1", "--alter", "--add-config", "num.partitions=3", check=False)
    assert "Cannot update these configs dynamically: [num.partitions]" in answer


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


def test_a_listener_gets_another_certificate_while_it_runs(tmp_path: Path) -> None:
    authority, prefix = Authority(), "listener.name.tls.ssl.keystore."
    first, second = (authority.issue("node") for _ in range(2))
    for number, identity in enumerate((first, second)):
        identity.write_pkcs12(tmp_path / f"{number}.p12")
    (tmp_path / "node").mkdir()
    node, (port,) = BarnabasNode(tmp_path / "node"), free_ports(1)
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
