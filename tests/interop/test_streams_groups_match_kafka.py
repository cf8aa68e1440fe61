"""Streams groups live the same lives on our nodes and on Kafka 4.3.1: the same random walks through both."""

from __future__ import annotations

import os
from pathlib import Path
from random import SystemRandom

import pytest

from barnabas.testing import Node
from tests.interop.streams_group_walk import WALK_SETTINGS, walk
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
    for number, (theirs, ours) in enumerate(zip(expected.steps, seen.steps, strict=True)):
        before = "\n".join(f"    {step.what}: {step.answer}" for step in expected.steps[max(number - 8, 0) : number])
        assert ours == theirs, f"seed {SEED}, step {number}: after\n{before}\nkafka: {theirs}\n ours: {ours}"
    for number, (written, ours_wrote) in enumerate(zip(expected.records, seen.records, strict=True)):
        before = "\n".join(expected.records[max(number - 3, 0) : number])
        assert ours_wrote == written, (
            f"seed {SEED}, batch {number}: after\n{before}\nkafka: {written}\n ours: {ours_wrote}"
        )
