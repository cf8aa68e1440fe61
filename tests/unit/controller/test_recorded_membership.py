"""Brokers that join, lead and leave receive the responses of a real Kafka 4.3.1, except for the listed differences."""

from __future__ import annotations

import gzip
import json
from importlib import import_module
from pathlib import Path
from typing import Any

from barnabas.protocol.api_keys import ApiKey
from tests.peers.membership_story import membership_story
from tests.unit.controller.controller_harness import CLUSTER_ID, ControllerHarness

RECORDED = Path(__file__).parents[2] / "vectors" / "controller" / "membership-answers-4.3.1.jsonl.gz"
BETTER = {
    "controller without features": "a controller that does not know what is finalized is refused, as brokers are",
}


def comparable(answer: Any) -> Any:
    """Remove values that differ between runs."""
    if isinstance(answer, dict):
        return {
            key: "given" if (key == "brokerEpoch" and value >= 0) or key == "topicId" else comparable(value)
            for key, value in answer.items()
        }
    if isinstance(answer, list):
        return [comparable(entry) for entry in answer]
    return answer


def test_every_answer_equals_kafkas() -> None:
    with gzip.open(RECORDED, "rt", encoding="utf-8") as lines:
        recorded = {line["step"]: comparable(line["answer"]) for line in map(json.loads, lines)}
    harness = ControllerHarness().activate()
    harness.controller.features.kraft_version = 1
    harness.start_broker(1)
    story, ours = membership_story(CLUSTER_ID), {}
    step = next(story)
    while True:
        module = import_module(f"barnabas.controller.apis.{ApiKey(step.request.API_KEY).name.lower()}")
        answer = harness.call(module.handle, step.request, step.version)
        ours[step.name] = comparable(
            type(answer).decode(answer.encode(step.version), step.version).to_json(step.version)
        )
        harness.clock.ms += 1
        try:
            step = story.send(answer)
        except StopIteration:
            break
    different = {name: (recorded[name], answer) for name, answer in ours.items() if answer != recorded[name]}
    assert {name: pair for name, pair in different.items() if name not in BETTER} == {}
    assert set(BETTER) <= set(different), "this difference no longer exists"
    assert set(ours) == set(recorded)
