"""The bundled connectors, through the runtime, on a node of ours."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.connect.decide.tasks.task_runtime import BatchSucceeded, TaskPaused, TaskRunning, TaskStopped, TopicsUsed
from barnabas.connect.identifiers import TargetState
from barnabas.connect.plugins.api import OffsetRange, SinkBatch, TopicPartition
from barnabas.connect.plugins.testing import ConnectorKit
from barnabas.connect_spark.connectors.files.file_stream import FileStreamSink, FileStreamSource
from barnabas.connect_spark.connectors.files.topic_to_files import TopicToFiles
from barnabas.connect_spark.connectors.generator import Generator
from barnabas.testing import Node
from tests.spark.connect_stage import running_json_stage, running_stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as started:
        yield started
        started.stop()
        assert "Traceback" not in started.log


def scratch_folders(folder: Path) -> list[Path]:
    return list(folder.rglob("scratch"))


def test_lines_of_a_file_go_to_a_topic_and_a_restart_resumes(spark: SparkSession, node: Node, tmp_path: Path) -> None:
    source = tmp_path / "lines.txt"
    source.write_bytes("one\ntwo\r\nd\u00fcr\n".encode() + b"half")
    config = {"file": str(source), "topic": "lines"}

    async def scenario() -> None:
        async with running_stage(spark, node, tmp_path, FileStreamSource) as stage:
            stage.create("lines")
            task = await stage.start("lines", config)
            await stage.until(lambda: len(stage.read("lines")) == 3)
            await stage.until(lambda: bool(stage.offsets.values))
            assert stage.offsets.source_offset("lines", {"filename": str(source)}) == {"position": 14}
            assert scratch_folders(tmp_path)
            await stage.stop(task)
            assert not scratch_folders(tmp_path)
            used = TopicsUsed(task, frozenset({"lines"}))
            changes = [event for event in stage.events if not isinstance(event, BatchSucceeded)]
            assert changes == [TaskRunning(task), used, TaskStopped(task)]
            assert BatchSucceeded(task) in stage.events
            stage.events.clear()
            with source.open("a") as file:
                file.write(" done\nlast\n")
            await stage.start("lines", config)
            await stage.until(lambda: len(stage.read("lines")) == 5)
            values = [row.value.decode() for row in stage.read("lines")]
            assert values == ["one", "two", "d\u00fcr", "half done", "last"]

    asyncio.run(scenario())


def test_many_lines_keep_their_order_and_invalid_bytes_are_replaced(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "lines.txt"
    lines = [b"%06d %s" % (number, b"x" * 50) for number in range(40_000)]
    lines[30_000] = b"\xff \xc3\xa4"
    source.write_bytes(b"\r\n".join(lines) + b"\r\nhalf")
    kit = ConnectorKit(FileStreamSource, {"file": str(source), "topic": "t"})
    task: Any = kit.task()
    task.start(spark)
    before = spark.conf.get("spark.sql.files.maxPartitionBytes")
    spark.conf.set("spark.sql.files.maxPartitionBytes", str(512 << 10))
    try:
        found = task.poll(spark)
        values = [row.value for row in found.records.collect()]
    finally:
        spark.conf.set("spark.sql.files.maxPartitionBytes", str(before))
    lines[30_000] = "\ufffd \u00e4".encode()
    assert values == [line.decode() for line in lines]
    assert found.offsets[0].offset == {"position": source.stat().st_size - 4}
    with source.open("a") as file:
        file.write(" done\n")
    assert [row.value for row in task.poll(spark).records.collect()] == ["half done"]


def test_lines_with_a_byte_order_mark_are_held_in_smaller_batches(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barnabas.connect_spark.connectors.files.file_stream._HELD_BYTES_MAX", 1000)
    source = tmp_path / "lines.txt"
    source.write_bytes("\ufeffid\n".encode() + b"%099d\n" % 0 * 11_000)
    task: Any = ConnectorKit(FileStreamSource, {"file": str(source), "topic": "t"}).task()
    task.start(spark)
    first = task.poll(spark)
    assert [row.value for row in first.records.collect()] == ["\ufeffid", *[f"{0:099}"] * 9]
    assert first.offsets[0].offset == {"position": 906}
    assert task.poll(spark).records.count() == 10_991


def test_many_records_are_appended_in_the_order_of_each_partition(spark: SparkSession, tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    target.write_text("there\n")
    kit = ConnectorKit(FileStreamSink, {"file": str(target)}, topics={"t": 3})
    task: Any = kit.task()
    task.start(spark)
    frame = spark.range(0, 12_000, numPartitions=3).selectExpr(
        "CASE id % 5 WHEN 0 THEN NULL WHEN 1 THEN '' ELSE id || ' \u00e4' END AS value"
    )
    ranges = {TopicPartition("t", number): OffsetRange(0, 4_000) for number in range(3)}
    wanted = ["null" if n % 5 == 0 else "" if n % 5 == 1 else f"{n} \u00e4" for n in range(12_000)]
    for _ in range(2):
        task.write(frame, SinkBatch(1, ranges))
    assert target.read_text() == "\n".join(["there", *wanted, *wanted, ""])


def test_a_paused_task_keeps_its_position(spark: SparkSession, node: Node, tmp_path: Path) -> None:
    target = tmp_path / "out.txt"

    async def scenario() -> None:
        async with running_stage(spark, node, tmp_path, FileStreamSink) as stage:
            partitions = stage.create("pausing")
            task = await stage.start("sink", {"file": str(target)}, partitions=partitions, state=TargetState.PAUSED)
            await stage.until(lambda: stage.events == [TaskPaused(task)])
            stage.produce("pausing", ["a", "b"])
            await stage.runtime.resume_task(task)
            await stage.until(lambda: target.exists() and target.read_text() == "a\nb\n")
            await stage.runtime.pause_task(task)
            await stage.until(lambda: stage.events[-1] == TaskPaused(task))
            stage.produce("pausing", ["c"])
            await stage.runtime.resume_task(task)
            await stage.until(lambda: target.read_text() == "a\nb\nc\n")
            await stage.until(lambda: stage.committed("connect-sink") == {partitions[0]: 3})
            await stage.stop(task)
            assert not scratch_folders(tmp_path)

    asyncio.run(scenario())


def test_topics_become_files_and_the_group_shows_the_progress(spark: SparkSession, node: Node, tmp_path: Path) -> None:
    folder = tmp_path / "data"

    async def scenario() -> None:
        async with running_stage(spark, node, tmp_path, TopicToFiles) as stage:
            partitions = stage.create("to-files", 2)
            stage.produce("to-files", [f"v{number}" for number in range(50)])
            config = {
                "directory": str(folder),
                "partition.by": "topic,date",
                "record.columns": "partition,offset",
                "barnabas.batch.records.max": "20",
            }
            task = await stage.start("files", config, partitions=partitions)
            await stage.until(lambda: sum(stage.committed("connect-files").values()) == 50)
            await stage.stop(task)
            rows = spark.read.parquet(str(folder)).collect()
            assert sorted(row.value for row in rows) == sorted(f"v{number}" for number in range(50))
            assert {row.topic for row in rows} == {"to-files"}
            assert len({(row._partition, row._offset) for row in rows}) == 50
            assert len(list(folder.glob("topic=to-files/date=*/files-0-*.snappy.parquet"))) >= 3

    asyncio.run(scenario())


def test_objects_become_columns_and_invalid_json_becomes_a_dead_letter(
    spark: SparkSession, node: Node, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    config = {
        "directory": str(folder),
        "format": "json",
        "transforms": "rename",
        "transforms.rename.type": "org.apache.kafka.connect.transforms.ReplaceField$Value",
        "transforms.rename.renames": "a:first",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "no-json",
        "errors.deadletterqueue.topic.replication.factor": "1",
    }

    async def scenario() -> None:
        async with running_json_stage(spark, node, tmp_path, TopicToFiles) as stage:
            partitions = stage.create("objects")
            stage.produce("objects", ['{"a": 1, "b": "x"}', "{no json", '{"a": 2}'])
            task = await stage.start("objects", config, partitions=partitions)
            await stage.until(lambda: stage.committed("connect-objects") == {partitions[0]: 3})
            await stage.stop(task)
            rows = spark.read.json(str(folder)).collect()
            assert sorted((row.first, row.b or "") for row in rows) == [(1, "x"), (2, "")]
            assert [bytes(row.value) for row in stage.read("no-json")] == [b"{no json"]

    asyncio.run(scenario())


def test_generated_records_continue_after_a_restart(spark: SparkSession, node: Node, tmp_path: Path) -> None:
    config = {"topic": "generated", "records.per.second": "1000", "records.max": "300", "text.size": "5"}

    async def scenario() -> None:
        async with running_stage(spark, node, tmp_path, Generator) as stage:
            stage.create("generated", 2)
            task = await stage.start("generated", config)
            await stage.until(lambda: bool(stage.offsets.values))
            await stage.stop(task)
            await stage.start("generated", config)
            await stage.until(lambda: {"next": 300} in stage.offsets.values.values())
            keys = [int(row.key) for row in stage.read("generated")]
            assert sorted(keys) == list(range(300))

    asyncio.run(scenario())
