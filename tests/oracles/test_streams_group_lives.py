"""Streams groups: lives in Kafka's own coordinator, recorded by ``tests.peers.record_streams_group_lives``."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.peers.streams_group_lives import differences

pytestmark = pytest.mark.oracle

LIVES = Path(__file__).parents[1] / "vectors" / "streams_groups" / "lives-4.3.1.jsonl.gz"
COUNT = 5


@cache
def recorded() -> list[list[dict[str, Any]]]:
    with gzip.open(LIVES, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize("number", range(COUNT))
def test_our_coordinator_answers_and_writes_as_kafkas(number: int) -> None:
    assert differences(recorded()[number]) == []


def test_the_recorded_lives_are_long_and_full_of_events() -> None:
    steps = [step for life in recorded() for step in life[1:]]
    assert len(recorded()) == COUNT
    assert len(steps) >= 2_500
    kinds = Counter(step["kind"] for step in steps)
    assert min(kinds.values()) >= 10
    answers = [step["answer"] for step in steps if step["kind"] == "heartbeat"]
    errors = Counter(answer["errorCode"] for answer in answers)
    assert errors[0] > 500
    assert {25, 42, 69, 81, 110, 130} <= errors.keys()  # Unknown, invalid, no group, full, fenced, invalid topology.
    statuses = {status["statusCode"] for answer in answers for status in answer["status"] or ()}
    assert statuses == {0, 1, 2, 3, 4, 5}
    assert sum(1 for answer in answers if answer["standbyTasks"]) > 20
    assert sum(1 for answer in answers if answer["partitionsByUserEndpoint"]) > 20
