"""Limits of connections, on ours and on a real Kafka: which connections are closed, which wait, and which settings
change while the nodes run."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest

from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.testing import Node
from tests.interop.raw_client import RawClient
from tests.peers import KafkaNode, running_kafka
from tests.peers.admin_requests import BROKER, DELETE, SET, alter
from tests.peers.mutation_requests import quota, quotas

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]

CLOSED = (ConnectionError, BrokenPipeError)


@pytest.fixture(scope="module", params=["ours", "kafka"])
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node | KafkaNode]:
    settings = {"max.connections.per.ip.overrides": "127.0.0.3:2"}
    running: AbstractContextManager[Node | KafkaNode] = Node(settings=settings)
    if request.param == "kafka":
        request.getfixturevalue("kafka_peer")
        running = running_kafka(tmp_path_factory.mktemp("connections") / "kafka", settings=settings)
    with running as node:
        yield node
        assert "Traceback" not in node.log_path.read_text()


def answers(client: RawClient) -> bool:
    return bool(client.call(MetadataRequest(topics=[]), 9).brokers)


def is_closed(client: RawClient) -> bool:
    try:
        return not answers(client)
    except CLOSED:
        return True


def configure(node: Node | KafkaNode, key: str, value: str | None) -> None:
    client = RawClient(node.port)
    request = alter((BROKER, "", (key, DELETE if value is None else SET, value)))
    assert client.call(request, 1).responses[0].error_code == 0
    client.close()
    time.sleep(0.5)


def test_an_override_limits_the_connections_of_an_address(node: Node | KafkaNode) -> None:
    clients = [RawClient(node.port, source_host="127.0.0.3") for _ in range(2)]
    assert all(answers(client) for client in clients)
    third = RawClient(node.port, source_host="127.0.0.3")
    assert is_closed(third)
    clients.pop().close()
    time.sleep(0.3)
    again = RawClient(node.port, source_host="127.0.0.3")
    assert answers(again)
    for client in (*clients, third, again):
        client.close()


def test_a_connection_beyond_the_maximum_waits_until_another_closes(node: Node | KafkaNode) -> None:
    configure(node, "max.connections", "3")
    clients = [RawClient(node.port, source_host="127.0.0.4", timeout_s=1) for _ in range(3)]
    assert all(answers(client) for client in clients)
    waiting = RawClient(node.port, source_host="127.0.0.4", timeout_s=1)
    waiting.send(MetadataRequest(topics=[]), 9)
    with pytest.raises(socket.timeout):
        waiting.receive()
    clients.pop().close()
    waiting.forget_expected()
    waiting.send(MetadataRequest(topics=[]), 9)
    assert waiting.receive().brokers
    for client in (*clients, waiting):
        client.close()
    time.sleep(0.3)
    configure(node, "max.connections", None)


def test_connections_above_the_rate_of_an_address_are_closed(node: Node | KafkaNode) -> None:
    admin = RawClient(node.port)
    entry = quota([("ip", "127.0.0.5")], ("connection_creation_rate", 1.0))
    assert admin.call(quotas(entry), 1).entries[0].error_code == 0
    admin.close()
    time.sleep(0.5)
    clients = [RawClient(node.port, source_host="127.0.0.5") for _ in range(14)]
    began = time.monotonic()
    closed = [is_closed(client) for client in clients]
    assert 3 <= sum(closed) <= 5
    assert 0.5 < time.monotonic() - began < 5, "they are closed after a delay, not immediately"
    for client in clients:
        client.close()
