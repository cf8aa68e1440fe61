"""Transforms, predicates and converters of another package: those of docs/connect/own-plugins, on real records."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.common.config_value import ConfigException
from barnabas.connect.plugins.api import TerminalError
from barnabas.connect.plugins.record_plugins import RecordColumns, Transform
from barnabas.connect_spark.queries.record_path import ConverterPath
from tests.docs.tracked import PROJECT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

STRING = "org.apache.kafka.connect.storage.StringConverter"
RAW = "topic string, partition int, offset bigint, timestamp timestamp, key binary, value binary, " + (
    "headers array<struct<key: string, value: binary>>"
)


@pytest.fixture
def plugins() -> Iterator[dict[str, Any]]:
    """The classes of the example by the names that a worker knows."""
    sys.path.insert(0, str(PROJECT / "docs" / "connect" / "own-plugins" / "src"))
    try:
        from shop_plugins import lines, records  # type: ignore[import-not-found]

        yield {
            "Pseudonym": records.Pseudonym,
            "TitleCase": records.TitleCase,
            "IsLarge": records.IsLarge,
            "Line": lines.LineConverter,
            "Careless": Careless,
        }
    finally:
        sys.path.pop(0)
        for name in [name for name in sys.modules if name.startswith("shop_plugins")]:
            del sys.modules[name]


class Careless(Transform):
    def apply(self, record: RecordColumns) -> RecordColumns:
        return None


def sink_rows(
    spark: SparkSession, plugins: dict[str, Any], values: list[str | None], config: dict[str, str]
) -> tuple[list[Any], list[Any]]:
    """Return the good values, and the failures of the bad records."""
    path = ConverterPath({"key.converter": STRING, "value.converter": STRING, **config}, {}, plugins)
    rows = [
        ("t", 0, at, None, None, None if value is None else value.encode(), None) for at, value in enumerate(values)
    ]
    batches = path.sink_batches(spark.createDataFrame(rows, RAW))
    good = [row.value for row in path.sink_frame(batches).orderBy("offset").collect()]
    bad = [row.failure for batch in batches for row in batch.failed.select("failure").collect()]
    return good, bad


def test_a_converter_of_another_package_reads_and_writes(spark: SparkSession, plugins: dict[str, Any]) -> None:
    config = {"value.converter": "Line", "value.converter.separator": "|"}
    good, bad = sink_rows(spark, plugins, ["1|2.50", None, "1", "x|1", "3|4.00"], config)
    assert [None if row is None else (row.id, str(row.amount)) for row in good] == [(1, "2.50"), None, (3, "4.00")]
    assert {(failure.stage, failure.executing_class, failure.message) for failure in bad} == {
        ("VALUE_CONVERTER", "shop_plugins.lines.LineConverter", "not an order, such as 17;4.50")
    }
    path = ConverterPath({"key.converter": STRING, **config}, {}, plugins)
    frame = spark.sql("SELECT 't' AS topic, named_struct('id', 7L, 'amount', CAST(1.5 AS DECIMAL(10,2))) AS value")
    assert [bytes(row.value) for row in path.source_records(frame).collect()] == [b"7|1.50"]
    [refused] = path.source_records(spark.sql("SELECT 't' AS topic, 1 AS value")).collect()
    assert refused.failure.message == "an order has id and amount, and this is int"


def test_a_transform_applies_where_its_predicate_says_so(spark: SparkSession, plugins: dict[str, Any]) -> None:
    config = {
        "value.converter": "Line",
        "transforms": "hide,whole",
        "transforms.hide.type": "Pseudonym",
        "transforms.hide.field": "id",
        "transforms.hide.secret": "s",
        "transforms.hide.predicate": "large",
        "transforms.whole.type": "org.apache.kafka.connect.transforms.ExtractField$Value",
        "transforms.whole.field": "id",
        "predicates": "large",
        "predicates.large.type": "IsLarge",
        "predicates.large.limit": "10",
    }
    good, bad = sink_rows(spark, plugins, ["1;50.00", "2;5.00"], config)
    assert bad == []
    hashed, number = (value.toPython() for value in good)  # Text and a number: their common type is VARIANT.
    assert (len(hashed), number) == (64, 2)


def test_a_pandas_function_transforms_whole_columns(spark: SparkSession, plugins: dict[str, Any]) -> None:
    config = {"transforms": "t", "transforms.t.type": "TitleCase"}
    good, bad = sink_rows(spark, plugins, ["two words", None, "4 you"], config)
    assert good == ["Two Words", None]
    assert [(failure.stage, failure.executing_class, failure.message) for failure in bad] == [
        ("TRANSFORMATION", "shop_plugins.records.TitleCase", "the text has digits")
    ]


def test_data_that_a_transform_does_not_accept_becomes_bad_records(
    spark: SparkSession, plugins: dict[str, Any]
) -> None:
    hide = {"transforms": "h", "transforms.h.type": "Pseudonym", "transforms.h.field": "id", "transforms.h.secret": "s"}
    good, bad = sink_rows(spark, plugins, ["a", "b"], hide)
    assert good == []
    assert {failure.message for failure in bad} == {"the value is string and has no field id"}


def test_mistakes_of_an_author_or_a_user_are_named(spark: SparkSession, plugins: dict[str, Any]) -> None:
    with pytest.raises(TerminalError, match="Careless.apply returned NoneType, not the changed record"):
        sink_rows(spark, plugins, ["a"], {"transforms": "c", "transforms.c.type": "Careless"})
    with pytest.raises(ConfigException, match='"secret" which has no default value'):
        ConverterPath(
            {"key.converter": STRING, "value.converter": STRING, "transforms": "h", "transforms.h.type": "Pseudonym",
             "transforms.h.field": "x"}, {}, plugins,
        )  # fmt: skip
    with pytest.raises(ConfigException, match=r"value\.converter\.separator"):
        ConverterPath(
            {"key.converter": STRING, "value.converter": "Line", "value.converter.separator": ","}, {}, plugins
        )
    with pytest.raises(ConfigException, match="converts keys and values only"):
        ConverterPath({"key.converter": STRING, "value.converter": STRING, "header.converter": "Line"}, {}, plugins)
