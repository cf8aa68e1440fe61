from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from barnabas.connect.decide.tasks.task_work import TaskWork
from barnabas.connect.identifiers import ConnectorTaskId
from barnabas.connect.plugins.api import TerminalError
from barnabas.connect_spark.positions.spark_positions import SparkPositions

TASK = ConnectorTaskId("ticks", 1)
ALL = TaskWork()
SHARD = {"spark.task": '{"shard":"1"}', "spark.tasks": 3}
OF_THREE = TaskWork(SHARD, is_all=False)


class Topic:
    """The offset topic."""

    def __init__(self, *positions: tuple[Mapping[str, Any], Any]) -> None:
        self.values: dict[str, Any] = {}
        self.write([(key, {"offset": json.dumps(end)}) for key, end in positions])

    def read(self, partition: Mapping[str, Any]) -> Any:
        return self.values.get(json.dumps(dict(partition), sort_keys=True))

    def write(self, pairs: list[Any]) -> None:
        for partition, offset in pairs:
            self.values[json.dumps(dict(partition), sort_keys=True)] = offset

    def of(self, work: TaskWork) -> SparkPositions:
        return SparkPositions(TASK, work, self.read)


def test_a_task_continues_at_the_position_of_its_own_work() -> None:
    topic = Topic()
    fast, slow = TaskWork({"shard": 0}, is_all=False), TaskWork({"shard": 1}, is_all=False)
    topic.write(topic.of(fast).pairs([{"offset": 900}]))
    topic.write(topic.of(slow).pairs([{"offset": 7}]))
    assert topic.of(fast).stored() == [{"offset": 900}]
    assert topic.of(slow).stored() == [{"offset": 7}]


def test_a_query_with_several_sources_has_a_position_for_each() -> None:
    topic = Topic()
    topic.write(topic.of(OF_THREE).pairs([{"a": 1}, 5]))
    assert topic.of(OF_THREE).stored() == [{"a": 1}, 5]


def test_the_only_task_resumes_at_a_position_of_the_older_format() -> None:
    topic = Topic(({"spark.source": 0}, {"offset": 40}))
    assert topic.of(ALL).stored() == [{"offset": 40}]
    assert topic.of(TaskWork({"table": "a"}, is_all=True)).stored() == [{"offset": 40}]


def test_one_of_several_tasks_starts_over_rather_than_at_a_position_of_another_task(
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = Topic(({"spark.source": 0}, {"offset": 900}))
    assert topic.of(OF_THREE).stored() is None
    assert '{"spark.source": 0, "spark.task": "{\\"shard\\":\\"1\\"}", "spark.tasks": 3}' in caplog.text


def test_a_shared_position_is_deleted_when_a_task_stores_its_own() -> None:
    topic = Topic(({"spark.source": 0}, {"offset": 900}), ({"spark.source": 1}, 3))
    positions = topic.of(OF_THREE)
    topic.write(positions.pairs([{"offset": 7}, 1]))
    assert topic.of(ALL).stored() is None
    assert len(positions.pairs([{"offset": 8}, 2])) == 2


def test_a_position_that_is_not_json_is_named() -> None:
    topic = Topic()
    topic.write([({"spark.source": 0, **SHARD}, {"offset": "{"})])
    with pytest.raises(TerminalError, match="spark.tasks.*must have 'offset' with Spark's offset as JSON text"):
        topic.of(OF_THREE).stored()
