"""TopicToTopic within one cluster: copies, positions and the offsets of a consumer group are one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.clients.client_config import client_config
from barnabas.clients.network_client import NetworkClient
from barnabas.clients.producer.config import producer_config
from barnabas.clients.producer.transactional_producer import TransactionalProducer
from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.decide.backing_stores.offset_records import offset_record
from barnabas.connect.decide.tasks.task_partitions import format_partitions
from barnabas.connect.decide.tasks.task_runtime import TaskFailed, TaskStart, TopicRecord
from barnabas.connect.errors import ConnectError
from barnabas.connect.identifiers import ConnectorTaskId, TargetState
from barnabas.connect_spark.connectors.topic_to_topic import TopicToTopic
from barnabas.connect_spark.queries.record_path import ConverterPath
from barnabas.connect_spark.queries.shared_producer import SharedProducer
from barnabas.testing import Node
from tests.spark.connect_stage import MemoryOffsets, Stage, running_stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

POSITIONS = "positions"
SOURCE, COPY = TopicPartition("orders", 0), "copy-orders"
TASK = ConnectorTaskId("copies", 0)
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as started:
        yield started
        started.stop()
        assert "Traceback" not in started.log


class TopicOffsets(MemoryOffsets):
    """Positions in a topic, which is read when the task starts."""

    def __init__(self, node: Node, spark: SparkSession) -> None:
        super().__init__()
        self._node = node
        self._spark = spark
        self._partitions: dict[bytes, Mapping[str, Any]] = {}

    async def offset_records(
        self, connector: str, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> list[TopicRecord]:
        records = [(partition, offset_record(connector, partition, offset)) for partition, offset in offsets]
        self._partitions |= {record.key: partition for partition, record in records}
        return [TopicRecord(POSITIONS, record.key, record.value) for _, record in records]

    async def read_offsets_to_end(self, connector: str) -> None:
        for row in await asyncio.to_thread(committed, self._spark, self._node, POSITIONS):
            partition = self._partitions[bytes(row.key)]
            await self.write_source_offsets(connector, [(partition, {"offset": _offset(row.value)})])


def _offset(value: bytearray) -> int:
    return int(value.decode().removeprefix('{"offset":').removesuffix("}"))


def committed(spark: SparkSession, node: Node, topic: str) -> list[Any]:
    records = spark.read.format("kafka").option("kafka.bootstrap.servers", node.bootstrap_servers)
    records = records.option("subscribe", topic).option("kafka.isolation.level", "read_committed")
    return records.load().orderBy("partition", "offset").collect()


async def produce(node: Node, values: Sequence[str], *, is_committed: bool = True) -> None:
    network = NetworkClient(client_config({"bootstrap.servers": node.bootstrap_servers}))
    config = producer_config({"transactional.id": "orders"}, is_transactional=True)
    async with TransactionalProducer(network, config) as producer:
        await producer.init_transactions()
        producer.begin()
        await producer.send_pairs(SOURCE.topic, [(None, value.encode()) for value in values], producer.now_ms())
        await (producer.commit() if is_committed else producer.abort())
    await network.close()


async def start(stage: Stage, node: Node, refusal: Exception | None = None) -> None:
    async def confirm() -> None:
        if refusal is not None:
            raise refusal

    config = {
        "name": TASK.connector,
        "source.bootstrap.servers": node.bootstrap_servers,
        "source.topics": SOURCE.topic,
        "topic.format": "copy-${topic}",
        "barnabas.trigger.interval.ms": "100",
        **{f"{side}.converter": BYTES for side in ("key", "value", "header")},
    }
    task_config = config | {"source.partitions": format_partitions([SOURCE]), "source.is.same.cluster": "true"}
    stage.events.clear()
    described = TaskStart(
        TASK, config, task_config, TargetState.STARTED, 1, transactional_id="workers-copies-0", confirm=confirm
    )
    await stage.runtime.start_task(described, stage.events.append)


def test_records_are_copied_once_with_the_offsets_of_a_group(
    spark: SparkSession, node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        offsets = TopicOffsets(node, spark)
        async with running_stage(
            spark, node, tmp_path, TopicToTopic, offsets=offsets, record_path=ConverterPath
        ) as stage:
            for topic in (SOURCE.topic, COPY, POSITIONS):
                stage.create(topic)
            await produce(node, ["a", "b"])
            await produce(node, ["aborted"], is_committed=False)
            await produce(node, ["c"])

            with monkeypatch.context() as patched:  # The task dies between the positions and the commit.
                patched.setattr(SharedProducer, "commit", lambda producer: 1 / 0)
                await start(stage, node)
                await stage.failure()
            assert committed(spark, node, COPY) == []
            assert stage.committed("connect-copies") == {}

            await start(stage, node)
            await stage.until(lambda: len(committed(spark, node, COPY)) == 3)
            await stage.stop(TASK)
            end = stage.committed("connect-copies")[SOURCE]
            assert end > 4  # The aborted record and two markers are behind it.

            await produce(node, ["d"])
            await start(stage, node)
            await stage.until(lambda: len(committed(spark, node, COPY)) == 4)
            await stage.stop(TASK)
            assert [bytes(row.value).decode() for row in committed(spark, node, COPY)] == ["a", "b", "c", "d"]
            assert stage.committed("connect-copies")[SOURCE] > end

    asyncio.run(scenario())


def test_a_task_with_outdated_configs_does_not_run(spark: SparkSession, node: Node, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_stage(spark, node, tmp_path, TopicToTopic, offsets=TopicOffsets(node, spark)) as stage:
            await start(stage, node, ConnectError("newer configs"))
            failed = await stage.failure()
            assert isinstance(failed, TaskFailed)
            assert "newer configs" in failed.trace

    asyncio.run(scenario())
