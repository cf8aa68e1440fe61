"""A SparkTaskRuntime on the session of the tests, with the offset topic in memory and all events recorded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.clients.admin import AdminClient
from barnabas.clients.admin.topics import NewTopic
from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.decide.tasks.task_partitions import TASK_PARTITIONS, format_partitions
from barnabas.connect.decide.tasks.task_runtime import (
    TaskEvent,
    TaskFailed,
    TaskRunning,
    TaskStart,
    TaskStopped,
    TopicRecord,
)
from barnabas.connect.identifiers import ConnectorTaskId, TargetState
from barnabas.connect.plugins.api import Connector
from barnabas.connect_spark.converters.record_batch import FAILURE, ORIGINAL, RecordBatch
from barnabas.connect_spark.queries.record_path import SINK_COLUMNS, ConverterPath
from barnabas.connect_spark.sessions.worker_session import Sessions
from barnabas.connect_spark.spark_runtime import RecordPaths, SparkTaskRuntime
from barnabas.testing import Node

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["MemoryOffsets", "SharedSession", "Stage", "TextPath", "running_json_stage", "running_stage"]

_TIMEOUT_S = 120


class SharedSession(Sessions):
    """The session of the test run, which tasks may not end."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.abandoned: list[str] = []

    def session(self) -> SparkSession:
        return self._spark

    def failure(self) -> str | None:
        return None

    def abandon(self, reason: str) -> None:
        self.abandoned.append(reason)

    def close(self) -> None:
        pass


