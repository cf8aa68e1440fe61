"""What the way of records costs, told by Spark's plans: where no record can be bad, none is looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from barnabas.connect.spark.record_path import ConverterPath, raising

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

STORAGE = "org.apache.kafka.connect.storage"
JSON = "org.apache.kafka.connect.json.JsonConverter"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
RAW = (
    "'topic' AS topic",
    "0 AS partition",
    "id AS offset",
    "timestamp_millis(id) AS timestamp",
    "cast(cast(id AS string) AS binary) AS key",
    "cast(cast(id AS string) AS binary) AS value",
    "array(struct('header' AS key, cast(cast(id AS string) AS binary) AS value)) AS headers",
)


def plan_of_values(spark: SparkSession, value_converter: str, header_converter: str) -> str:
    """How Spark makes the column ``value`` of a sink that tolerates no error."""
    converters = {
        "key.converter": f"{STORAGE}.StringConverter",
        "value.converter": value_converter,
        "value.converter.schemas.enable": "false",
        "header.converter": header_converter,
    }
    path = ConverterPath({}, converters)
    batches = [each.with_frame(raising(each.frame)) for each in path.sink_batches(spark.range(2).selectExpr(*RAW))]
    return str(path.sink_frame(batches).select("value")._jdf.queryExecution().optimizedPlan().toString())


@pytest.mark.parametrize("value_converter", [f"{STORAGE}.StringConverter", BYTES])
@pytest.mark.parametrize("header_converter", [f"{STORAGE}.SimpleHeaderConverter", f"{STORAGE}.StringConverter", BYTES])
def test_where_no_record_can_be_bad_none_is_looked_at(
    spark: SparkSession, value_converter: str, header_converter: str
) -> None:
    plan = plan_of_values(spark, value_converter, header_converter)
    assert not any(costly in plan for costly in ("raise_error", "Filter", "transform", "Generate", "header")), plan


@pytest.mark.parametrize(
    ("value_converter", "header_converter"),
    [(JSON, f"{STORAGE}.SimpleHeaderConverter"), (BYTES, JSON)],
)
def test_where_one_can_be_bad_it_is_found(spark: SparkSession, value_converter: str, header_converter: str) -> None:
    assert "raise_error" in plan_of_values(spark, value_converter, header_converter)
