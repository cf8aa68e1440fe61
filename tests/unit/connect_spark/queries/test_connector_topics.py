from __future__ import annotations

import pytest

from barnabas.connect.settings.plugin_config_def import ConfigException
from barnabas.connect_spark.queries.connector_topics import TopicRules, subscribed

DEFAULT = {"topic.creation.default.partitions": "3", "topic.creation.default.replication.factor": "-1"}


def rules(config: dict[str, str]) -> TopicRules:
    found = TopicRules.of(config, is_enabled=True)
    assert found is not None
    return found


def test_topics_are_created_only_if_the_connector_configures_them_and_the_worker_allows_it() -> None:
    assert TopicRules.of({}, is_enabled=True) is None
    assert TopicRules.of(DEFAULT, is_enabled=False) is None


def test_a_topic_uses_its_first_matching_group_and_the_defaults_for_the_rest() -> None:
    found = rules(
        DEFAULT
        | {
            "topic.creation.groups": "logs, all",
            "topic.creation.logs.include": "log-.*",
            "topic.creation.logs.exclude": "log-secret",
            "topic.creation.logs.partitions": "1",
            "topic.creation.logs.cleanup.policy": "compact",
            "topic.creation.all.include": ".*-secret",
            "topic.creation.all.replication.factor": "2",
        }
    )
    logs, secret, other = (found.rule_for(name) for name in ("log-a", "log-secret", "metrics"))
    assert (logs.partitions, logs.replication_factor, dict(logs.configs)) == (1, None, {"cleanup.policy": "compact"})
    assert (secret.partitions, secret.replication_factor) == (3, 2)
    assert (other.partitions, other.replication_factor) == (3, None)


@pytest.mark.parametrize(
    ("config", "setting"),
    [
        ({"topic.creation.default.partitions": "3"}, "topic.creation.default.replication.factor"),
        (DEFAULT | {"topic.creation.default.partitions": "0"}, "topic.creation.default.partitions"),
        (DEFAULT | {"topic.creation.groups": "g"}, "topic.creation.g.include"),
        (DEFAULT | {"topic.creation.groups": "g", "topic.creation.g.include": "("}, "topic.creation.g.include"),
    ],
)
def test_an_impossible_rule_is_refused_with_its_setting(config: dict[str, str], setting: str) -> None:
    with pytest.raises(ConfigException, match=setting):
        TopicRules.of(config, is_enabled=True)


def test_a_pattern_matches_whole_names() -> None:
    assert subscribed(["orders", "orders-2", "my-orders"], (), "orders.*") == ["orders", "orders-2"]
    assert subscribed(["b", "a", "c"], ["a", "b", "gone"], None) == ["a", "b"]
    with pytest.raises(ConfigException, match=r"topics\.regex"):
        subscribed([], (), "[")
