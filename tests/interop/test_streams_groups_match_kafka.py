"""Streams groups live the same lives on our nodes and on Kafka 4.3.1: the same random walks through both."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.testing import Node
from tests.interop.streams_group_walk import WALK_SETTINGS, tell_apart, walk
from tests.interop.walks import walk_seeds, walk_steps
from tests.peers import running_kafka

pytestmark = pytest.mark.interop

STEPS = walk_steps(300)
SEEDS = walk_seeds(1)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", SEEDS)
def test_both_nodes_tell_the_same_story(seed: int, tmp_path: Path) -> None:
    with running_kafka(tmp_path, settings=WALK_SETTINGS) as kafka:
        expected = walk(kafka.port, seed, STEPS)
    with Node(settings=WALK_SETTINGS) as node:
        seen = walk(node.port, seed, STEPS)
        assert "Traceback" not in node.log
    tell_apart(expected, seen, f"seed {seed}")
