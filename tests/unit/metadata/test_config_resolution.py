"""Which value is in force and how it is described, compared with what a real Kafka 4.3.1 describes."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from barnabas.common.config_def import ConfigType
from barnabas.metadata.config_resolution import (
    BrokerLevels,
    ConfigEntry,
    ConfigSource,
    ConfigSynonym,
    describe_broker_configs,
    describe_client_metrics_configs,
    describe_default_broker_configs,
    describe_group_configs,
    describe_topic_configs,
    effective_broker_values,
)

RECORDED = json.loads(
    gzip.decompress((Path(__file__).parents[2] / "vectors/configs/configs-4.3.1.json.gz").read_bytes())
)
# Kafka hides these because it does not define them: operators should see the first and may set the second.
KNOWN_HERE = {"super.users", "listener.name.sasl_plaintext.plain.sasl.jaas.config"}


def _recorded_levels() -> BrokerLevels:
    static: dict[str, str] = {}
    cluster: dict[str, str] = {}
    for row in RECORDED["broker"]:
        for synonym in row["synonyms"]:
            if synonym["source"] == "STATIC_BROKER_CONFIG" and synonym["name"] == row["name"]:
                static[row["name"]] = synonym["value"] or "hidden"
            if synonym["source"] == "DYNAMIC_DEFAULT_BROKER_CONFIG":
                cluster[synonym["name"]] = synonym["value"]
    return BrokerLevels(static, cluster)


def _as_recorded(entry: ConfigEntry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "value": entry.value,
        "type": ConfigType(entry.type).name,
        "source": entry.source.name,
        "sensitive": entry.sensitive,
        "read_only": entry.read_only,
        "synonyms": [{"name": s.name, "value": s.value, "source": s.source.name} for s in entry.synonyms],
    }


def _entry(entries: list[ConfigEntry], name: str) -> ConfigEntry:
    return next(entry for entry in entries if entry.name == name)


@pytest.mark.parametrize("family", ["broker", "topic", "group", "client_metrics"])
def test_every_setting_is_described_as_by_a_real_kafka(family: str) -> None:
    levels = _recorded_levels()
    entries = {
        "broker": lambda: describe_broker_configs(levels),
        "topic": lambda: describe_topic_configs({}, levels),
        "group": lambda: describe_group_configs({}, levels),
        "client_metrics": lambda: describe_client_metrics_configs({}),
    }[family]()
    recorded = {row["name"]: row for row in RECORDED[family]}
    assert [entry.name for entry in entries] == sorted(recorded)
    for entry in entries:
        if entry.name not in KNOWN_HERE:
            ours = _as_recorded(entry)
            assert ours == {key: recorded[entry.name][key] for key in ours}


def test_a_topics_own_value_comes_first() -> None:
    entry = _entry(describe_topic_configs({"retention.bytes": " 77 "}, BrokerLevels({})), "retention.bytes")
    assert (entry.value, entry.source) == ("77", ConfigSource.TOPIC_CONFIG)
    assert [synonym.source for synonym in entry.synonyms] == [ConfigSource.TOPIC_CONFIG, ConfigSource.DEFAULT_CONFIG]


def test_levels_are_listed_from_the_strongest_down() -> None:
    levels = BrokerLevels({"message.max.bytes": "1"}, {"message.max.bytes": "2"}, {"message.max.bytes": "3"})
    entry = _entry(describe_topic_configs({}, levels), "max.message.bytes")
    assert (entry.value, entry.source) == ("3", ConfigSource.DYNAMIC_BROKER_CONFIG)
    assert [synonym.value for synonym in entry.synonyms] == ["3", "2", "1", "1048588"]


def test_a_retention_in_another_unit_counts_but_looks_like_the_default() -> None:
    hours_only = _entry(describe_topic_configs({}, BrokerLevels({"log.retention.hours": "1"})), "retention.ms")
    assert (hours_only.value, hours_only.source) == ("3600000", ConfigSource.DEFAULT_CONFIG)
    assert hours_only.synonyms == []
    with_ms = describe_topic_configs({}, BrokerLevels({"log.retention.ms": "5", "log.retention.hours": "1"}))
    assert _entry(with_ms, "retention.ms").synonyms == [
        ConfigSynonym("log.retention.ms", "5", ConfigSource.STATIC_BROKER_CONFIG),
        ConfigSynonym("log.retention.hours", "1", ConfigSource.STATIC_BROKER_CONFIG),
        ConfigSynonym("log.retention.hours", "168", ConfigSource.DEFAULT_CONFIG),
    ]


def test_setting_one_unit_dynamically_hides_the_others() -> None:
    levels = BrokerLevels({"log.roll.ms": "5"}, {"log.roll.hours": "1"})
    assert effective_broker_values(levels) == {"log.roll.hours": 1}
    assert _entry(describe_topic_configs({}, levels), "segment.ms").value == "3600000"


def test_a_stored_value_that_does_not_parse_is_ignored() -> None:
    levels = BrokerLevels({"num.io.threads": "8"}, {"num.io.threads": "many", "num.partitions": "3"})
    assert effective_broker_values(levels) == {"num.io.threads": 8, "num.partitions": 3}


def test_only_requested_names_are_described_and_unknown_ones_omitted() -> None:
    names = ["segment.ms", "no.such", "cleanup.policy"]
    entries = describe_topic_configs({}, BrokerLevels({}), names=names)
    assert [entry.name for entry in entries] == ["cleanup.policy", "segment.ms"]
    assert len(describe_topic_configs({}, BrokerLevels({}), names=[])) == 33


def test_values_of_secrets_and_unknown_settings_are_never_returned() -> None:
    levels = BrokerLevels({"ssl.key.password": "geheim", "my.plugin.url": "geheim"})
    entries = describe_broker_configs(levels)
    for name in ("ssl.key.password", "my.plugin.url"):
        entry = _entry(entries, name)
        assert entry.sensitive
        assert "geheim" not in repr(entry)
    assert _entry(entries, "my.plugin.url").type == 0


def test_the_default_of_all_brokers_describes_only_values_set_there() -> None:
    levels = BrokerLevels({"message.max.bytes": "1"}, {"message.max.bytes": "2"}, {"message.max.bytes": "3"})
    (entry,) = describe_default_broker_configs(levels)
    assert (entry.name, entry.value) == ("message.max.bytes", "2")
    assert entry.synonyms == [ConfigSynonym("message.max.bytes", "2", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)]


def test_a_group_uses_its_own_value_or_the_brokers() -> None:
    levels = BrokerLevels({"group.consumer.session.timeout.ms": "50000"})
    own = describe_group_configs({"consumer.heartbeat.interval.ms": "6000"}, levels)
    assert _entry(own, "consumer.heartbeat.interval.ms").source is ConfigSource.GROUP_CONFIG
    session = _entry(own, "consumer.session.timeout.ms")
    assert (session.value, session.source) == ("50000", ConfigSource.STATIC_BROKER_CONFIG)