class MemoryOffsets:
    def __init__(self) -> None:
        self.values: dict[str, Mapping[str, Any] | None] = {}
        self.failure: Exception | None = None

    def source_offset(self, connector: str, partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return self.values.get(json.dumps([connector, partition], sort_keys=True))

    async def write_source_offsets(
        self, connector: str, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> None:
        if self.failure is not None:
            raise self.failure
        for partition, offset in offsets:
            self.values[json.dumps([connector, partition], sort_keys=True)] = offset

    async def offset_records(
        self, connector: str, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> list[TopicRecord]:
        raise NotImplementedError

    async def read_offsets_to_end(self, connector: str) -> None:
        raise NotImplementedError


class TextPath:
    """Keys and values as text; a value that begins with ``bad`` can't be converted."""

    def __init__(self, connector_config: Mapping[str, str], worker_config: Mapping[str, str]) -> None:
        pass

    def sink_batches(self, raw: DataFrame) -> list[RecordBatch]:
        from pyspark.sql import functions as F

        value = F.col("value").cast("string")
        failure = F.struct(
            F.lit("VALUE_CONVERTER").alias("stage"),
            F.lit("TextPath").alias("executing_class"),
            F.lit("org.apache.kafka.connect.errors.DataException").alias("exception_class"),
            F.concat(F.lit("can't take "), value).alias("message"),
        ).cast(FAILURE)
        original = F.struct("topic", "partition", "offset", "timestamp", "key", "value", "headers").cast(ORIGINAL)
        frame = raw.select(
            *("topic", "partition", "offset", "timestamp"),
            F.col("key").cast("string").alias("key"),
            value.alias("value"),
            "headers",
            F.when(value.startswith("bad"), failure).alias("failure"),
            original.alias("original"),
        )
        return [RecordBatch(frame, None, None)]

    def sink_frame(self, batches: Sequence[RecordBatch], columns: Sequence[str] = SINK_COLUMNS) -> DataFrame:
        return batches[0].good.select(*columns)

    def merged_batch(
        self, batches: Sequence[RecordBatch], columns: Sequence[str], *, takes_variant: bool
    ) -> RecordBatch:
        return batches[0]

    def fixed_batch(self, raw: DataFrame, columns: Sequence[str]) -> RecordBatch | None:
        return self.sink_batches(raw)[0]

    def source_records(self, frame: DataFrame, topics: frozenset[str] | None = None) -> DataFrame:
        from pyspark.sql import functions as F
        from pyspark.sql.types import StructType

        def data(name: str) -> Any:
            if name not in frame.columns:
                return F.lit(None).cast("binary").alias(name)
            is_object = isinstance(frame.schema[name].dataType, StructType)
            text = F.to_json(name) if is_object else F.col(name).cast("string")
            return text.cast("binary").alias(name)

        return frame.select(
            "topic",
            (F.col("partition") if "partition" in frame.columns else F.lit(None).cast("int")).alias("partition"),
            data("key"),
            data("value"),
            F.lit(None).cast("array<struct<key: string, value: binary>>").alias("headers"),
            F.lit(None).cast(FAILURE).alias("failure"),
            F.lit(None).cast(ORIGINAL).alias("original"),
        )


class Stage:
    def __init__(self, runtime: SparkTaskRuntime, node: Node, offsets: MemoryOffsets, spark: SparkSession):
        self.runtime = runtime
        self.node = node
        self.offsets = offsets
        self.spark = spark
        self.events: list[TaskEvent] = []

    async def start(
        self,
        connector: str,
        config: Mapping[str, str],
        *,
        partitions: Sequence[TopicPartition] = (),
        task_config: Mapping[str, str] | None = None,
        state: TargetState = TargetState.STARTED,
    ) -> ConnectorTaskId:
        task = ConnectorTaskId(connector, 0)
        of_task = dict(config) | dict(task_config or {})
        if partitions:
            of_task[TASK_PARTITIONS] = format_partitions(partitions)
        start = TaskStart(task, {"name": connector, "barnabas.trigger.interval.ms": "100", **config}, of_task, state, 1)
        await self.runtime.start_task(start, self.events.append)
        return task

    async def until(self, condition: Callable[[], bool], *, fails: bool = False) -> None:
        """Wait for a condition. A task that fails meanwhile fails the test, unless the condition is a failure."""
        deadline = asyncio.get_running_loop().time() + _TIMEOUT_S
        while not await asyncio.to_thread(condition):
            for event in self.events:
                assert fails or not isinstance(event, TaskFailed), event.trace
            assert asyncio.get_running_loop().time() < deadline, f"the condition did not become true: {self.events}"
            await asyncio.sleep(0.05)

    async def failure(self) -> TaskFailed:
        await self.until(lambda: any(isinstance(event, TaskFailed) for event in self.events), fails=True)
        return next(event for event in self.events if isinstance(event, TaskFailed))

    async def running(self) -> None:
        await self.until(lambda: any(isinstance(event, TaskRunning) for event in self.events))

    async def stop(self, task: ConnectorTaskId) -> None:
        await self.runtime.stop_tasks([task])
        assert isinstance(self.events[-1], TaskStopped | TaskFailed)

    # ---- the cluster

    def create(self, topic: str, partitions: int = 1) -> list[TopicPartition]:
        with AdminClient.sync(self.node.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(topic, partitions, 1)], wait=True).raise_for_errors()
        return [TopicPartition(topic, partition) for partition in range(partitions)]

    def produce(self, topic: str, values: Sequence[str]) -> None:
        rows = self.spark.createDataFrame([(value,) for value in values], "value string").coalesce(1)
        writer = rows.selectExpr("cast(null as string) as key", "value").write.format("kafka")
        writer.option("kafka.bootstrap.servers", self.node.bootstrap_servers).option("topic", topic).save()

    def read(self, topic: str) -> list[Any]:
        records = self.spark.read.format("kafka").option("kafka.bootstrap.servers", self.node.bootstrap_servers)
        rows = records.option("subscribe", topic).option("includeHeaders", "true").load()
        return rows.orderBy("partition", "offset").collect()

    def committed(self, group: str) -> dict[TopicPartition, int]:
        with AdminClient.sync(self.node.bootstrap_servers) as admin:
            found = admin.list_group_offsets([group])[group].raise_for_errors()
        return {partition: position.offset for partition, position in found.items()}


@asynccontextmanager
async def running_stage(
    spark: SparkSession,
    node: Node,
    folder: Path,
    connector: type[Connector],
    *,
    offsets: MemoryOffsets | None = None,
    worker_config: Mapping[str, str] | None = None,
    record_path: RecordPaths = TextPath,
) -> AsyncIterator[Stage]:
    memory = offsets or MemoryOffsets()
    config = {
        "bootstrap.servers": node.bootstrap_servers,
        "barnabas.connect.spark.directory": str(folder / "worker"),
        **(worker_config or {}),
    }
    runtime = SparkTaskRuntime(
        config,
        memory,
        lambda connector_config: connector,
        worker_id="127.0.0.1:8083",
        sessions=SharedSession(spark),
        record_path=record_path,
    )
    try:
        yield Stage(runtime, node, memory, spark)
    finally:
        await runtime.close()


@asynccontextmanager
async def running_json_stage(
    spark: SparkSession, node: Node, folder: Path, connector: type[Connector]
) -> AsyncIterator[Stage]:
    """Run a stage with the converters of a worker, for text keys and JSON values without schemas."""
    worker_config = {
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }
    async with running_stage(
        spark, node, folder, connector, worker_config=worker_config, record_path=ConverterPath
    ) as stage:
        yield stage
