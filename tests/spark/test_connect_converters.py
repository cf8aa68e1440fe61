"""Our converters compared with the answers of Kafka 4.3.1's own (``tests/vectors/connect/answers-4.3.1.jsonl.gz``)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from barnabas.connect_spark.converters.connect_schema import ConnectSchema, SchemaType
from barnabas.connect_spark.converters.converter import Converter
from barnabas.connect_spark.converters.converter_registry import converter_of
from barnabas.connect_spark.converters.json_converter import JsonConverter
from barnabas.connect_spark.converters.primitive_converters import ByteArrayConverter
from barnabas.connect_spark.converters.record_batch import HEADERS, RecordBatch
from barnabas.connect_spark.converters.record_converter import RecordConverter
from barnabas.connect_spark.converters.simple_header_converter import SimpleHeaderConverter
from barnabas.connect_spark.converters.string_converter import StringConverter
from barnabas.connect_spark.converters.variants import variant_of
from tests.spark.connect_answers import (
    Held,
    answers,
    as_number,
    by_class,
    described,
    header_described,
    raw_frame,
    typed_rows,
)
from tests.spark.connect_differences import reason_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.connect_answers import Answered

pytestmark = pytest.mark.spark


def _with(value: Converter) -> RecordConverter:
    return RecordConverter(ByteArrayConverter(), value, SimpleHeaderConverter())


def _bytes(digits: str | None) -> bytes | None:
    return None if digits is None else bytes.fromhex(digits)


def _explained(compared: list[tuple[Answered, Any]]) -> None:
    wrong = [
        f"line {line}: {question}\n  Kafka: {theirs}\n  ours:  {ours}"
        for (line, question, theirs), ours in compared
        if as_number(theirs) != as_number(ours) and reason_of(question, theirs, ours) is None
    ]
    assert wrong == [], f"{len(wrong)} differ:\n" + "\n".join(wrong)


def _error(row: Any) -> dict[str, str]:
    return {"error": row["failure"]["exception_class"], "message": row["failure"]["message"]}


@pytest.mark.long
def test_bytes_are_read_as_kafkas_converters_read_them(spark: SparkSession) -> None:
    compared = []
    for (name, config), group in by_class(answers("to")).items():
        converter = _with(converter_of("value.converter", name, dict(config)))
        rows = [{"offset": line, "value": _bytes(question["data"])} for line, question, _ in group]
        found = typed_rows(converter.to_connect(raw_frame(spark, rows)))
        for answered in group:
            batch, row = found[answered[0]]
            compared.append((answered, _error(row) if row["failure"] else described(batch.value_schema, row["value"])))
    assert len(compared) > 250
    _explained(compared)


@pytest.mark.long
def test_data_is_written_as_kafkas_converters_write_it(spark: SparkSession) -> None:
    compared: list[tuple[Answered, Any]] = []
    cases = answers("from")
    decoded = [(member, _decoded(spark, cases, member)) for member in ("envelope", "text")]
    for (name, config), group in by_class(cases).items():
        converter = _with(converter_of("value.converter", name, dict(config)))
        for member, held in decoded:
            chosen = [answered for answered in group if member == _form(answered[1])]
            batches = held.of_lines(line for line, _, _ in chosen)
            found = {row["offset"]: row for batch in batches for row in converter.from_connect([batch]).collect()}
            compared += [_written(answered, found[answered[0]]) for answered in chosen]
    assert len(compared) > 250
    _explained(compared)


@pytest.mark.long
def test_headers_are_written_as_kafkas_simple_converter_writes_them(spark: SparkSession) -> None:
    cases = answers("header-from")
    held = _decoded(spark, cases, "envelope")
    found: dict[int, Any] = {}
    for batch in held.of_lines(line for line, _, _ in cases):
        schema = None if batch.value_schema is None else json.dumps(batch.value_schema.to_json())
        value = F.when(F.col("value").isNotNull(), variant_of(batch.value_schema, F.col("value")))
        header = F.struct(F.lit("h").alias("key"), value.alias("value"), F.lit(schema).alias("schema"))
        frame = batch.frame.withColumn("headers", F.array(header).cast(HEADERS)).withColumn(
            "value", F.lit(None).cast("binary")
        )
        given = RecordBatch(frame, batch.key_schema, ConnectSchema(SchemaType.BYTES))
        found |= {row["offset"]: row for row in _with(ByteArrayConverter()).from_connect([given]).collect()}
    compared: list[tuple[Answered, Any]] = []
    for answered in cases:
        row = found[answered[0]]
        data = row["headers"][0]["value"]
        compared.append((answered, _error(row) if row["failure"] else {"data": None if data is None else data.hex()}))
    _explained(compared)


def _form(question: dict[str, Any]) -> str:
    return next(iter(question["data"])) if question["data"] else "text"


def _decoded(spark: SparkSession, answered: list[Answered], form: str) -> Held:
    rows = [
        {"offset": line, "value": question["data"] and question["data"][form].encode()}
        for line, question, _ in answered
        if _form(question) == form
    ]
    given = _with(JsonConverter(schemas=form == "envelope", replace_null_with_default=False))
    return Held.of(given.to_connect(raw_frame(spark, rows)))


def _written(answered: Answered, row: Any) -> tuple[Answered, Any]:
    """JSON is compared as JSON: its members may have another order."""
    line, question, theirs = answered
    if row["failure"]:
        return answered, _error(row)
    ours: dict[str, Any] = {"data": None if row["value"] is None else bytes(row["value"]).hex()}
    if question["class"].endswith("JsonConverter") and ours["data"] and theirs.get("data"):
        parsed = {"json": json.loads(bytes.fromhex(theirs["data"]))}
        return (line, question, parsed), {"json": json.loads(bytes.fromhex(ours["data"]))}
    return answered, ours


def test_headers_are_read_as_kafkas_simple_converter_reads_them(spark: SparkSession) -> None:
    group = answers("header-to")
    rows = [
        {"offset": line, "headers": [{"key": "h", "value": _bytes(question["data"])}]} for line, question, _ in group
    ]
    found = typed_rows(_with(ByteArrayConverter()).to_connect(raw_frame(spark, rows)))
    compared = [(answered, header_described(found[answered[0]][1]["headers"][0])[1]) for answered in group]
    _explained(compared)


ORDER = {
    "type": "struct",
    "optional": False,
    "fields": [
        {"field": "id", "type": "int64", "optional": False},
        {"field": "note", "type": "string", "optional": True},
    ],
}


def test_a_batch_may_have_several_schemas_and_bad_records(spark: SparkSession) -> None:
    values = [
        json.dumps({"schema": ORDER, "payload": {"id": 1, "note": "n"}}).encode(),
        json.dumps({"schema": {"type": "string"}, "payload": "text"}).encode(),
        b"no json",
        None,
        json.dumps({"schema": ORDER, "payload": {"id": "x"}}).encode(),
    ]
    converter = _with(JsonConverter())
    raw = raw_frame(spark, [{"offset": at, "value": value} for at, value in enumerate(values)])
    batches = converter.to_connect(raw)
    failures = {row["offset"]: row["failure"] for batch in batches for row in batch.failed.collect()}
    assert set(failures) == {2, 4}
    assert failures[2]["stage"] == "VALUE_CONVERTER"
    assert failures[2]["executing_class"] == "org.apache.kafka.connect.json.JsonConverter"
    assert '"id": Invalid type for int64' in failures[4]["message"]
    frame = converter.to_frame(batches).orderBy("offset").collect()
    assert [row["offset"] for row in frame] == [0, 1, 3]
    assert frame[2]["value"] is None
    back = {row["offset"]: row["value"] for row in converter.from_connect(batches).collect()}
    assert json.loads(back[0]) == {"schema": ORDER, "payload": {"id": 1, "note": "n"}}
    assert back[3] is None


def test_schemaless_json_loses_no_field_on_its_way_to_a_sink(spark: SparkSession) -> None:
    values = [b'{"a": 1}', b'{"b": {"c": "x"}}', b'{"a": "text", "d": null}']
    converter = _with(JsonConverter(schemas=False))
    raw = raw_frame(spark, [{"offset": at, "value": value} for at, value in enumerate(values)])
    frame = converter.to_frame(converter.to_connect(raw))
    value: Any = frame.schema["value"].dataType
    assert sorted(value.names) == ["a", "b", "d"]
    texts = [row[0] for row in frame.orderBy("offset").selectExpr("to_json(value)").collect()]
    assert [json.loads(text) for text in texts] == [{"a": 1}, {"b": {"c": "x"}}, {"a": "text"}]


def test_a_given_schema_types_json_and_reports_unknown_fields(spark: SparkSession) -> None:
    settings = {"schemas.enable": "false", "barnabas.schema": "id BIGINT, at TIMESTAMP, tags ARRAY<STRUCT<x: INT>>"}
    converter = _with(JsonConverter.of(settings))
    values = [
        b'{"id": 1, "at": "2020-01-01T00:00:00Z", "tags": [{"x": 1}]}',
        b'{"id": 2, "tags": [{"y": 1}]}',
        b'{"id": "x"}',
    ]
    [batch] = converter.to_connect(
        raw_frame(spark, [{"offset": at, "value": value} for at, value in enumerate(values)])
    )
    good, unknown, wrong = batch.frame.orderBy("offset").collect()
    assert good["value"]["id"] == 1
    assert good["value"]["tags"][0]["x"] == 1
    assert "barnabas.schema lacks in tags: y" in unknown["failure"]["message"]
    assert "Invalid type for int64" in wrong["failure"]["message"]


def test_invalid_utf_8_is_replaced_as_by_javas_decoder(spark: SparkSession) -> None:
    given = [b"a\xff", b"\xc3", b"\xe2\x82", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80", b"", "\u00e4".encode()]
    frame = spark.createDataFrame([(data,) for data in given], "value binary").coalesce(1)
    column = StringConverter().to_connect(F.col("value"), None).column
    java = spark._jvm.java.lang.String
    assert [row[0] for row in frame.select(column).collect()] == [str(java(data, "UTF-8")) for data in given]
