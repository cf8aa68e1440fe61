"""Losses and repeats when a task dies between any two of its steps, and the handling of bad records."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.connect.decide.tasks.task_runtime import BatchSucceeded, RecordsSkipped, TaskFailed
from barnabas.connect.plugins.api import SinkBatch, SinkConnector, SinkTask
from barnabas.connect_spark.connectors.files.file_commits import FileCommits
from barnabas.connect_spark.connectors.files.topic_to_files import TopicToFiles
from barnabas.connect_spark.positions.group_positions import GroupPositions
from barnabas.testing import Node
from tests.spark.connect_stage import running_stage

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


class Crash(Exception):
    """An error that no code catches: for the data, the process has ended."""


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as started:
        yield started
        started.stop()
        assert "Traceback" not in started.log


class KeepingTask(SinkTask):
    """Keeps its records; not exactly once."""

    batches: list[tuple[SinkBatch, list[tuple[int, str]]]] = []

    def refused(self, df: DataFrame) -> Column | None:
        from pyspark.sql import functions as F

        return F.when(F.col("value").startswith("wrong"), F.concat(F.lit("no room for "), F.col("value")))

    def write(self, df: DataFrame, batch: SinkBatch) -> None:
        rows = df.select("offset", "value").orderBy("offset").collect()
        self.batches.append((batch, [(row.offset, row.value) for row in rows]))


class Keeping(SinkConnector):
    version = "1.0"
    task_class = KeepingTask


@pytest.fixture
def batches() -> list[tuple[SinkBatch, list[tuple[int, str]]]]:
    KeepingTask.batches = []
    return KeepingTask.batches


def once(target: type, method: str, *, before: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next call crashes, before any or after all of its work."""
    real: Callable[..., Any] = getattr(target, method)
    left = [True]

    def call(*args: Any, **options: Any) -> Any:
        if left and before:
            left.clear()
            raise Crash
        result = real(*args, **options)
        if left:
            left.clear()
            raise Crash
        return result

    monkeypatch.setattr(target, method, call)


CRASHES = [
    (GroupPositions, "commit", True),
    (FileCommits, "commit", True),
    (GroupPositions, "commit", False),
    (FileCommits, "commit", False),
]


