"""Java's share consumers and administrators have the same stories to tell of our nodes and of Kafka's.

The stories are in ``tests/peers/java/ShareGroupStories.java``. ``tests/vectors/share/stories-4.3.1.txt`` has what a
real Kafka says.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers import KafkaNode
from tests.peers.command_node import CommandNode
from tests.peers.java import run_source
from tests.peers.kinds import KAFKA, run_on_each_kind
from tests.peers.node_process import NodeProcess

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]

RECORDED = (Path(__file__).parent.parent / "vectors" / "share" / "stories-4.3.1.txt").read_text()
STORIES = {text.split("\n", 1)[0]: text.strip() for text in RECORDED.split("== ")[1:]}
SETTINGS = {
    "group.share.assignment.interval.ms": "0",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.min.record.lock.duration.ms": "1000",
    "share.coordinator.state.topic.num.partitions": "4",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    run_on_each_kind(metafunc, "node")


@pytest.fixture(scope="module")
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    node: NodeProcess = (KafkaNode if request.param == KAFKA else CommandNode)(
        tmp_path_factory.mktemp("stories"), settings=SETTINGS
    )
    node.start()
    yield node
    assert node.stop() == 0
    if request.param != KAFKA:
        assert "Traceback" not in node.printed()


@pytest.mark.parametrize("story", STORIES)
def test_a_story_is_the_same_on_each_node(node: NodeProcess, story: str) -> None:
    told = run_source("ShareGroupStories", f"127.0.0.1:{node.port}", story, timeout_s=200)
    assert told.removeprefix("== ").strip() == STORIES[story]
