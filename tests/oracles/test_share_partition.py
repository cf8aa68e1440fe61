"""Share-partitions: calls on Kafka's own class, recorded by ``tests.peers.record_share_partition``."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.peers.share_partition_script import ScriptedSharePartition, joined

pytestmark = pytest.mark.oracle

RECORDED = Path(__file__).parent / "data" / "share_partition" / "stories.json.gz"
MOVES_ON_SOONER = {"transactions", "compacted", "gaps"}
"""Stories in which records are archived without a write, or in which a new leader does not know some offsets.

Our start offset then moves on immediately over finished records, Kafka's with its next write, or when a record after
all that were stored is acquired."""


@cache
def stories() -> list[dict[str, Any]]:
    recorded: list[dict[str, Any]] = json.loads(gzip.decompress(RECORDED.read_bytes()))
    return recorded


@pytest.mark.parametrize("number", range(len(stories())))
def test_a_share_partition_answers_like_kafkas(number: int) -> None:
    story = stories()[number]
    ours = ScriptedSharePartition()
    for step, (line, recorded) in enumerate(story["steps"]):
        expected = {"result": None, "next": None, **recorded}
        answer = ours.run(line)
        if line.startswith("advance"):  # Kafka writes once for each lock, and counts on in between.
            answer["written"], expected["written"] = answer["written"]["batches"], expected["written"]["batches"]
        if story["kind"] in MOVES_ON_SOONER:
            expected = without_finished(expected, answer["start"])
            answer = without_finished(answer, answer["start"])
        assert answer == expected, f"step {step} of story {number} ({story['kind']}): {line}"


def without_finished(answer: dict[str, Any], start: int) -> dict[str, Any]:
    """Move the start offset of an answer up to ``start``, over finished records only."""
    finished, batches = 0, []
    for batch in answer["batches"]:
        kept = []
        for first, last, state, count, member, _ in batch:  # What is archived in a transition is out of it.
            before = min(last, start - 1) - max(first, answer["start"]) + 1
            if before > 0:
                assert state in (2, 4)
                finished += before
            if last >= start:
                kept.append([max(first, start), last, state, count, member])
        if kept:
            batches.append(joined(kept))
    return {
        "result": answer["result"],
        "next": answer["next"],
        "complete": answer["complete"] - finished,
        "batches": batches,
        "written": answer["written"]["batches"] if isinstance(answer["written"], dict) else answer["written"],
    }


def test_the_recordings_are_many_and_of_all_kinds() -> None:
    assert sum(len(story["steps"]) for story in stories()) >= 4000
    assert {story["kind"] for story in stories()} >= {"plain", "small", "poison", "gaps", "transactions", "compacted"}
