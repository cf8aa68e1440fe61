"""Writes the archive of Spark's classes (``class_archive``) by a session that uses what pipelines use."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.spark.class_archive import class_archive, hash_file, hash_of, remove_outdated
from barnabas.spark.errors import SparkUnavailable
from barnabas.spark.java_runtime import JavaRuntime
from barnabas.spark.spark_session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["write_class_archive"]

_END_S = 600
"""How long the JVM may take to write the file when it ends. Seen: 7 to 20 s, and minutes on a busy machine."""


def write_class_archive(java: JavaRuntime, environment: Mapping[str, str]) -> Path:
    """Run a session that uses what pipelines use, and keep its classes. Raise SparkUnavailable.

    Another process may do the same: the last one wins, and no start sees a part of a file.
    """
    archive = class_archive(java, environment)
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix="part-") as part:
        written = Path(part) / "classes.jsa"
        settings = {
            "spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={written}",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
        }
        with spark_session(
            "prepare", master="local[2]", jars=[], java=java, work=Path(part), settings=settings, end_timeout_s=_END_S
        ) as session:
            _use_what_pipelines_use(session, Path(part))
        if not written.exists():
            raise SparkUnavailable(
                f"Java at {java.home} wrote no archive of its classes. Sessions start without one, as before"
            )
        digest = Path(part) / "digest"
        digest.write_text(hash_of(written))
        hash_file(archive).unlink(missing_ok=True)  # A file without its hash is ignored.
        os.replace(written, archive)
        os.replace(digest, hash_file(archive))
    remove_outdated(archive)
    return archive


def _use_what_pipelines_use(session: SparkSession, folder: Path) -> None:
    """Load classes: SQL, JSON, Parquet, a shuffle, a streaming query with state."""
    from pyspark.sql import functions as F

    rows = session.range(100).select(F.to_json(F.struct("id")).alias("value"), (F.col("id") % 3).alias("part"))
    rows.write.parquet(str(folder / "rows"))
    read = session.read.parquet(str(folder / "rows"))
    read.createOrReplaceTempView("rows")
    session.sql("SELECT part, count(*) AS n, max(value) AS last FROM rows GROUP BY part ORDER BY n").collect()
    parsed = session.readStream.schema(read.schema).parquet(str(folder / "rows"))
    parsed = parsed.select(F.from_json("value", "id BIGINT").alias("value"), "part").groupBy("part").count()
    query = (
        parsed.writeStream.outputMode("complete")
        .format("noop")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
