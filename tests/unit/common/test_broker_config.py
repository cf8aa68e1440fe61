"""The table of node settings, compared with what a real Kafka 4.3.1 describes."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from barnabas.common.broker_config import (
    BROKER_CONFIG_DEF,
    broker_config_key,
    broker_synonyms,
    listener_base_name,
    topic_default_texts,
    topic_defaults,
    update_mode,
)
from barnabas.common.config_def import CLUSTER_WIDE, PER_BROKER, READ_ONLY
from barnabas.common.config_value import display
from barnabas.common.group_config import CLIENT_METRICS_CONFIG_DEF, GROUP_CONFIG_DEF
from barnabas.common.topic_config import TOPIC_CONFIG_DEF

RECORDED = json.loads(
    gzip.decompress((Path(__file__).parents[2] / "vectors/configs/configs-4.3.1.json.gz").read_bytes())
)
UNDEFINED_IN_KAFKA = {"super.users", "listener.name.sasl_plaintext.plain.sasl.jaas.config"}
DEFINITIONS = {
    "broker": BROKER_CONFIG_DEF,
    "topic": TOPIC_CONFIG_DEF,
    "group": GROUP_CONFIG_DEF,
    "client_metrics": CLIENT_METRICS_CONFIG_DEF,
}


@pytest.mark.parametrize("family", DEFINITIONS)
def test_every_visible_kafka_setting_is_defined_and_no_other(family: str) -> None:
    recorded = {row["name"] for row in RECORDED[family]} - UNDEFINED_IN_KAFKA
    assert set(DEFINITIONS[family].visible_names) == recorded


@pytest.mark.parametrize("family", DEFINITIONS)
def test_type_default_validator_and_importance_are_kafkas(family: str) -> None:
    for row in RECORDED[family]:
        if row["name"] in UNDEFINED_IN_KAFKA:
            continue
        key = DEFINITIONS[family][row["name"]]
        default = row["default"] if row["has_default"] else None
        assert (key.name, key.type.name, key.importance.name) == (row["name"], row["type"], row["importance"])
        assert (key.name, key.required) == (row["name"], not row["has_default"])
        assert (key.name, key.text_of(key.default)) == (row["name"], default)
        text = None if key.validator is None else str(key.validator)
        assert (key.name, text) == (row["name"], row["validator"])


def test_where_a_broker_setting_may_change_is_kafkas() -> None:
    modes: dict[str, Any] = {"read-only": READ_ONLY, "per-broker": PER_BROKER, "cluster-wide": CLUSTER_WIDE}
    for row in RECORDED["broker"]:
        if row["name"] not in UNDEFINED_IN_KAFKA:
            assert (row["name"], update_mode(row["name"])) == (row["name"], modes[row["update_mode"]])


@pytest.mark.parametrize("family", DEFINITIONS)
def test_every_default_passes_its_own_validator(family: str) -> None:
    for name in DEFINITIONS[family]:
        key = DEFINITIONS[family][name]
        if key.validator is not None and not key.required and key.default is not None:
            key.validator.ensure_valid(name, key.default)


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("listener.name.internal.ssl.keystore.location", "ssl.keystore.location"),
        ("listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config", "sasl.jaas.config"),
        ("listener.name.internal.connections.max.reauth.ms", "connections.max.reauth.ms"),
        ("listener.name.internal", None),
        ("listeners", None),
    ],
)
def test_a_listener_setting_has_a_base_name(name: str, base: str | None) -> None:
    assert listener_base_name(name) == base


def test_a_listener_setting_has_the_definition_of_its_base() -> None:
    key = broker_config_key("listener.name.x.ssl.key.password")
    assert key is not None
    assert key.sensitive
    assert broker_config_key("listener.name.x.no.such") is None


def test_synonyms_come_strongest_first() -> None:
    assert broker_synonyms("log.retention.hours") == (
        "log.retention.ms",
        "log.retention.minutes",
        "log.retention.hours",
    )
    assert broker_synonyms("num.partitions") == ("num.partitions",)
    name = "listener.name.x.ssl.client.auth"
    assert broker_synonyms(name) == (name, "ssl.client.auth")


def test_topics_use_the_strongest_unit_that_is_set() -> None:
    values = {"log.retention.minutes": 2, "log.retention.hours": 1, "log.roll.hours": 1}
    config = topic_defaults(values)
    assert (config.retention_ms, config.segment_ms) == (120_000, 3_600_000)
    assert topic_defaults({**values, "log.retention.ms": 7}).retention_ms == 7
    assert topic_defaults({"log.retention.hours": -1}).retention_ms == -1
    assert topic_defaults({"log.retention.ms": -2}).retention_ms == -1


def test_without_settings_topics_use_their_own_defaults() -> None:
    config = topic_defaults({})
    for name in TOPIC_CONFIG_DEF:
        assert getattr(config, name.replace(".", "_")) == TOPIC_CONFIG_DEF[name].default
    assert topic_default_texts({})["retention.ms"] == display(config.retention_ms)