def test_files_have_every_record_once_whatever_step_a_task_dies_after(
    spark: SparkSession, node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "data"

    async def scenario() -> None:
        async with running_stage(spark, node, tmp_path, TopicToFiles) as stage:
            partitions = stage.create("once")
            expected: list[str] = []
            for number, (target, method, before) in enumerate(CRASHES):
                expected += (values := [f"{number}-{index}" for index in range(5)])
                stage.produce("once", values)
                with monkeypatch.context() as patched:
                    once(target, method, before=before, monkeypatch=patched)
                    await stage.start("once", {"directory": str(folder)}, partitions=partitions)
                    await stage.failure()
                if number % 2:
                    shutil.rmtree(tmp_path / "worker", ignore_errors=True)  # The task continues without a checkpoint.
                stage.events.clear()
            task = await stage.start("once", {"directory": str(folder)}, partitions=partitions)
            await stage.until(lambda: stage.committed("connect-once") == {partitions[0]: len(expected)})
            await stage.stop(task)
            assert sorted(row.value for row in spark.read.parquet(str(folder)).collect()) == sorted(expected)

    asyncio.run(scenario())


def test_an_uncommitted_batch_is_repeated_unchanged(
    spark: SparkSession,
    node: Node,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    batches: list[tuple[SinkBatch, list[tuple[int, str]]]],
) -> None:
    async def scenario() -> None:
        async with running_stage(spark, node, tmp_path, Keeping) as stage:
            partitions = stage.create("again")
            stage.produce("again", ["a", "b"])
            with monkeypatch.context() as patched:
                once(GroupPositions, "commit", before=True, monkeypatch=patched)
                await stage.start("again", {}, partitions=partitions)
                await stage.failure()
            stage.produce("again", ["c"])  # More records exist now, but the batch is the planned one.
            stage.events.clear()
            task = await stage.start("again", {}, partitions=partitions)
            await stage.until(lambda: stage.committed("connect-again") == {partitions[0]: 3})
            await stage.stop(task)

    asyncio.run(scenario())
    first, repeated, last = batches
    assert first == repeated
    assert first[1] == [(0, "a"), (1, "b")]
    assert last[1] == [(2, "c")]
    assert last[0].id > first[0].id


def test_without_tolerance_a_bad_record_fails_the_task_and_is_named(
    spark: SparkSession, node: Node, tmp_path: Path, batches: list[Any]
) -> None:
    async def scenario() -> TaskFailed:
        async with running_stage(spark, node, tmp_path, Keeping) as stage:
            partitions = stage.create("poisoned")
            stage.produce("poisoned", ["good", "bad one"])
            await stage.start("poisoned", {}, partitions=partitions)
            failed = await stage.failure()
            assert stage.committed("connect-poisoned") == {}
            return failed

    failed = asyncio.run(scenario())
    assert failed.trace.splitlines()[0] == (
        "Tolerance exceeded in error handler: VALUE_CONVERTER of the record at poisoned-0, offset 1 failed in "
        "TextPath: org.apache.kafka.connect.errors.DataException: can't take bad one"
    )
    assert failed.retriable


def test_tolerated_bad_records_become_dead_letters(
    spark: SparkSession,
    node: Node,
    tmp_path: Path,
    batches: list[tuple[SinkBatch, list[tuple[int, str]]]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = {
        "errors.tolerance": "all",
        "errors.log.enable": "true",
        "errors.deadletterqueue.topic.name": "dead",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }

    async def scenario() -> list[Any]:
        async with running_stage(spark, node, tmp_path, Keeping) as stage:
            partitions = stage.create("mixed")
            stage.produce("mixed", ["good", "bad one", "fine", "wrong one"])
            task = await stage.start("mixed", config, partitions=partitions)
            await stage.until(lambda: stage.committed("connect-mixed") == {partitions[0]: 4})
            await stage.stop(task)
            return stage.read("dead")

    letter, refused = asyncio.run(scenario())
    assert [rows for _, rows in batches] == [[(0, "good"), (2, "fine")]]
    assert bytes(letter.value) == b"bad one"
    headers = context_of(letter)
    assert (headers["topic"], headers["partition"]) == ("mixed", "0")
    assert headers["offset"] == "1"
    assert headers["connector.name"] == "mixed"
    assert headers["task.id"] == "0"
    assert headers["stage"] == "VALUE_CONVERTER"
    assert headers["class.name"] == "TextPath"
    assert headers["exception.message"] == "can't take bad one"
    assert "topic='mixed', partition=0, offset=1" in caplog.text
    assert bytes(refused.value) == b"wrong one"
    assert context_of(refused)["stage"] == "TASK_PUT"
    assert context_of(refused)["exception.message"] == "no room for wrong one"


def test_skipped_records_are_counted_without_a_log_and_dead_letters(
    spark: SparkSession, node: Node, tmp_path: Path, batches: list[Any]
) -> None:
    async def scenario(connector: type[SinkConnector], topic: str) -> tuple[list[Any], int]:
        async with running_stage(spark, node, tmp_path / topic, connector) as stage:
            partitions = stage.create(topic)
            stage.produce(topic, ["good", "bad one", "fine", "wrong one", "bad again"])
            last_stage = _last_stage(spark)
            task = await stage.start(topic, {"errors.tolerance": "all"}, partitions=partitions)
            await stage.until(lambda: stage.committed(f"connect-{topic}") == {partitions[0]: 5})
            await stage.stop(task)
            return stage.events, _records_read(spark, after=last_stage)

    events, _ = asyncio.run(scenario(Keeping, "counted"))
    assert [event.records for event in events if isinstance(event, RecordsSkipped)] == [3]
    assert sum(isinstance(event, BatchSucceeded) for event in events) == 1
    assert [rows for _, rows in batches] == [[(0, "good"), (2, "fine")]]
    batches.clear()

    events, read = asyncio.run(scenario(Plain, "counted-by-the-query"))
    assert [event.records for event in events if isinstance(event, RecordsSkipped)] == [2]
    assert [rows for _, rows in batches] == [[(0, "good"), (2, "fine"), (3, "wrong one")]]
    assert read == 5


class PlainTask(SinkTask):
    """Refuses nothing and names its columns, so the query does all before the task writes."""

    def columns(self) -> tuple[str, ...]:
        return ("offset", "value")

    def write(self, df: DataFrame, batch: SinkBatch) -> None:
        assert df.columns == ["offset", "value"]
        KeepingTask.batches.append((batch, [(row.offset, row.value) for row in df.orderBy("offset").collect()]))


class Plain(SinkConnector):
    version = "1.0"
    task_class = PlainTask


def test_a_batch_with_tolerated_bad_records_is_read_from_kafka_once(
    spark: SparkSession, node: Node, tmp_path: Path, batches: list[Any]
) -> None:
    config = {
        "errors.tolerance": "all",
        "errors.log.enable": "true",
        "errors.deadletterqueue.topic.name": "dead-once",
        "errors.deadletterqueue.topic.replication.factor": "1",
    }

    async def scenario() -> int:
        async with running_stage(spark, node, tmp_path, Keeping) as stage:
            partitions = stage.create("read-once")
            stage.produce("read-once", ["good"] * 90 + ["bad one"] * 5 + ["wrong one"] * 5)
            last_stage = _last_stage(spark)
            task = await stage.start("read-once", config, partitions=partitions)
            await stage.until(lambda: stage.committed("connect-read-once") == {partitions[0]: 100})
            await stage.stop(task)
            read = _records_read(spark, after=last_stage)
            assert len(stage.read("dead-once")) == 10
            return read

    read = asyncio.run(scenario())
    assert sum(len(rows) for _, rows in batches) == 90
    assert 100 <= read < 150  # A kept batch counts as a few records each time that it is used.


def _records_read(spark: SparkSession, *, after: int) -> int:
    """Return the records that the stages after this one have read from sources so far."""
    return sum(stage.inputRecords() for stage in _stages(spark) if stage.stageId() > after)


def _last_stage(spark: SparkSession) -> int:
    return max((stage.stageId() for stage in _stages(spark)), default=-1)


def _stages(spark: SparkSession) -> list[Any]:
    """Return the newest stages: Spark forgets old ones."""
    stages = spark.sparkContext._jsc.sc().statusStore().stageList(None, False, False, _no_quantiles(spark), None)
    return [stages.apply(index) for index in range(stages.size())]


def _no_quantiles(spark: SparkSession) -> Any:
    return spark.sparkContext._gateway.new_array(spark._jvm.double, 0)


def context_of(letter: Any) -> dict[str, str]:
    return {header.key.removeprefix("__connect.errors."): bytes(header.value).decode() for header in letter.headers}
