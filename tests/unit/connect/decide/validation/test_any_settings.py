"""Every plugin validates any settings: each error is a sentence about a setting, and none is a bug."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.connect.decide.registry.plugin import CONNECTORS, Plugin
from barnabas.connect.decide.validation.connector_config import COMMON_CONFIG, OWN_CONFIG, SINK_CONFIG, SOURCE_CONFIG
from barnabas.connect.decide.validation.connector_validation import ConnectorValidation, ValidationDefaults
from barnabas.connect.errors import BadRequest
from barnabas.connect.plugins.discovery import discover

REGISTRY = discover()
VALIDATION = ConnectorValidation(
    REGISTRY,
    ValidationDefaults("g", {"key": "StringConverter", "value": "JsonConverter", "header": "SimpleHeaderConverter"}),
)
CONNECTOR_PLUGINS = REGISTRY.of_type(*CONNECTORS)
NOT_A_SENTENCE = re.compile(r"'[^' ]*'|\w+Error\b.*|.*\bobject at 0x.*|.*=None\b.*|")
VALUES = st.sampled_from(
    ["", "x", "0", "-1", "1", "true", "a,b", "a.b", "/tmp/x", "x://y", "${topic}", "${env:NOPE}", "[", "sqlite:///x"]
) | st.text(max_size=5)
ALIAS_NAMES = ["type", "predicate", "negate", "fields", "target.type", "format", "plugin.version", "x"]


def names_of(plugin: Plugin) -> list[str]:
    common = [key.name for part in (COMMON_CONFIG, SINK_CONFIG, SOURCE_CONFIG, OWN_CONFIG) for key in part]
    aliases = [
        f"{kind}.{alias}.{name}" for kind in ("transforms", "predicates") for alias in "ab" for name in ALIAS_NAMES
    ]
    creation = [f"topic.creation.{group}.{name}" for group in ("default", "a") for name in ("include", "partitions")]
    return [*(key.name for key in plugin.config_def), *common, *aliases, *creation, "producer.override.acks", "unknown"]


def errors_of(config: dict[str, str | None]) -> list[str]:
    return [error for info in VALIDATION.validate(config).configs for error in info.value.errors]


@pytest.mark.parametrize("plugin", CONNECTOR_PLUGINS, ids=lambda plugin: plugin.name.rpartition(".")[2])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_settings_are_valid_or_have_errors_in_sentences(plugin: Plugin, data: st.DataObject) -> None:
    own = [key.name for key in plugin.config_def]
    drawn = data.draw(st.dictionaries(st.sampled_from(names_of(plugin)), VALUES | st.none(), max_size=8))
    if data.draw(st.booleans()):  # All of its own settings, some of them wrong.
        drawn |= {name: data.draw(VALUES) for name in own}
    for key in plugin.config_def:
        if key.name in drawn and data.draw(st.booleans()):
            drawn[key.name] = key.default_text
    found = errors_of({"name": "x", **drawn, "connector.class": plugin.name})
    assert [error for error in found if NOT_A_SENTENCE.fullmatch(error)] == []


@pytest.mark.parametrize("plugin", CONNECTOR_PLUGINS, ids=lambda plugin: plugin.name.rpartition(".")[2])
def test_a_missing_setting_is_reported_as_missing_and_in_no_other_way(plugin: Plugin) -> None:
    infos = VALIDATION.validate({"connector.class": plugin.name, "name": "x", "topics": "t"}).configs
    required = {key.name for key in plugin.config_def if key.required}
    errors = {info.value.name: info.value.errors for info in infos if info.value.name in required}
    for name in required:
        missing, *others = errors[name]
        assert missing == f'Missing required configuration "{name}" which has no default value.'
        assert all(
            error.startswith(f"Invalid value null for configuration {name}:") for error in others
        )  # As in Kafka.


def test_settings_with_few_values_recommend_them() -> None:
    recommended = {
        (plugin.name.rpartition(".")[2], info.value.name): info.value.recommended_values
        for plugin in CONNECTOR_PLUGINS
        for info in VALIDATION.validate({"connector.class": plugin.name}).configs
    }
    assert recommended["TopicToFiles", "format"] == ["parquet", "json", "csv", "orc"]
    assert recommended["TopicToFiles", "compression"] == ["none", "snappy", "gzip", "zstd", "lz4_raw"]
    assert recommended["FilesToTopic", "format"] == ["lines", "whole", "json", "csv", "parquet"]
    assert recommended["JdbcSource", "mode"] == ["bulk", "incrementing", "timestamp", "timestamp+incrementing"]
    assert recommended["JdbcSink", "insert.mode"] == ["insert", "upsert", "update"]
    assert recommended["TopicToDelta", "pk.mode"] == ["none", "record_key", "record_value"]
    assert recommended["TopicToFiles", "errors.tolerance"] == []  # As in Kafka.


def test_aliases_that_give_a_setting_two_meanings_are_refused() -> None:
    converter = "org.apache.kafka.connect.transforms.TimestampConverter$Value"
    config = {"connector.class": "MockSource", "transforms": "a,a.target", "transforms.a.type": converter}
    with pytest.raises(
        BadRequest, match=r"transforms\.a\.target\.type is a setting of both .* a and a\.target"
    ) as raised:
        VALIDATION.validate(dict(config))
    assert "rename one" in str(raised.value)
