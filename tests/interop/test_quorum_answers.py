"""A controller answers every quorum request as a real Kafka 4.3.1 did, except for the differences listed here."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.peers.quorums import OurController
from tests.peers.record_quorum_answers import SITUATIONS, answers_in

pytestmark = pytest.mark.interop

RECORDED = Path(__file__).parents[1] / "vectors" / "controller" / "quorum-answers-4.3.1.jsonl.gz"


def recorded(situation: str) -> dict[str, Any]:
    with gzip.open(RECORDED, "rt", encoding="utf-8") as lines:
        return {line["step"]: line["answer"] for line in map(json.loads, lines) if line["situation"] == situation}


def why_better(step: str, theirs: Any, ours: Any) -> str | None:
    """Return the reason for a difference, or None if we have none."""
    if ("fetch snapshot" in step or step.startswith("chunk")) and theirs["errorCode"] == -1:
        return "Kafka's own error answers can't be serialized, and only -1 is left of them"
    if "negative bytes" in step and ours["responses"][0]["partitions"][0]["errorCode"] == 0:
        return "a fetch of a negative number of bytes receives a batch, as a fetch of 0 bytes does"
    if "describe" in step and ours["topics"][0]["partitions"][0]["errorCode"] == 6:
        return "a follower names the leader, where Kafka returns 0 for everything"
    return None


@pytest.mark.parametrize("situation", SITUATIONS)
def test_every_answer_equals_kafkas(situation: str, tmp_path: Path) -> None:
    theirs, ours = recorded(situation), answers_in(situation, tmp_path, OurController)
    assert list(ours) == list(theirs)
    different = {step: (theirs[step], answer) for step, answer in ours.items() if answer != theirs[step]}
    assert {step: pair for step, pair in different.items() if why_better(step, *pair) is None} == {}
