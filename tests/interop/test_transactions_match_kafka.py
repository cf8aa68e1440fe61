"""Our transaction coordinator answers as Kafka 4.3.1's does: the same random walks through both."""

from __future__ import annotations

import os

import pytest

from barnabas.testing import Node
from tests.interop.transaction_walk import walk
from tests.peers import KafkaNode

pytestmark = pytest.mark.interop

STEPS = int(os.environ.get("BARNABAS_WALK_STEPS", "150"))
SEEDS = [int(seed) for seed in os.environ.get("BARNABAS_WALK_SEEDS", "1,2").split(",")]


@pytest.mark.parametrize("seed", SEEDS)
def test_both_nodes_tell_the_same_story(seed: int, real_kafka: KafkaNode, barnabas_node: Node) -> None:
    theirs = walk(real_kafka.port, seed, STEPS)
    ours = walk(barnabas_node.port, seed, STEPS)
    for number, (expected, seen) in enumerate(zip(theirs, ours, strict=True)):
        before = "\n".join(f"    {step.what}: {step.answer}" for step in theirs[max(number - 8, 0) : number])
        assert seen == expected, f"seed {seed}, step {number}: after\n{before}\nkafka: {expected}\n ours: {seen}"
