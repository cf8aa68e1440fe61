"""Files of a folder, and topics of another cluster, to topics."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.connect.plugins.testing import ConnectorKit
from barnabas.connect_spark.connectors.files.files_to_topic import FilesToTopic
from barnabas.connect_spark.connectors.topic_to_topic import TopicToTopic
from barnabas.connect_spark.queries.record_path import ConverterPath
from barnabas.testing import Node
from tests.spark.connect_stage import running_stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as started:
        yield started
        started.stop()
        assert "Traceback" not in started.log


@pytest.mark.parametrize(
    ("kind", "settings", "content", "values"),
    [
        ("lines", {}, b"a\n\nb", ["a", "", "b"]),
        ("whole", {}, b"a\n\xff", [bytearray(b"a\n\xff")]),
        ("csv", {}, b"id,name\n1,\n2,x\n", [("1", None), ("2", "x")]),
        ("csv", {"schema": "id INT, name STRING"}, b"id,name\n1,a\n", [(1, "a")]),
        ("json", {}, b'{"id":1}\n{"id":2}\n', [(1,), (2,)]),
    ],
)
def test_each_file_becomes_records_once(
    spark: SparkSession, tmp_path: Path, kind: str, settings: dict[str, str], content: bytes, values: list[Any]
) -> None:
    (tmp_path / "one.data").write_bytes(content)
    (tmp_path / "two.data.tmp").write_bytes(content)
    config = {"directory": str(tmp_path), "topic": "t", "format": kind, "file.name.as.key": "true", **settings}
    kit = ConnectorKit(FilesToTopic, config)
    assert kit.errors == {}
    task: Any = kit.task()
    task.start(spark)
    found = task.poll(spark)
    rows = [tuple(row.value) if isinstance(row.value, tuple) else row.value for row in found.records.collect()]
    assert rows == values
    assert found.records.first().key == "one.data"
    assert task.poll(spark) is None
    again: Any = kit.task(offsets=found.offsets)
    again.start(spark)
    assert again.poll(spark) is None
    (tmp_path / "two.data.tmp").rename(tmp_path / "two.data")
    assert [offset.partition["file"] for offset in again.poll(spark).offsets] == ["two.data"]


def test_topics_are_copied_with_keys_and_headers_and_a_restart_resumes(
    spark: SparkSession, node: Node, tmp_path: Path
) -> None:
    config = {
        "source.bootstrap.servers": node.bootstrap_servers,
        "source.topics.regex": "origin.*",
        "topic.format": "copy-${topic}",
        "keep.partition": "true",
        "timestamp.header": "time",
        **dict.fromkeys(("key.converter", "value.converter", "header.converter"), BYTES),
    }
    kit = ConnectorKit(TopicToTopic, config)
    assert kit.errors == {}

    async def scenario() -> None:
        async with running_stage(spark, node, tmp_path, TopicToTopic, record_path=ConverterPath) as stage:
            stage.create("origin", 2)
            stage.create("copy-origin", 2)
            stage.produce("origin", ["a", "b", "c"])
            of_task = (await asyncio.to_thread(kit.task_configs))[0]
            task = await stage.start("mirror", config, task_config=of_task)
            await stage.until(lambda: len(stage.read("copy-origin")) == 3)
            await stage.until(
                lambda: sum(position["offset"] for position in stage.offsets.values.values() if position) == 3
            )
            await stage.stop(task)
            stage.events.clear()
            stage.produce("origin", ["d"])
            await stage.start("mirror", config, task_config=of_task)
            await stage.until(lambda: len(stage.read("copy-origin")) == 4)
            there, copies = stage.read("origin"), stage.read("copy-origin")
            assert [(row.partition, row.key, row.value) for row in copies] == [
                (row.partition, row.key, row.value) for row in there
            ]
            assert [[header.key for header in row.headers] for row in copies] == [["time"]] * 4

    asyncio.run(scenario())
