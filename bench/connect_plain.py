"""``python -m bench.connect_plain FOLDER HEAP SIDE``: a query written by hand on PySpark, without Connect.

The side ``spark`` has the defaults of Spark and of Kafka's clients, except settings that keep it on loopback and quiet.
The side ``tuned`` has all settings of a worker, and values become text as there.

Reads jobs from standard input, a JSON object a line, and answers each with a line when its query has started and with
another when it has done all that was there: so Spark is warm for the second job, as it is in a worker.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.connect_spark.queries.kafka_settings import (
    producer_settings,
    spark_consumer_options,
    spark_producer_options,
)
from barnabas.connect_spark.sessions.spark_settings import SparkSettings
from barnabas.connect_spark.sessions.worker_session import embedded_conf
from barnabas.spark.connector_jars import cache_directory, connector_jars
from barnabas.spark.java_runtime import find_java
from barnabas.spark.spark_session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

__all__ = ["main"]

_BATCH_RECORDS = 500_000
"""Of a micro-batch, as the worker's default is: unbounded ones would be another program."""


def main() -> None:
    folder, memory, is_tuned = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "tuned"
    settings = embedded_conf(SparkSettings.of({}, worker_id="bench")) if is_tuned else {}
    java = find_java(os.environ)
    with spark_session(
        "bench",
        master="local[*]",
        jars=connector_jars(cache_directory(os.environ), java, lambda _: None),
        java=java,
        work=folder,
        settings={**settings, "spark.ui.enabled": "false", "spark.driver.memory": memory},
    ) as spark:
        print("ready", flush=True)
        for line in sys.stdin:
            job = json.loads(line)
            query = _writer(spark, job, is_tuned).option("checkpointLocation", str(folder / job["name"])).start()
            print("started", flush=True)
            query.processAllAvailable()
            query.stop()
            print("done", flush=True)


def _writer(spark: SparkSession, job: dict[str, Any], is_tuned: bool) -> DataStreamWriter:
    servers = {"bootstrap.servers": job["bootstrap"]}
    if job["kind"] == "parquet":
        options = {"kafka.bootstrap.servers": job["bootstrap"]}
        if is_tuned:
            options = spark_consumer_options(servers, "bench")
        records = (
            spark.readStream.format("kafka")
            .options(**options)
            .option("subscribe", job["topic"])
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", _BATCH_RECORDS)
            .load()
        )
        text = "decode(value, 'UTF-8')" if is_tuned else "CAST(value AS STRING)"
        return records.selectExpr(f"{text} AS value").writeStream.format("parquet").option("path", job["directory"])
    options = {"kafka.bootstrap.servers": job["bootstrap"]}
    if is_tuned:
        options = spark_producer_options(producer_settings(servers, {}), "bench")
    # One writer, because lines keep their order, as the connector's do.
    lines = spark.readStream.format("text").load(job["directory"]).coalesce(1)
    if is_tuned:
        lines = lines.selectExpr("decode(CAST(value AS BINARY), 'UTF-8') AS value")
    return lines.writeStream.format("kafka").options(**options).option("topic", job["topic"])


if __name__ == "__main__":
    main()
