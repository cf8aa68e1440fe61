"""Avro and Protobuf in a Spark session: their bytes, recognized among others, are written and read back."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from py4j.java_gateway import JavaPackage

from barnabas.connect.plugins.api import TerminalError
from barnabas.connect_spark.converters.avro_converter import AvroConverter
from barnabas.connect_spark.converters.avro_data import require_avro
from barnabas.connect_spark.converters.converter import Converter
from barnabas.connect_spark.converters.primitive_converters import ByteArrayConverter
from barnabas.connect_spark.converters.protobuf_converter import ProtobufConverter
from barnabas.connect_spark.converters.record_converter import RecordConverter
from barnabas.connect_spark.converters.simple_header_converter import SimpleHeaderConverter
from tests.spark.connect_answers import raw_frame, typed_rows
from tests.unit.connect_spark.converters.test_protobuf_messages import descriptors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}],
}


def _with(value: Converter) -> RecordConverter:
    return RecordConverter(ByteArrayConverter(), value, SimpleHeaderConverter())


def _read(spark: SparkSession, converter: RecordConverter, values: list[bytes | None]) -> list[Any]:
    """Return the value of each record, or its error."""
    raw = raw_frame(spark, [{"offset": at, "value": value} for at, value in enumerate(values)])
    rows = [row for _, (_, row) in sorted(typed_rows(converter.to_connect(raw)).items())]
    return [row["failure"]["message"] if row["failure"] else row["value"] for row in rows]


def _written(spark: SparkSession, converter: RecordConverter, ddl: str, rows: list[Any]) -> list[bytes | None]:
    frame = spark.createDataFrame([("t", row) for row in rows], f"topic string, value {ddl}").coalesce(1)
    found = converter.from_connect([converter.from_source(frame)]).collect()
    assert [row["failure"] for row in found] == [None] * len(rows)
    return [None if row["value"] is None else bytes(row["value"]) for row in found]


def test_avro_is_written_and_read_and_registry_framing_is_reported(spark: SparkSession) -> None:
    converter = _with(AvroConverter.of({"barnabas.avro.schema": json.dumps(ORDER)}))
    plain = [bytes.fromhex("0202026e"), bytes.fromhex("0000"), None]
    ddl = "struct<id: bigint, note: string>"
    assert _written(spark, converter, ddl, [(1, "n"), (0, None), None]) == plain
    framed = b"\x00\x00\x00\x00\x07" + plain[0]
    first, second, tombstone, registry, broken = _read(spark, converter, [*plain, framed, b"\x02"])
    assert (first.id, first.note) == (1, "n")
    assert (second.id, second.note) == (0, None)
    assert tombstone is None
    assert "uses no registry" in registry
    assert "not Avro of the configured schema" in broken


def test_a_session_without_avro_fails_the_task_and_names_the_setting() -> None:
    functions = JavaPackage("org.apache.spark.sql.avro.functions", object())
    jvm = SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(spark=SimpleNamespace(
        sql=SimpleNamespace(avro=SimpleNamespace(functions=functions))
    ))))  # fmt: skip
    session: Any = SimpleNamespace(_jvm=jvm)
    with pytest.raises(TerminalError, match=r"barnabas\.connect\.spark\.avro=true"):
        require_avro(session)


def test_protobuf_is_written_and_read(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "shop.desc"
    file.write_bytes(descriptors())
    settings = {"barnabas.protobuf.descriptor.file": str(file), "barnabas.protobuf.message": "shop.Item"}
    converter = _with(ProtobufConverter.of(settings))
    data = bytes.fromhex("0a0161")
    assert _written(spark, converter, "struct<sku: string>", [("a",), None]) == [data, None]
    good, tombstone, broken = _read(spark, converter, [data, None, b"\xff"])
    assert good.sku == "a"
    assert tombstone is None
    assert "the bytes are not a shop.Item" in broken


def test_fields_that_differ_only_in_case_are_distinct(spark: SparkSession) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": name, "type": "int"} for name in ("id", "ID")]}
    converter = _with(AvroConverter.of({"barnabas.avro.schema": json.dumps(schema)}))
    [row] = _read(spark, converter, [b"\x02\x04"])
    assert (row["id"], row["ID"]) == (1, 2)
