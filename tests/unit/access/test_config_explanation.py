"""The explanation of a value of a setting, derived from the reports of nodes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.access.config_explanation import (
    broker_settings_behind,
    explain_broker_setting,
    explain_group_setting,
    explain_topic_setting,
    levels_of,
)
from barnabas.common.topic_config import TOPIC_SYNONYMS
from barnabas.metadata.config_resolution import (
    BrokerLevels,
    ConfigSource,
    ConfigSynonym,
    describe_broker_configs,
    describe_topic_configs,
)

DEFAULT = ConfigSource.DEFAULT_CONFIG


def reported_levels(levels: BrokerLevels, setting: str) -> BrokerLevels:
    """Return the levels as derived from the answer of a node that has them."""
    entries = describe_broker_configs(levels, names=broker_settings_behind(setting))
    return levels_of(synonym for entry in entries for synonym in entry.synonyms)


def test_an_override_wins_and_the_values_behind_it_are_listed() -> None:
    levels = BrokerLevels({"log.retention.hours": "2"}, {"log.retention.ms": "5"}, {"log.retention.ms": "6"})
    explanation = explain_topic_setting(
        "retention.ms", {"retention.ms": "4"}, {1: reported_levels(levels, "retention.ms")}
    )
    assert explanation is not None
    (answer,) = explanation.answers
    assert (answer.value, answer.because) == ("4", "retention.ms, set on the topic")
    assert answer.chain[1:] == [
        ConfigSynonym("log.retention.ms", "6", ConfigSource.DYNAMIC_BROKER_CONFIG),
        ConfigSynonym("log.retention.ms", "5", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        ConfigSynonym("log.retention.hours", "2", ConfigSource.STATIC_BROKER_CONFIG),
        ConfigSynonym("log.retention.hours", "168", DEFAULT),
    ]


def test_nodes_with_different_files_have_different_values() -> None:
    nodes = {2: BrokerLevels({"log.retention.hours": "1"}), 1: BrokerLevels({}), 3: BrokerLevels({})}
    explanation = explain_topic_setting("retention.ms", {}, nodes)
    assert explanation is not None
    assert [(answer.node_id, answer.value) for answer in explanation.answers] == [
        (1, "604800000"), (2, "3600000"), (3, "604800000"),
    ]  # fmt: skip
    assert not explanation.nodes_agree
    overridden = explain_topic_setting("retention.ms", {"retention.ms": "9"}, nodes)
    assert overridden is not None
    assert overridden.nodes_agree


def test_a_default_value_has_an_empty_chain() -> None:
    explanation = explain_topic_setting("retention.ms", {}, {1: BrokerLevels({})})
    assert explanation is not None
    assert (explanation.answers[0].because, explanation.answers[0].chain) == ("the default", [])


def test_a_group_falls_back_to_its_broker() -> None:
    setting = "consumer.session.timeout.ms"
    levels = reported_levels(BrokerLevels({}, {"group.consumer.session.timeout.ms": "50000"}), setting)
    explanation = explain_group_setting(setting, {}, {1: levels})
    assert explanation is not None
    assert explanation.answers[0].value == "50000"
    assert explanation.answers[0].because == "group.consumer.session.timeout.ms, set for all brokers"


def test_secrets_stay_hidden() -> None:
    name = "listener.name.x.ssl.keystore.password"
    (entry,) = describe_broker_configs(BrokerLevels({}, {}, {name: "hunter2"}), names=[name])
    (answer,) = explain_broker_setting(1, entry).answers
    assert (answer.value, answer.sensitive) == (None, True)
    assert "hunter2" not in repr(answer)


def test_unknown_settings_have_no_explanation() -> None:
    assert explain_topic_setting("nonsense", {}, {1: BrokerLevels({})}) is None
    assert explain_group_setting("nonsense", {}, {1: BrokerLevels({})}) is None
    assert broker_settings_behind("nonsense") == []


NAMES = [name for group in TOPIC_SYNONYMS.values() for name, factor in group if "type" not in name]
LEVEL = st.dictionaries(
    st.sampled_from([name for name in NAMES if "retention" in name or "roll" in name]), st.just("3")
)


@given(static=LEVEL, cluster=LEVEL, broker=LEVEL)
@pytest.mark.parametrize("setting", ["retention.ms", "segment.ms", "segment.jitter.ms"])
def test_the_synonyms_that_a_node_reports_determine_its_value(
    setting: str, static: dict[str, str], cluster: dict[str, str], broker: dict[str, str]
) -> None:
    levels = BrokerLevels(static, cluster, broker)
    explanation = explain_topic_setting(setting, {}, {1: reported_levels(levels, setting)})
    (expected,) = describe_topic_configs({}, levels, names=[setting])
    assert explanation is not None
    assert (explanation.answers[0].value, explanation.answers[0].chain) == (expected.value, expected.synonyms)
