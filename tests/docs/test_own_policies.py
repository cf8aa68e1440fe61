"""The policies in the tutorial behave as the tutorial says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from barnabas.controller.policies import NewTopic, PolicyResource, PolicyViolation

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorials" / "policies.md"


@pytest.fixture(scope="module")
def rules() -> dict[str, Any]:
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert code is not None
    namespace: dict[str, Any] = {}
    exec(code.group(1), namespace)
    return namespace


def test_the_topic_policy_of_the_tutorial_decides_as_documented(rules: dict[str, Any]) -> None:
    policy = rules["NamedAfterATeam"]()
    policy.configure({"num.partitions": "2"})
    policy.validate(NewTopic("billing.orders", 24, 1, None, {}))
    policy.validate(NewTopic("__consumer_offsets", 50, 1, None, {}))
    with pytest.raises(PolicyViolation, match=r"call it team\.orders"):
        policy.validate(NewTopic("orders", 1, 1, None, {}))
    with pytest.raises(PolicyViolation, match="24 partitions at most"):
        policy.validate(NewTopic("billing.orders", 25, 1, None, {}))


def test_the_config_policy_of_the_tutorial_decides_as_documented(rules: dict[str, Any]) -> None:
    policy = rules["KeptForAWeek"]()
    topic = PolicyResource("TOPIC", "orders")
    policy.validate(topic, {"retention.ms": "604800000"}, existing_configs={}, principal="User:alice")
    policy.validate(topic, {"retention.ms": "-1"}, existing_configs={}, principal="User:admin")
    policy.validate(topic, {"retention.ms": None}, existing_configs={"retention.ms": "-1"}, principal="User:alice")
    for configs, existing in (({"retention.ms": "-1"}, {}), ({"segment.ms": "5"}, {"retention.ms": "604800001"})):
        with pytest.raises(PolicyViolation, match="a week at most"):
            policy.validate(topic, configs, existing_configs=existing, principal="User:alice")
