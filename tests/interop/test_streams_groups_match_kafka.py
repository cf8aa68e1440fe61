"""Streams groups live the same lives on our nodes and on Kafka 4.3.1: the same random walks through both."""

from __future__ import annotations

import os
from pathlib import Path
from random import SystemRandom

import pytest

from barnabas.testing import Node
from tests.interop.streams_group_walk import WALK_SETTINGS, tell_apart, walk
from tests.peers import running_kafka

pytestmark = pytest.mark.interop

STEPS = int(os.environ.get("BARNABAS_WALK_STEPS", "750"))
SEED = int(os.environ.get("BARNABAS_WALK_SEED", "0")) or SystemRandom().randrange(2**31)


@pytest.mark.timeout(600)
def test_both_nodes_tell_the_same_story(tmp_path: Path) -> None:
    print(f"BARNABAS_WALK_SEED={SEED}")
    with running_kafka(tmp_path, settings=WALK_SETTINGS) as kafka:
        expected = walk(kafka.port, SEED, STEPS)
    with Node(settings=WALK_SETTINGS) as node:
        seen = walk(node.port, SEED, STEPS)
        assert "Traceback" not in node.log
    tell_apart(expected, seen, f"seed {SEED}")
