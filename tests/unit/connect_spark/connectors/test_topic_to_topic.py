from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.connect_spark.connectors.topic_to_topic import TopicToTopic


def reported(monkeypatch: pytest.MonkeyPatch, found: dict[str, int], **settings: str) -> tuple[list[str], int]:
    """Return the missing topics that the connector reports, and the number of its tasks."""
    config = {name.replace("_", "."): text for name, text in settings.items()}
    config = {"source.bootstrap.servers": "other:9092", "topic.format": "other.${topic}", **config}
    missing: list[Any] = []
    context = SimpleNamespace(config=config, settings=TopicToTopic.config_def.parse(config))
    context.report_missing = missing.extend
    connector = TopicToTopic(context)
    connector._is_same_cluster = False
    monkeypatch.setattr(connector, "_found", lambda: found)
    return missing, len(connector.task_configs(4))


def test_topics_that_the_other_cluster_lacks_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reported(monkeypatch, {"a": 2}, source_topics="a,b") == (["b"], 2)
    assert reported(monkeypatch, {}, source_topics="a,b") == (["a", "b"], 0)
    assert reported(monkeypatch, {"a": 2}, source_topics="a") == ([], 2)


def test_a_pattern_without_a_topic_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reported(monkeypatch, {}, source_topics_regex="a.*") == (["source.topics.regex=a.*"], 0)
    assert reported(monkeypatch, {"ab": 1}, source_topics_regex="a.*") == ([], 1)
