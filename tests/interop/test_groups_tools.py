"""Kafka's tools for groups of all kinds print the same of our node as of a real Kafka 4.3.1, and change the same.

These are kafka-consumer-groups.sh, kafka-share-groups.sh, kafka-streams-groups.sh and kafka-groups.sh.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers import KafkaNode
from tests.peers.command_node import CommandNode
from tests.peers.groups_tools import SETTINGS, answers_of, recorded
from tests.peers.kinds import KAFKA, run_on_each_kind
from tests.peers.node_process import NodeProcess

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400), pytest.mark.usefixtures("kafka_peer")]

ANSWERS = recorded((Path(__file__).parent.parent / "vectors" / "groups" / "groups-tools-4.3.1.txt").read_text())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    run_on_each_kind(metafunc, "node")


@pytest.fixture
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    kind = KafkaNode if request.param == KAFKA else CommandNode
    node: NodeProcess = kind(tmp_path_factory.mktemp("tools"), settings=SETTINGS)
    node.start()
    yield node
    node.stop()
    if request.param != KAFKA:
        assert "Traceback" not in node.printed()


def test_the_tools_print_what_is_recorded(node: NodeProcess, tmp_path: Path) -> None:
    answers = answers_of(node, tmp_path)
    assert answers.keys() == ANSWERS.keys()
    assert {command: lines for command, lines in answers.items() if lines != ANSWERS[command]} == {}
