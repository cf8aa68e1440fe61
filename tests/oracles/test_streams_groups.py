"""Topologies, requests and members of streams groups: our answers are those of Kafka's own classes."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.peers.streams_group_answers import differences

pytestmark = pytest.mark.oracle

ANSWERS = Path(__file__).parents[1] / "vectors" / "streams_groups" / "answers-4.3.1.jsonl.gz"


@cache
def recorded() -> list[dict[str, Any]]:
    with gzip.open(ANSWERS, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize("kind", ["topology", "heartbeat", "group"])
def test_our_answers_are_those_of_kafka(kind: str) -> None:
    rows = [row for row in recorded() if row["question"]["kind"] == kind]
    found = [difference for row in rows for difference in differences(row["question"], row["answer"])]
    assert not found, f"{len(found)} parts of {len(rows)} answers differ: {found[:3]}"


def test_the_recording_has_every_kind_of_answer() -> None:
    kinds = Counter(row["question"]["kind"] for row in recorded())
    steps = sum(len(row["question"].get("steps", ())) for row in recorded())
    outcomes = {row["answer"].get("error", row["answer"].get("status")) for row in recorded()}
    assert kinds["topology"] >= 300
    assert steps >= 1000
    assert {None, 1, 2, 3, "INVALID_REQUEST", "STREAMS_INVALID_TOPOLOGY", "UNKNOWN_SERVER_ERROR"} <= outcomes
