"""A streaming query reads a topic with three replicas while leaders die, brokers restart and replicas move.

It does not fail, and in the end it has written every record once.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.history.clients import HistoryProducer, final_read
from tests.history.cluster import running_cluster
from tests.history.records_check import RecordsCheck
from tests.history.story import create_replicated, kill_leader, move_replicas, restart_one_by_one
from tests.peers.quorums import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(500)]

TOPIC = "clicks"
ALL = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]


def start_query(spark: SparkSession, bootstrap: str, folder: Path) -> StreamingQuery:
    stream = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", "true")
        .load()
    )
    return (
        stream.select("partition", "offset")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .option("path", str(folder / "out"))
        .trigger(processingTime="500 milliseconds")
        .start()
    )


def written(spark: SparkSession, folder: Path) -> list[tuple[int, int]]:
    return sorted((row.partition, row.offset) for row in spark.read.parquet(str(folder / "out")).collect())


def test_a_stream_continues_while_leaders_die_and_replicas_move(spark: SparkSession, tmp_path: Path) -> None:
    check = RecordsCheck()
    with running_cluster(tmp_path / "cluster", (("ours",) * 3, ("ours",))) as cluster:
        create_replicated(cluster, TOPIC, ALL)
        producer = HistoryProducer(cluster.bootstrap_servers, TOPIC, len(ALL), check, name="producer", rate=200, seed=1)
        producer.start()
        query = start_query(spark, cluster.bootstrap_servers, tmp_path)
        try:
            wait_until(lambda: bool(query.recentProgress), what="a first batch", timeout_s=60)
            for partition in range(len(ALL)):
                kill_leader(cluster, TOPIC, partition)
            restart_one_by_one(cluster, [TOPIC])
            move_replicas(cluster, TOPIC, [[3, 2, 1], [1, 3, 2], [2, 1, 3]])
            producer.stop()
            query.processAllAvailable()
            assert query.exception() is None
        finally:
            query.stop()
        final_read(cluster.bootstrap_servers, TOPIC, range(len(ALL)), check, timeout_s=30)
    assert [str(violation) for violation in check.violations()][:10] == []
    assert written(spark, tmp_path) == check.final_places()
    assert len(check.final_places()) > 500
