"""``python -m bench.nexmark.nexmark_plain FOLDER HEAP SIDE``: NEXMark's queries on PySpark, written by hand.

It has the settings of a worker and of a pipeline's query. Reads jobs from standard input, a JSON object a line, and
answers each with a line when its query has started and with another when it has done all that was there.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.connect_spark.queries.kafka_settings import (
    consumer_settings,
    producer_settings,
    spark_consumer_options,
    spark_producer_options,
)
from barnabas.connect_spark.sessions.spark_settings import SparkSettings
from barnabas.connect_spark.sessions.worker_session import embedded_conf
from barnabas.spark.connector_jars import cache_directory, connector_jars
from barnabas.spark.java_runtime import find_java
from barnabas.spark.spark_session import spark_session
from bench.nexmark.nexmark_queries import QUERIES, Input, NexmarkQuery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["STATE_CONF", "main", "run_query"]

BATCH_RECORDS = 500_000
"""Of a micro-batch, as the worker's default is."""
_TRIGGER = "500 milliseconds"
STATE_CONF = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.noDataMicroBatches.enabled": "true",
}
"""As a pipeline's query has it."""


def main() -> None:
    folder, memory = Path(sys.argv[1]), sys.argv[2]
    queries = {query.name: query for query in QUERIES}
    java = find_java(os.environ)
    settings = {**embedded_conf(SparkSettings.of({}, worker_id="bench")), **STATE_CONF}
    with spark_session(
        "bench",
        master="local[*]",
        jars=connector_jars(cache_directory(os.environ), java, lambda _: None),
        java=java,
        work=folder,
        settings={**settings, "spark.driver.memory": memory},
    ) as spark:
        print("ready", flush=True)
        for line in sys.stdin:
            job = json.loads(line)
            query = run_query(spark, queries[job["query"]], job["bootstrap"], job["topic"], folder / job["topic"])
            print("started", flush=True)
            query.processAllAvailable()
            query.stop()
            print("done", flush=True)


def run_query(spark: SparkSession, query: NexmarkQuery, bootstrap: str, topic: str, checkpoint: Path) -> StreamingQuery:
    """Start it, from topics to a topic."""
    servers = {"bootstrap.servers": bootstrap}
    consumer = spark_consumer_options(consumer_settings(servers, {}), "bench")
    producer = spark_producer_options(producer_settings(servers, {}), "bench")
    for name, given in query.inputs.items():
        _read(spark, given, consumer).createOrReplaceTempView(name)
    rows = spark.sql(query.sql)
    key = "CAST(NULL AS BINARY)" if query.key is None else f"CAST({query.key} AS STRING)"
    return (
        rows.selectExpr(f"{key} AS key", "to_json(struct(*)) AS value")
        .writeStream.format("kafka")
        .options(**producer)
        .option("topic", topic)
        .option("checkpointLocation", str(checkpoint))
        .outputMode("append" if query.key is None else "update")
        .trigger(processingTime=_TRIGGER)
        .start()
    )


def _read(spark: SparkSession, given: Input, options: dict[str, str]) -> DataFrame:
    reader: Any = spark.readStream.format("kafka").options(**options)
    records = (
        reader.option("subscribe", given.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", BATCH_RECORDS)
        .load()
    )
    from pyspark.sql import functions as F

    values = records.select(F.from_json(F.col("value").cast("string"), given.schema).alias("value")).select("value.*")
    return values if given.event_time is None else values.withWatermark(given.event_time, given.watermark)


if __name__ == "__main__":
    main()
