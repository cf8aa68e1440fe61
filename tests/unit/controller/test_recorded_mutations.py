"""Our controller answers ``tests/peers/mutation_requests`` as a real Kafka 4.3.1 did, except for the differences here.

Requests to the quorum need a node: ``tests/interop/test_mutations.py`` covers them.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from tests.peers.mutation_requests import mutations
from tests.unit.controller.controller_harness import ControllerHarness
from tests.unit.controller.test_recorded_answers import comparable, ours

RECORDED = Path(__file__).parents[2] / "vectors" / "controller" / "mutation-answers-4.3.1.jsonl.gz"

BETTER: dict[str, str] = {
    **dict.fromkeys(
        (f"quota: {name}" for name in ("ip and user", "ip and client", "all three")), "the text, without its misprint"
    ),
    "quota: user twice": "refused, instead of the last name winning",
    "quota: same user twice": "refused, instead of the last name winning",
    "quota: not a number": "refused, instead of a quota that no client can keep",
    "quota: percentage not a number": "refused, instead of a quota that no client can keep",
    "quota: key twice": "the text, without a dump of objects",
    "quota: set and remove": "the text, without a dump of objects",
    "quota: entity twice": "refused in both places, instead of being done and refused",
    "quota: ip that is none": "names are looked up where they count, not while the controller decides",
}


def recorded() -> dict[str, Any]:
    with gzip.open(RECORDED, "rt", encoding="utf-8") as lines:
        return {line["case"]: line["answer"] for line in map(json.loads, lines)}


def test_every_answer_equals_kafkas() -> None:
    answers = recorded()
    harness = ControllerHarness().activate()
    harness.start_broker(1)
    different = {}
    for name, request, version in mutations():
        if name.startswith("quorum: "):
            continue
        kafka, answer = comparable(answers[name]), comparable(ours(harness, request, version))
        if kafka != answer:
            different[name] = (kafka, answer)
    assert {name: pair for name, pair in different.items() if name not in BETTER} == {}
    assert set(BETTER) <= set(different), "this difference no longer exists"
    assert not harness.faults
    assert len(mutations()) == len(answers)
