"""Java's members of groups and their administrators have the same stories to tell of our nodes and of Kafka's.

The stories are in ``ConsumerGroupStories.java`` (KIP-848, with members of the classic protocol) and
``ShareGroupStories.java`` (KIP-932) of ``tests/peers/java``; ``tests/vectors/groups`` has what a real Kafka says.
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

RECORDED = Path(__file__).parent.parent / "vectors" / "groups"
SETTINGS = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "300",
    "group.initial.rebalance.delay.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.min.record.lock.duration.ms": "1000",
    "offsets.topic.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
}


def stories(kind: str) -> dict[str, str]:
    """Return the recorded lines of each story, its name first."""
    text = (RECORDED / f"{kind}-stories-4.3.1.txt").read_text()
    return {story.split("\n", 1)[0]: story.strip() for story in text.split("== ")[1:]}


CONSUMER_STORIES = stories("consumer")
SHARE_STORIES = stories("share")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    run_on_each_kind(metafunc, "node")


@pytest.fixture(scope="module")
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    node: NodeProcess = (KafkaNode if request.param == KAFKA else CommandNode)(
        tmp_path_factory.mktemp("stories"), settings=SETTINGS
    )
    node.start()
    yield node
    status = node.stop()
    if request.param != KAFKA:
        assert status == 0
        assert "Traceback" not in node.printed()


def told(program: str, node: NodeProcess, story: str) -> str:
    return run_source(program, f"127.0.0.1:{node.port}", story, timeout_s=200).removeprefix("== ").strip()


@pytest.mark.parametrize("story", CONSUMER_STORIES)
def test_a_story_of_consumers_is_the_same_on_each_node(node: NodeProcess, story: str) -> None:
    assert told("ConsumerGroupStories", node, story) == CONSUMER_STORIES[story]


@pytest.mark.parametrize("story", SHARE_STORIES)
def test_a_story_of_share_consumers_is_the_same_on_each_node(node: NodeProcess, story: str) -> None:
    assert told("ShareGroupStories", node, story) == SHARE_STORIES[story]
