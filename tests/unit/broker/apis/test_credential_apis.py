"""Credentials, tokens and quotas: broker and controller together answer as a real Kafka 4.3.1 did (tests/peers)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.peers.credential_requests import Step, comparable, steps, steps_without_tokens
from tests.unit.broker.apis.credential_world import CredentialWorld

RECORDED = Path(__file__).parents[3] / "vectors" / "credentials" / "answers-4.3.1.jsonl.gz"
REFUSED_PASSWORD = {"errorCode": 93, "errorMessage": "The salted password must not be empty", "user": "pass"}
BETTER = {
    "scram: empty salted password": "says what is wrong, where Kafka has -1 and no text",
    "scram: empty salted password beside a good one": "the same",
}


def recorded() -> dict[str, Any]:
    with gzip.open(RECORDED, "rt", encoding="utf-8") as lines:
        return {line["case"]: line["answer"] for line in map(json.loads, lines)}


def differences(world: CredentialWorld, steps: list[Step]) -> dict[str, tuple[Any, Any]]:
    kafka = recorded()
    known: dict[str, bytes] = {}
    found = {}
    for step in steps:
        world.harness.clock.ms += 1
        answer = world.ask(step.caller, step.make(known), step.version)
        if getattr(answer, "token_id", ""):
            known[step.name] = answer.hmac
        ours = comparable(answer.to_json(step.version), world.harness.clock.ms)
        if ours != kafka[step.name]:
            found[step.name] = (kafka[step.name], ours)
    return found


def test_every_answer_equals_kafkas() -> None:
    different = differences(CredentialWorld(), steps())
    assert {name: pair for name, pair in different.items() if name not in BETTER} == {}
    assert set(different) == set(BETTER)
    for _, ours in different.values():
        assert REFUSED_PASSWORD in ours["results"]


def test_without_a_secret_key_every_answer_is_kafkas() -> None:
    assert differences(CredentialWorld(has_tokens=False), steps_without_tokens()) == {}


def test_every_recorded_answer_is_compared() -> None:
    names = [step.name for step in [*steps(), *steps_without_tokens()]]
    assert len(set(names)) == len(names)
    assert set(names) == set(recorded())


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_created_token_can_be_used_immediately(version: int) -> None:
    """A real Kafka needs some milliseconds until it can renew, describe or authenticate a token that it created."""
    world = CredentialWorld()
    step = next(step for step in steps() if step.name == f"t{version}")
    created = world.ask("alice", step.make({}), version)
    assert created.error_code == 0
    known = {"t": created.hmac}
    named = {step.name: step for step in steps()}
    assert world.credentials.delegation_token(created.token_id) is not None
    assert len(world.ask("alice", named["describe hers"].make(known), 3).tokens) == 1
    renewal = named["renew for 3600000"].make({"t2": created.hmac})
    assert world.ask("alice", renewal, 2).error_code == 0
    removal = named["remove what is expired"].make({"t1": created.hmac})
    assert world.ask("alice", removal, 2).error_code == 0
    assert world.credentials.delegation_token(created.token_id) is None
