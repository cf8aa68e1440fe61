"""For any request about configs, each resource receives one result in its place, and the controller continues."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.common.broker_config import BROKER_CONFIG_DEF
from barnabas.common.errors import ErrorCode
from barnabas.common.group_config import CLIENT_METRICS_CONFIG_DEF, GROUP_CONFIG_DEF
from barnabas.common.topic_config import TOPIC_CONFIG_DEF
from barnabas.server.settings.dynamic_broker_config import DynamicSettings
from tests.peers.admin_requests import BROKER, CLIENT_METRICS, GROUP, TOPIC, alter, replace
from tests.unit.broker.apis.test_alter_configs import RIGHTS, World
from tests.unit.controller.controller_harness import topic
from tests.unit.server.settings.test_dynamic_broker_config import config_of

KNOWN = [
    name
    for definitions in (BROKER_CONFIG_DEF, TOPIC_CONFIG_DEF, GROUP_CONFIG_DEF, CLIENT_METRICS_CONFIG_DEF)
    for name in definitions
]
KINDS = st.sampled_from([TOPIC, TOPIC, BROKER, BROKER, GROUP, CLIENT_METRICS]) | st.integers(-128, 127).filter(
    lambda kind: kind != 8  # Levels of the test's own loggers.
)
NAMES = st.sampled_from(["", "1", "2", "-1", "t", "t", "g", "missing", "bad name", "۱", " 1"]) | st.text(max_size=5)
KEYS = st.sampled_from(KNOWN) | st.sampled_from(KNOWN).map("listener.name.plaintext.{}".format) | st.text(max_size=8)
VALUES = (
    st.sampled_from(
        ["", " ", "0", "1", "-1", "true", "compact,delete", "9" * 30, "1e999", "NaN", ",", "=", "x" * 40_000]
    )
    | st.sampled_from(["client_id=[", "TopicPolicy", "PLAINTEXT://:1", "1:1", "*", "SSL", "TLSv1.3", "module:Class"])
    | st.text(max_size=8)
    | st.none()
)
CHANGES = st.lists(st.tuples(KEYS, st.integers(0, 3) | st.integers(-128, 127), VALUES), max_size=4)
RESOURCES = st.lists(st.tuples(KINDS, NAMES, CHANGES), max_size=4)


@cache
def world() -> World:
    made = World(*RIGHTS)
    made.harness.create(topic("t"))
    made.refresh()
    made.broker.dynamic_settings = DynamicSettings(
        config_of(), configs=lambda: made.metadata.image.configs, cipher=None
    )
    return made


def check(request: Any, resources: list[Any]) -> None:
    made = world()
    answers = made.ask(request).responses
    assert [(answer.resource_type, answer.resource_name) for answer in answers] == [answer[:2] for answer in resources]
    bugs = [answer for answer in answers if answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR]
    assert (bugs, made.harness.faults, made.harness.controller.is_active) == ([], [], True)


@settings(max_examples=150, deadline=None)
@given(RESOURCES, st.booleans())
def test_single_changes(resources: list[Any], validate_only: bool) -> None:
    request = alter(*((kind, name, *changes) for kind, name, changes in resources), validate_only=validate_only)
    check(request, resources)


@settings(max_examples=80, deadline=None)
@given(RESOURCES)
def test_replacements(resources: list[Any]) -> None:
    request = replace(*((kind, name, *((key, value) for key, _, value in all_)) for kind, name, all_ in resources))
    check(request, resources)
