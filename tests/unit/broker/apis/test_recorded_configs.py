"""Our broker answers ``tests/peers/config_requests`` as a real Kafka 4.3.1 did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from barnabas.server.settings.dynamic_broker_config import DynamicSettings
from tests.peers.config_requests import SETTINGS, comparable_answer, config_requests
from tests.unit.broker.apis.test_alter_configs import RIGHTS, World
from tests.unit.server.settings.test_dynamic_broker_config import config_of

RECORDED = Path(__file__).parents[3] / "vectors" / "configs" / "config-answers-4.3.1.jsonl"


def recorded() -> dict[str, Any]:
    with RECORDED.open(encoding="utf-8") as lines:
        return {line["case"]: line["answer"] for line in map(json.loads, lines)}


def world() -> World:
    world = World(*RIGHTS, "CLUSTER:CREATE")
    texts = {name.replace(".", "_"): text for name, text in SETTINGS.items()}
    config = config_of(**texts, num_partitions="1")
    world.broker.static_configs = config.static
    world.broker.dynamic_settings = DynamicSettings(config, configs=lambda: world.metadata.image.configs, cipher=None)
    return world


def test_every_answer_equals_kafkas() -> None:
    answers, ours, different = recorded(), world(), {}
    for name, request, version in config_requests():
        response = ours.ask(request, version)
        decoded = type(response).decode(response.encode(version), version).to_json(version)
        seen = json.loads(json.dumps(comparable_answer(decoded)))
        if seen != answers[name]:
            different[name] = (answers[name], seen)
    assert different == {}
    assert len(answers) == len(config_requests())
