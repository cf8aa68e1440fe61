"""Spark's Kafka connector, unmodified, against our node: batch and streaming, with a restart in between."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from barnabas.testing import Node

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node(settings={"num.partitions": "3"}) as started:
        yield started
        started.stop()
        assert "Traceback" not in started.log_path.read_text()


def write(spark: SparkSession, node: Node, topic: str, start: int, end: int) -> None:
    rows = spark.range(start, end).selectExpr("cast(id % 10 as string) as key", "cast(id as string) as value")
    rows.write.format("kafka").option("kafka.bootstrap.servers", node.bootstrap_servers).option("topic", topic).save()


def read(spark: SparkSession, node: Node, topic: str) -> list[int]:
    rows = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", node.bootstrap_servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("cast(cast(value as string) as long) as number")
    )
    return sorted(row.number for row in rows.collect())


def run_stream(spark: SparkSession, node: Node, topic: str, folder: Path) -> None:
    """Read all present records, then stop; the checkpoint stores the position."""
    stream: DataFrame = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", node.bootstrap_servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    query = (
        stream.selectExpr("cast(cast(value as string) as long) as number", "partition", "offset")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .option("path", str(folder / "out"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)


def test_batch_writes_are_read_back_in_a_batch(spark: SparkSession, node: Node) -> None:
    write(spark, node, "spark-batch", 0, 500)
    assert read(spark, node, "spark-batch") == list(range(500))


def test_a_batch_reads_by_timestamp_and_by_offset(spark: SparkSession, node: Node) -> None:
    write(spark, node, "spark-places", 0, 30)
    ends = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", node.bootstrap_servers)
        .option("subscribe", "spark-places")
        .option("startingTimestamp", "1")
        .option("endingOffsets", '{"spark-places":{"0":1,"1":1,"2":1}}')
        .load()
    )
    assert sorted(row.partition for row in ends.select("partition").collect()) == [0, 1, 2]


def test_a_stream_resumes_after_a_restart_of_the_node(spark: SparkSession, node: Node, tmp_path: Path) -> None:
    write(spark, node, "spark-stream", 0, 300)
    run_stream(spark, node, "spark-stream", tmp_path)
    node.stop()
    node.start()
    write(spark, node, "spark-stream", 300, 400)
    run_stream(spark, node, "spark-stream", tmp_path)
    found = spark.read.parquet(str(tmp_path / "out")).select("number").collect()
    assert sorted(row.number for row in found) == list(range(400))


def test_a_stream_copies_from_topic_to_topic(spark: SparkSession, node: Node, tmp_path: Path) -> None:
    write(spark, node, "spark-from", 0, 200)
    query = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", node.bootstrap_servers)
        .option("subscribe", "spark-from")
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("key", "value")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", node.bootstrap_servers)
        .option("topic", "spark-to")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert read(spark, node, "spark-to") == list(range(200))
