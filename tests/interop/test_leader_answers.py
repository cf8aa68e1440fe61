"""A leader answers followers, producers, consumers and groups as a real Kafka 4.3.1 did."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from barnabas.testing import Node
from tests.peers.leader_story import SETTINGS
from tests.peers.record_leader_answers import answers_of

pytestmark = pytest.mark.interop

BETTER = {
    "a heartbeat after that": "the answer says that the group rebalances; Kafka's waits in vain for the group's write"
}
RECORDED = Path(__file__).parents[1] / "vectors" / "broker" / "leader-answers-4.3.1.jsonl.gz"


def test_every_answer_equals_kafkas() -> None:
    with gzip.open(RECORDED, "rt", encoding="utf-8") as lines:
        recorded = {line["step"]: line["answer"] for line in map(json.loads, lines)}
    with Node(settings=SETTINGS) as node:
        ours = answers_of(node)
    different = {name: (recorded[name], answer) for name, answer in ours.items() if answer != recorded[name]}
    assert {name: pair for name, pair in different.items() if name not in BETTER} == {}
    assert set(BETTER) <= set(different), "this is not a difference any longer"
    assert set(ours) == set(recorded)
