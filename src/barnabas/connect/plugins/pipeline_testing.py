"""Test a pipeline without Kafka and without a worker: rows in, rows out, as one batch or as a stream.

    def test_large_orders_have_their_customer(spark):
        kit = PipelineKit(large_orders, {"limit": "100"})
        rows = kit.run(
            spark,
            orders=Rows([{"id": 1, "customer_id": 7, "amount": 150}], "id INT, customer_id INT, amount INT"),
            customers=Rows([{"customer_id": 7, "name": "Ann"}], "customer_id INT, name STRING"),
        )
        assert [row.name for row in rows] == ["Ann"]

``stream`` runs the same function as Spark runs it on a worker: one micro-batch after the other, with watermarks and
state. A query in SQL is tested in the same way, by its text.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from barnabas.connect.plugins.pipelines import Pipeline
from barnabas.connect.settings.plugin_config_def import ConfigValue

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

__all__ = ["Batches", "PipelineKit", "Rows"]

_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True)
class Rows:
    """An input that is a table, or all records of a topic. ``schema`` is DDL, as in ``id BIGINT, name STRING``."""

    rows: Sequence[Any]
    """Tuples, dictionaries or ``pyspark.sql.Row``s."""
    schema: str


@dataclass(frozen=True, slots=True)
class Batches:
    """An input that is a topic. Each element of ``batches`` arrives with a micro-batch of its own."""

    batches: Sequence[Sequence[Any]]
    schema: str
    event_time: str | None = None
    """A column of the type TIMESTAMP."""
    watermark: str | None = None
    """How late a record may be, such as ``10 minutes``."""


class PipelineKit:
    """One pipeline with its settings. Raise ValueError for settings that it does not take."""

    def __init__(self, pipeline: Pipeline | str, settings: Mapping[str, str] | None = None) -> None:
        """``pipeline`` is a function with ``@pipeline``, or the text of a query in SQL."""
        self._pipeline = pipeline
        self._settings: dict[str, ConfigValue] = {}
        if isinstance(pipeline, Pipeline):
            unknown = sorted(set(settings or ()) - {key.name for key in pipeline.config_def})
            if unknown:
                raise ValueError(f"{pipeline.full_name} has no setting {', '.join(unknown)}")
            self._settings = pipeline.config_def.parse(settings or {})
        elif settings:
            raise ValueError(f"a query in SQL has no settings of its own: {', '.join(sorted(settings))}")

    def run(self, spark: SparkSession, **inputs: Rows | DataFrame) -> list[Row]:
        """Run it once over the inputs, and return its rows."""
        frames = {name: _frame(spark, given) for name, given in inputs.items()}
        return list(self._rows(spark, frames).collect())

    def stream(
        self, spark: SparkSession, *, mode: Literal["append", "update"] = "append", **inputs: Batches | Rows | DataFrame
    ) -> list[list[Row]]:
        """Run it as a stream until all batches have arrived, and return the rows of each micro-batch that has some.

        ``mode`` is append for rows that never change, and update for those that replace earlier ones, as with
        ``output.mode=upsert``. After the last batch, windows that the watermark has passed are written.
        """
        with TemporaryDirectory(prefix="barnabas-pipeline-kit-") as name:
            folder = Path(name)
            frames = {
                name: _stream(spark, given, folder / name) if isinstance(given, Batches) else _frame(spark, given)
                for name, given in inputs.items()
            }
            return _run_stream(self._rows(spark, frames), mode, folder / "checkpoint")

    def _rows(self, spark: SparkSession, frames: Mapping[str, DataFrame]) -> DataFrame:
        if isinstance(self._pipeline, Pipeline):
            missing = [name for name in self._pipeline.inputs if name not in frames]
            if missing or len(frames) > len(self._pipeline.inputs):
                raise ValueError(f"the inputs are {', '.join(self._pipeline.inputs)}, and not {', '.join(frames)}")
            return self._pipeline.rows(spark, frames, self._settings)
        for name, frame in frames.items():
            frame.createOrReplaceTempView(name)
        return spark.sql(self._pipeline)


def _frame(spark: SparkSession, given: Rows | DataFrame) -> DataFrame:
    return spark.createDataFrame(list(given.rows), given.schema) if isinstance(given, Rows) else given


def _stream(spark: SparkSession, given: Batches, folder: Path) -> DataFrame:
    """Write a file for each batch, and return a stream that reads one file after the other."""
    folder.mkdir()
    for number, rows in enumerate(given.batches):
        written = folder.with_name(f"{folder.name}-{number}")
        spark.createDataFrame(list(rows), given.schema).coalesce(1).write.parquet(str(written))
        (file,) = written.glob("part-*.parquet")
        target = folder / f"{number:06}.parquet"
        file.rename(target)
        os.utime(target, (number, number))  # Spark reads files in the order of their times.
        shutil.rmtree(written)
    schema = spark.createDataFrame([], given.schema).schema
    frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
    if given.event_time is None:
        return frame
    return frame.withWatermark(given.event_time, given.watermark or "0 seconds")


def _run_stream(frame: DataFrame, mode: str, checkpoint: Path) -> list[list[Row]]:
    """Run the query until it has read everything. Raise its error."""
    found: list[list[Row]] = []

    def collect(batch: DataFrame, number: int) -> None:
        if rows := batch.collect():
            found.append(rows)

    writer = frame.writeStream.foreachBatch(collect).outputMode(mode).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    try:
        if not query.awaitTermination(_TIMEOUT_S):
            raise TimeoutError(f"the pipeline has not ended after {_TIMEOUT_S} s")
    finally:
        query.stop()
    return found
