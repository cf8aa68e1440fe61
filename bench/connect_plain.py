"""``python -m bench.connect_plain``: what somebody would write by hand on plain PySpark, without Connect.

Reads jobs from standard input, a JSON object a line, and answers each with a line when its query has started and with
another when it has done all that was there: so Spark is warm for the second job, as it is in a worker. Spark's settings
are its defaults, but for what keeps it on loopback and quiet.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    folder, memory = Path(sys.argv[1]), sys.argv[2]
    java = find_java(os.environ)
    with spark_session(
        "bench",
        master="local[*]",
        jars=connector_jars(cache_directory(os.environ), java, lambda _: None),
        java=java,
        work=folder,
        settings={"spark.ui.enabled": "false", "spark.driver.memory": memory},
    ) as spark:
        print("ready", flush=True)
        for line in sys.stdin:
            job = json.loads(line)
            query = _writer(spark, job).option("checkpointLocation", str(folder / job["name"])).start()
            print("started", flush=True)
            query.processAllAvailable()
            query.stop()
            print("done", flush=True)


def _writer(spark: SparkSession, job: dict[str, Any]) -> DataStreamWriter:
    if job["kind"] == "parquet":
        records = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", job["bootstrap"])
            .option("subscribe", job["topic"])
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", _BATCH_RECORDS)
            .load()
        )
        return records.selectExpr("CAST(value AS STRING) AS value").writeStream.format("parquet").option(
            "path", job["directory"]
        )  # fmt: skip
    # One writer, because lines keep their order, as the connector's do.
    lines = spark.readStream.format("text").load(job["directory"]).coalesce(1)
    return (
        lines.writeStream.format("kafka")
        .option("kafka.bootstrap.servers", job["bootstrap"])
        .option("topic", job["topic"])
    )


if __name__ == "__main__":
    main()
