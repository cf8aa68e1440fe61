"""Our assignors write the records that Kafka's wrote, in the same order, in recorded lives of groups."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.peers.assignor_answers import answers_of_ours

pytestmark = pytest.mark.oracle

RECORDED = Path(__file__).parents[3] / "vectors" / "assignors" / "lives-4.3.1.jsonl.gz"


@cache
def recorded() -> list[dict[str, Any]]:
    with gzip.open(RECORDED, "rt") as file:
        return [json.loads(line) for line in file]


@pytest.mark.parametrize(("assignor", "least"), [("uniform", 370), ("range", 120), ("simple", 170), ("sticky", 320)])
def test_assignments_equal_kafkas(assignor: str, least: int) -> None:
    lives = [line for line in recorded() if line["life"]["assignor"] == assignor]
    assert len(lives) >= least
    for number, line in enumerate(lives):
        for step, (ours, kafkas) in enumerate(zip(answers_of_ours(line["life"]), line["answers"], strict=True)):
            assert ours == kafkas, f"step {step} of life {number} of {assignor}"
