"""Our controller answers ``tests/peers/admin_requests`` as a real Kafka 4.3.1 did, except for the differences here."""

from __future__ import annotations

import gzip
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from barnabas.protocol.api_keys import ApiKey
from tests.peers.admin_requests import requests_for_broker, requests_for_controller
from tests.unit.controller.controller_harness import ControllerHarness

RECORDED = Path(__file__).parents[2] / "vectors" / "controller" / "admin-answers-4.3.1.jsonl.gz"
ZERO_ID = "AAAAAAAAAAAAAAAAAAAAAA"

BETTER: dict[tuple[str, str], str] = {
    ("broker", "unknown operation"): "error 42 with the operation's number instead of -1",
    ("controller", "broker config of a bad type"): "a value that no broker could use is refused",
}


def recorded() -> dict[tuple[str, str], Any]:
    with gzip.open(RECORDED, "rt", encoding="utf-8") as lines:
        return {(line["listener"], line["case"]): line["answer"] for line in map(json.loads, lines)}


def comparable(answer: Any) -> Any:
    """Remove values that differ between runs: new ids, throttling, and the unspecified order of entries."""
    if isinstance(answer, dict):
        return {
            key: "new" if key == "topicId" and value != ZERO_ID else comparable(value)
            for key, value in answer.items()
            if key != "throttleTimeMs"
        }
    if isinstance(answer, list):
        return sorted((comparable(entry) for entry in answer), key=lambda entry: json.dumps(entry, sort_keys=True))
    return answer


def ours(harness: ControllerHarness, request: Any, version: int) -> Any:
    module = import_module(f"barnabas.controller.apis.{ApiKey(request.API_KEY).name.lower()}")
    response = harness.call(module.handle, request, version)
    return type(response).decode(response.encode(version), version).to_json(version)


@pytest.mark.parametrize("listener", ["broker", "controller"])
def test_every_answer_equals_kafkas(listener: str) -> None:
    answers = recorded()
    harness = ControllerHarness().activate()
    harness.controller.features.kraft_version = 1
    harness.start_broker(1)
    cases = requests_for_broker() if listener == "broker" else requests_for_controller()
    different = {}
    for name, request, version in cases:
        kafka, answer = comparable(answers[listener, name]), comparable(ours(harness, request, version))
        if kafka != answer:
            different[name] = (kafka, answer)
    assert {name: pair for name, pair in different.items() if (listener, name) not in BETTER} == {}
    assert {name for where, name in BETTER if where == listener} <= set(different), "this difference no longer exists"
    assert len(cases) == sum(1 for key in answers if key[0] == listener)
