"""Consumer groups live the same lives on our nodes and on Kafka 4.3.1: the same random walks through both."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.testing import Node
from tests.interop.consumer_group_walk import WALK_SETTINGS, walk
from tests.interop.walks import walk_seeds, walk_steps
from tests.peers import KafkaNode, running_kafka

pytestmark = pytest.mark.interop

STEPS = walk_steps(150)
SEEDS = walk_seeds(1, 2)


@pytest.fixture(scope="module")
def kafka(kafka_peer: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaNode]:
    with running_kafka(tmp_path_factory.mktemp("walked-kafka"), settings=WALK_SETTINGS) as node:
        yield node


@pytest.fixture(scope="module")
def ours() -> Iterator[Node]:
    with Node(settings=WALK_SETTINGS) as node:
        yield node


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", SEEDS)
def test_both_nodes_tell_the_same_story(seed: int, kafka: KafkaNode, ours: Node) -> None:
    expected, seen = walk(kafka.port, seed, STEPS), walk(ours.port, seed, STEPS)
    for number, (theirs, our) in enumerate(zip(expected.steps, seen.steps, strict=True)):
        before = "\n".join(f"    {step.what}: {step.answer}" for step in expected.steps[max(number - 10, 0) : number])
        assert our == theirs, f"seed {seed}, step {number}: after\n{before}\nkafka: {theirs}\n ours: {our}"
    for number, (written, ours_wrote) in enumerate(zip(expected.records, seen.records, strict=True)):
        before = "\n".join(expected.records[max(number - 3, 0) : number])
        assert ours_wrote == written, (
            f"seed {seed}, batch {number}: after\n{before}\nkafka: {written}\n ours: {ours_wrote}"
        )
