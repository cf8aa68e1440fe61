"""A node with policies, over the network: every way to create a topic, and a policy that hangs."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.testing import Node
from tests.interop.raw_client import RawClient
from tests.peers.admin_requests import SET, TOPIC, alter, create, new_topic
from tests.peers.node_process import free_ports

pytestmark = [pytest.mark.interop, pytest.mark.timeout(60)]

POLICIES = """
import time
from pathlib import Path
from barnabas.controller.policies import AlterConfigPolicy, CreateTopicPolicy, PolicyViolation

class Topics(CreateTopicPolicy):
    def validate(self, topic, principal):
        if not topic.name.startswith(("ok", "__")):
            raise PolicyViolation(f"{principal} may not have {topic.name}")

class Configs(AlterConfigPolicy):
    def validate(self, resource, configs):
        while configs.get("retention.ms") == "77" and not Path(__file__).with_name("go-on").exists():
            time.sleep(0.05)
"""


@pytest.fixture
def metrics() -> int:
    """The port of the metrics."""
    return free_ports(1)[0]


@pytest.fixture
def node(tmp_path: Path, metrics: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    (tmp_path / "node_policies.py").write_text(POLICIES)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    settings = {
        "create.topic.policy.class.name": "node_policies:Topics",
        "alter.configs.policy.class.name": "node_policies:Configs",
        "barnabas.policy.timeout.ms": "300",
        "barnabas.metrics.listener": f"127.0.0.1:{metrics}",
    }
    with Node(settings=settings) as node:
        yield node
        (tmp_path / "go-on").touch()
        node.stop()


def results_of(response: Any) -> list[tuple[int, str | None]]:
    results = response.topics if hasattr(response, "topics") else response.responses
    return [(result.error_code, result.error_message) for result in results]


def hanging(metrics: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return next(line for line in text.splitlines() if line.startswith('barnabas_policy_hanging{policy="alter"}'))


def test_the_policy_refuses_topics_however_they_are_created(node: Node) -> None:
    client = RawClient(node.port)
    refused = (44, "User:ANONYMOUS may not have bad")
    assert results_of(client.call(create(new_topic("bad"), new_topic("ok")))) == [refused, (0, None)]
    wanted = [MetadataRequestTopic(name=name) for name in ("bad", "ok-by-itself")]
    for _ in range(20):
        client.call(MetadataRequest(topics=wanted, allow_auto_topic_creation=True))
        time.sleep(0.05)
    names = {topic.name for topic in client.call(MetadataRequest(topics=None)).topics}
    assert names == {"ok", "ok-by-itself"}
    client.close()


def test_a_hanging_policy_refuses_changes_and_the_node_continues(node: Node, metrics: int, tmp_path: Path) -> None:
    client = RawClient(node.port)
    client.call(create(new_topic("ok")))
    ((code, message),) = results_of(client.call(alter((TOPIC, "ok", ("retention.ms", SET, "77")))))
    assert code == 44
    assert "did not answer within 0.3 s" in (message or "")
    ((code, message),) = results_of(client.call(alter((TOPIC, "ok", ("retention.bytes", SET, "5")))))
    assert code == 44
    assert "changes are refused until it does" in (message or "")
    assert hanging(metrics).endswith(" 1.0")
    assert results_of(client.call(create(new_topic("ok-too")))) == [(0, None)]
    (tmp_path / "go-on").touch()
    deadline = time.monotonic() + 10
    while not hanging(metrics).endswith(" 0.0") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert results_of(client.call(alter((TOPIC, "ok", ("retention.bytes", SET, "5"))))) == [(0, None)]
    assert "alter.configs.policy.class.name is treated as alter.config.policy.class.name" in node.log
    client.close()
