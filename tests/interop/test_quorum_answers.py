"""A controller answers every request of the quorum as a real Kafka 4.3.1 did, but for what is listed here."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.peers.quorums import OurController
from tests.peers.record_quorum_answers import SITUATIONS, told_in

pytestmark = pytest.mark.interop

RECORDED = Path(__file__).parents[1] / "vectors" / "controller" / "quorum-answers-4.3.1.jsonl.gz"


def recorded(situation: str) -> dict[str, Any]:
    with gzip.open(RECORDED, "rt", encoding="utf-8") as lines:
        return {line["step"]: line["answer"] for line in map(json.loads, lines) if line["situation"] == situation}


def why_better(step: str, theirs: Any, ours: Any) -> str | None:
    """None where we have no reason to differ."""
    if ("fetch snapshot" in step or step.startswith("chunk")) and theirs["errorCode"] == -1:
        return "Kafka's own error answers can't be written, and -1 is all that is left of them"
    if "negative bytes" in step and ours["responses"][0]["partitions"][0]["errorCode"] == 0:
        return "who fetches a negative number of bytes gets a batch, as who fetches none"
    if "describe" in step and ours["topics"][0]["partitions"][0]["errorCode"] == 6:
        return "who does not lead says who does, where Kafka says 0 for everything"
    return None


@pytest.mark.parametrize("situation", SITUATIONS)
def test_every_answer_is_kafkas(situation: str, tmp_path: Path) -> None:
    theirs, ours = recorded(situation), told_in(situation, tmp_path, OurController)
    assert list(ours) == list(theirs)
    different = {step: (theirs[step], answer) for step, answer in ours.items() if answer != theirs[step]}
    assert {step: pair for step, pair in different.items() if why_better(step, *pair) is None} == {}
