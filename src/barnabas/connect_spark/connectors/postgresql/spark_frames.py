"""Frames of events: the columns topic, key and value, with the schemas of Connect that belong to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import types as t

from barnabas.connect_spark.connectors.postgresql.debezium.envelope import EventPlan
from barnabas.connect_spark.connectors.postgresql.debezium.events import Event
from barnabas.connect_spark.connectors.postgresql.event_frames import EventSource, event_table
from barnabas.connect_spark.converters.source_frame import CONNECT_SCHEMA
from barnabas.connect_spark.converters.spark_types import spark_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["event_frame", "frame_schema"]


def frame_schema(plan: EventPlan) -> t.StructType:
    schemas = {"key": plan.key, "value": plan.value}
    described = [
        t.StructField(name, spark_type(schema), metadata={CONNECT_SCHEMA: schema.to_json()})
        for name, schema in schemas.items()
        if schema is not None
    ]
    return t.StructType([t.StructField("topic", t.StringType()), *described])


def event_frame(spark: SparkSession, events: Sequence[Event], plan: EventPlan, source: EventSource) -> DataFrame:
    """Return events of one table, in one Spark partition, so that they keep their order. Raise UnusableValue."""
    return spark.createDataFrame(event_table(events, plan, source), schema=frame_schema(plan)).coalesce(1)
