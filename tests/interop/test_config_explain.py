"""``barnabas configs explain`` of our node and of a real Kafka: the same answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from barnabas.cli.configs.command import main
from barnabas.testing import Node
from tests.interop.raw_client import RawClient
from tests.peers import KafkaNode
from tests.peers.admin_requests import BROKER, DELETE, SET, TOPIC, alter, create, new_topic

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

TOPIC_NAME = "explained"


@pytest.fixture(params=["barnabas_node", "real_kafka"])
def node(request: pytest.FixtureRequest) -> Node | KafkaNode:
    found: Node | KafkaNode = request.getfixturevalue(request.param)
    return found


def test_the_level_that_wins_is_named(node: Node | KafkaNode, capsys: pytest.CaptureFixture[str]) -> None:
    client = RawClient(node.port)
    client.call(create(new_topic(TOPIC_NAME)))
    client.call(alter((BROKER, "", ("log.retention.ms", SET, "70000000"))))
    client.call(alter((TOPIC, TOPIC_NAME, ("retention.ms", SET, "5000000"))))
    try:
        command = ["explain", "--bootstrap-server", node.bootstrap_servers, "--topic", TOPIC_NAME]
        explanations: dict[str, Any] = {}
        for _ in range(50):  # A real Kafka applies a change a little later than it acknowledges it.
            assert main([*command, "--config", "retention.ms", "--config", "flush.ms", "-o", "json"]) == 0
            explanations = {
                explanation["setting"]: explanation
                for explanation in json.loads(capsys.readouterr().out)["explanations"]
            }
            if len(explanations["retention.ms"]["nodes"][0]["chain"]) == 3:
                break
        assert explanations["flush.ms"]["nodes"] == [
            {"node": 1, "value": "9223372036854775807", "source": "DEFAULT_CONFIG", "chain": []}
        ]
        assert explanations["retention.ms"]["nodes_agree"] is True
        assert explanations["retention.ms"]["nodes"] == [
            {
                "node": 1,
                "value": "5000000",
                "source": "TOPIC_CONFIG",
                "chain": [
                    {"name": "retention.ms", "value": "5000000", "source": "TOPIC_CONFIG"},
                    {"name": "log.retention.ms", "value": "70000000", "source": "DYNAMIC_DEFAULT_BROKER_CONFIG"},
                    {"name": "log.retention.hours", "value": "168", "source": "DEFAULT_CONFIG"},
                ],
            }
        ]
        assert main([*command, "--config", "retention.ms"]) == 0
        printed = " ".join(capsys.readouterr().out.split())
        assert (
            "1 5000000 retention.ms, set on the topic 70000000 (log.retention.ms, set for all brokers); then" in printed
        )
    finally:
        client.call(alter((BROKER, "", ("log.retention.ms", DELETE, None))))
        client.close()


def test_a_broker_explains_itself(node: Node | KafkaNode, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["explain", "--bootstrap-server", node.bootstrap_servers, "--broker", "1", "--config", "node.id"]
    assert main(command) == 0
    assert "node.id, in the node's file" in capsys.readouterr().out
    assert main([*command[:-1], "node.idd"]) == 0
    assert "node.idd is not a setting of a broker" in capsys.readouterr().err
