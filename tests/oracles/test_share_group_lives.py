"""Share groups: lives of groups on Kafka's own coordinator, recorded by ``tests.peers.record_share_group_lives``."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.peers.share_group_lives import ScriptedShareGroups, normalized

pytestmark = pytest.mark.oracle

RECORDED = Path(__file__).parent / "data" / "share_groups" / "lives-4.3.1.json.gz"


@cache
def lives() -> list[dict[str, Any]]:
    recorded: list[dict[str, Any]] = json.loads(gzip.decompress(RECORDED.read_bytes()))
    return recorded


@pytest.mark.parametrize("number", range(len(lives())))
def test_share_groups_answer_and_write_as_kafkas_do(number: int) -> None:
    life = lives()[number]
    with closing(ScriptedShareGroups(life["settings"])) as ours:
        for index, step in enumerate(life["steps"]):
            assert normalized(ours.run(step)) == normalized(step), f"step {index} of life {number}: {step['kind']}"


def test_the_recorded_lives_are_long_and_full_of_events() -> None:
    steps = [step for life in lives() for step in life["steps"]]
    assert len(steps) >= 1_500
    kinds = Counter(step["kind"] for step in steps)
    assert min(kinds.values()) >= 10
    errors = Counter(step["answer"]["errorCode"] for step in steps if step["kind"] == "heartbeat")
    assert errors[0] > 200
    assert {25, 42, 69, 81, 110} <= errors.keys()  # Unknown, invalid, no group, full, fenced.
    assigned = [step["answer"]["assignment"] for step in steps if step["kind"] == "heartbeat"]
    assert sum(1 for assignment in assigned if assignment and assignment["topicPartitions"]) > 100
