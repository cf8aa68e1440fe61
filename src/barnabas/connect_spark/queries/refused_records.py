"""Records that the target of a sink refused, as rows for the log and the dead-letter topic (KIP-610)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.connect.plugins.api import RefusedRecord
from barnabas.connect_spark.converters.record_batch import FAILURE, ORIGINAL
from barnabas.connect_spark.queries.error_policy import Stage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["refused_rows"]

_PLACE = ("topic", "partition", "offset")
_MESSAGES = "topic string, partition int, offset bigint, message string"


def refused_rows(raw: DataFrame, refused: Sequence[RefusedRecord], task_class: str) -> DataFrame:
    """Return the refused records among the raw ones of a batch, with the columns ``failure`` and ``original``."""
    from pyspark.sql import functions as F

    rows = [(record.partition.topic, record.partition.partition, record.offset, record.message) for record in refused]
    messages = F.broadcast(raw.sparkSession.createDataFrame(rows, _MESSAGES))
    failure = F.struct(
        F.lit(Stage.TASK_PUT).alias("stage"),
        F.lit(task_class).alias("executing_class"),
        F.lit("org.apache.kafka.connect.errors.DataException").alias("exception_class"),
        F.col("message").alias("message"),
    )
    original = F.struct(*_PLACE, "timestamp", "key", "value", "headers")
    found = raw.join(messages, list(_PLACE), "inner")
    return found.select(failure.cast(FAILURE).alias("failure"), original.cast(ORIGINAL).alias("original"))
