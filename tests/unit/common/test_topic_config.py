"""A topic's settings: resolved values, and allowed values."""

import pytest

from barnabas.common.config_def import ConfigException
from barnabas.common.topic_config import TopicConfig, UnknownTopicConfig, validate_topic_config

DEFAULTS = {"retention.ms": "604800000"}


def test_overrides_replace_the_defaults() -> None:
    defaults = TopicConfig({"retention.ms": 5})
    config = defaults.with_overrides({"cleanup.policy": "compact", "segment.bytes": "1048576"})
    assert config.compact
    assert not config.delete
    assert (config.segment_bytes, config.retention_ms) == (1048576, 5)
    assert defaults.delete


def test_without_overrides_the_defaults_are_shared() -> None:
    defaults = TopicConfig()
    assert defaults.with_overrides({}) is defaults


def test_committed_but_unknown_settings_are_ignored() -> None:
    config = TopicConfig().with_overrides({"from.the.future": "1", "retention.ms": "soon", "flush.ms": "9"})
    assert config == TopicConfig({"flush.ms": 9})


def test_a_shared_config_can_not_be_changed() -> None:
    with pytest.raises(AttributeError, match="retention_ms"):
        TopicConfig().retention_ms = 1


def test_tests_may_set_segments_below_the_public_minimum() -> None:
    config = TopicConfig().with_overrides({"internal.segment.bytes": "1000"})
    assert (config.segment_size, TopicConfig().segment_size) == (1000, 1 << 30)


@pytest.mark.parametrize(
    "configs",
    [
        {},
        {"cleanup.policy": "delete,delete"},
        {"cleanup.policy": ""},
        {"leader.replication.throttled.replicas": "*"},
        {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5"},
        {"remote.storage.enable": "true", "local.retention.ms": "20", "retention.ms": "10"},
    ],
)
def test_these_overrides_are_allowed(configs: dict[str, str]) -> None:
    validate_topic_config(configs)


def test_an_unknown_name_is_refused_with_kafkas_message() -> None:
    with pytest.raises(UnknownTopicConfig, match=r"^Unknown topic config name: nonsense$"):
        validate_topic_config({"nonsense": "1"})


def test_all_errors_are_reported_together_with_the_nearest_name() -> None:
    with pytest.raises(ConfigException) as raised:
        validate_topic_config(
            {"retention.m": "1", "segment.bytes": "5", "retention.bytes": "much", "preallocate": "true"}
        )
    assert str(raised.value) == (
        "Unknown topic config name: retention.m (did you mean retention.ms?); "
        "Invalid value 5 for configuration segment.bytes: Value must be at least 1048576; "
        "Invalid value much for configuration retention.bytes: Not a number of type LONG"
    )


def test_the_compaction_lags_must_be_in_order() -> None:
    with pytest.raises(ConfigException, match=r"min\.compaction\.lag\.ms \(6\) > max\.compaction\.lag\.ms \(5\)"):
        validate_topic_config({"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"})


@pytest.mark.parametrize(
    ("configs", "complaint"),
    [
        ({"cleanup.policy": "compact"}, "cleanup.policy=delete"),
        ({"local.retention.ms": "20", "retention.ms": "10"}, "retention.ms property value: 10"),
        ({"local.retention.bytes": "-1", "retention.bytes": "10"}, "retention.bytes value is set as 10"),
        ({"remote.log.copy.disable": "true", "local.retention.ms": "5"}, "must equal retention.ms"),
    ],
)
def test_remote_storage_has_rules_between_its_settings(configs: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigException) as raised:
        validate_topic_config(
            {"remote.storage.enable": "true", **configs}, defaults=DEFAULTS, remote_storage_system_enabled=True
        )
    assert complaint in str(raised.value)


def test_remote_storage_needs_a_node_that_has_it() -> None:
    with pytest.raises(ConfigException, match="disabled in the broker"):
        validate_topic_config({"remote.storage.enable": "true"}, defaults=DEFAULTS)


def test_disabling_remote_storage_requires_a_decision_about_its_data() -> None:
    previous = {"remote.storage.enable": "true"}
    with pytest.raises(ConfigException, match="without deleting remote data"):
        validate_topic_config({"remote.storage.enable": "false"}, previous=previous, defaults=DEFAULTS)
    with pytest.raises(ConfigException, match="without deleting remote data"):
        validate_topic_config({}, previous=previous, defaults=DEFAULTS)
    leave = {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"}
    validate_topic_config(leave, previous=previous, defaults=DEFAULTS)
