"""The cost of the record path, from Spark's plans: where no record can be bad, none is checked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from barnabas.connect.plugins.api import SinkTask, TerminalError
from barnabas.connect_spark.queries.record_path import SINK_COLUMNS, ConverterPath, strict, used_columns
from barnabas.connect_spark.sessions.spark_settings import SparkSettings
from barnabas.connect_spark.sessions.worker_session import session_conf

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
    """Return how Spark computes the column ``value`` of a sink that tolerates no errors."""
    converters = {
        "key.converter": f"{STORAGE}.StringConverter",
        "value.converter": value_converter,
        "value.converter.schemas.enable": "false",
        "header.converter": header_converter,
    }
    path = ConverterPath({}, converters)
    batches = [strict(batch) for batch in path.sink_batches(spark.range(2).selectExpr(*RAW))]
    return str(path.sink_frame(batches).select("value")._jdf.queryExecution().optimizedPlan().toString())


@pytest.mark.parametrize("value_converter", [f"{STORAGE}.StringConverter", BYTES])
@pytest.mark.parametrize("header_converter", [f"{STORAGE}.SimpleHeaderConverter", f"{STORAGE}.StringConverter", BYTES])
def test_records_that_cannot_be_bad_are_not_checked(
    spark: SparkSession, value_converter: str, header_converter: str
) -> None:
    plan = plan_of_values(spark, value_converter, header_converter)
    assert not any(costly in plan for costly in ("raise_error", "Filter", "transform", "Generate", "header")), plan


@pytest.mark.parametrize(
    ("value_converter", "header_converter"),
    [(JSON, f"{STORAGE}.SimpleHeaderConverter"), (BYTES, JSON)],
)
def test_bad_records_are_found(spark: SparkSession, value_converter: str, header_converter: str) -> None:
    assert "raise_error" in plan_of_values(spark, value_converter, header_converter)


def converters(key: str, value: str) -> dict[str, str]:
    return {
        "key.converter": key,
        "value.converter": value,
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
    }


STRING = f"{STORAGE}.StringConverter"


@pytest.mark.parametrize(
    ("key", "value", "connector", "columns", "is_fixed"),
    [
        (STRING, STRING, {}, ("value",), True),
        (STRING, BYTES, {}, SINK_COLUMNS, True),
        (JSON, STRING, {}, ("topic", "value"), True),  # The column without a schema is unused.
        (JSON, STRING, {}, ("key", "value"), False),
        (STRING, JSON, {}, ("value",), False),
        (STRING, JSON, {"value.converter.schemas.enable": "true", "value.converter": JSON}, ("value",), False),
        (STRING, STRING, {"transforms": "h", "transforms.h.type": "HoistField$Value", "transforms.h.field": "line"},
         ("value",), True),
    ],
)  # fmt: skip
def test_a_batch_that_depends_on_no_record_is_part_of_the_stream(
    spark: SparkSession, key: str, value: str, connector: dict[str, str], columns: tuple[str, ...], is_fixed: bool
) -> None:
    path = ConverterPath(connector, converters(key, value))
    stream = spark.readStream.format("rate").load().selectExpr("value AS id").selectExpr(*RAW)
    batch = path.fixed_batch(stream, columns)
    assert (batch is not None) is is_fixed
    if batch is not None:
        frame = path.sink_frame([strict(batch)], columns)
        assert frame.isStreaming
        assert frame.columns == list(columns)


def test_unused_columns_are_not_computed(spark: SparkSession) -> None:
    path = ConverterPath({}, converters(STRING, STRING))
    batch = path.fixed_batch(spark.range(2).selectExpr(*RAW), ("value",))
    assert batch is not None
    frame = path.sink_frame([strict(batch)], ("value",))
    plan = str(frame._jdf.queryExecution().optimizedPlan().toString())
    assert not any(other in plan for other in ("key", "header", "topic", "original", "failure")), plan


class Writes(SinkTask):
    used: tuple[str, ...] | None = None

    def __init__(self) -> None:
        pass

    def columns(self) -> tuple[str, ...] | None:
        return self.used


def test_columns_of_a_task_have_the_order_of_records() -> None:
    task = Writes()
    assert used_columns(task) == SINK_COLUMNS
    task.used = ("value", "topic")
    assert used_columns(task) == ("topic", "value")


@pytest.mark.parametrize(("used", "named"), [(("values",), "values"), ((), "none")])
def test_unknown_columns_are_refused(used: tuple[str, ...], named: str) -> None:
    task = Writes()
    task.used = used
    with pytest.raises(TerminalError, match=rf"Writes.columns returns {named}; a sink can use topic, partition"):
        used_columns(task)


@pytest.fixture
def whole_plans(spark: SparkSession) -> Iterator[None]:
    """Apply the settings of a worker's session that concern plans."""
    names = ("spark.sql.debug.maxToStringFields", "spark.sql.maxMetadataStringLength")
    conf = session_conf(SparkSettings.of({}, worker_id="h:8083"))
    for name in names:
        spark.conf.set(name, conf[name])
    yield
    for name in names:
        spark.conf.unset(name)


@pytest.mark.usefixtures("whole_plans")
def test_a_plan_names_all_columns_and_whole_paths(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / ("a" * 120)
    folder.mkdir()
    columns = ", ".join(f"column_{number} BIGINT" for number in range(60))
    frame = spark.read.schema(columns).parquet(str(folder)).filter("column_0 > 1")
    plan = str(frame._jdf.queryExecution().simpleString())
    assert "column_59" in plan
    assert "more fields" not in plan
    assert folder.name in plan
