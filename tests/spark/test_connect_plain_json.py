"""Flat JSON of a given schema is read in one pass, with the values and the errors of the reading field by field."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from barnabas.connect_spark.converters import json_converter
from barnabas.connect_spark.converters.connect_schema import ConnectSchema
from barnabas.connect_spark.converters.json_converter import JsonConverter
from barnabas.connect_spark.converters.plain_json import plain_json
from barnabas.connect_spark.converters.spark_types import connect_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_DDL = "b BOOLEAN, i INT, l BIGINT, s STRING, d DOUBLE, t TIMESTAMP, day DATE, y TINYINT, n INT NOT NULL"
_BASE = {
    "b": "true",
    "i": "1",
    "l": "2",
    "s": '"a"',
    "d": "1.5",
    "t": '"2013-01-01T10:00:00Z"',
    "day": '"2013-01-01"',
    "y": "1",
    "n": "1",
}
_NUMBERS = (
    "1 -1 0 -0 -0.0 1.0 1e3 1.5 1e400 300 3000000000 9223372036854775808 01 .5 1. +1 2013 20130101 1357034400000 "
    "12345678 -1234567 2013.0000 2013e0"
)
_TEXTS = [
    "",
    "x",
    "Z",
    "e",
    "fa",
    "g",
    "tr",
    "u",
    "z",
    "~",
    "12",
    "9E",
    "1e5",
    "-",
    "+1",
    " 5",
    "5 ",
    "5\\n",
    "true",
    "null",
    "NaN",
    "Infinity",
    "{",
    "[x",
    "é",
]
_TIMES = ["2013-01-01T10:00:00Z", "2013-01-01 10:00:00", "2013-01-01", "2013", "20130101", "1357034400000"]
_OTHERS = ["true", "false", "null", "NaN", "Infinity", "{}", '{"a": 1}', "[]", "[1]", "'x'", r'"\"q"', r'"\u0000"']
_DOCUMENTS = [
    "", "{}", "[]", "null", "1", '"x"', '[{"n": 1}]', ' {"n": 1}', '{"n": 1} ', '{"n": 1}x', '{"n": 1', '{"n": 1,}',
    "{n: 1}", '{"n": 1, "N": 2}', '{"n": 1, "u": 2}', '{"n": 1, "u": {"n": 3}}', '{"n": 1, "u": NaN}', '{"s": "x"}',
    '/*c*/{"n": 1}', r'{"n": 1, "s": "\q"}', '{"n": 1, "s": "a\tb"}', '{"n": 1, "__barnabas_unread": "x"}',
]  # fmt: skip


def _records() -> Iterator[bytes | None]:
    tokens = [*_NUMBERS.split(), *(f'"{text}"' for text in (*_TEXTS, *_TIMES)), *_OTHERS]
    for name in _BASE:
        for token in tokens:
            yield _document({**_BASE, name: token})
        yield _document({other: token for other, token in _BASE.items() if other != name})
    for document in _DOCUMENTS:
        yield document.encode()
    yield from (None, b'\xff{"n": 1}', b'{"n": 1, "s": "\xff\xfe"}')


def _document(members: dict[str, str]) -> bytes:
    return ("{" + ", ".join(f'"{name}": {token}' for name, token in members.items()) + "}").encode()


def _decoded(spark: SparkSession, unknown: str) -> list[tuple[object, ...]]:
    """Return value (null for a bad record) and error of each record, both as text."""
    settings = {"schemas.enable": "false", "barnabas.schema": _DDL, "barnabas.schema.unknown.fields": unknown}
    converter = JsonConverter.of(settings)
    rows = [(at, record) for at, record in enumerate(_records())]
    prepared = spark.createDataFrame(rows, "at INT, data BINARY").select(
        "at", F.explode(F.array(converter.prepare(F.col("data")))).alias("read")
    )
    decoded = converter.to_connect(F.col("read"), None)
    assert decoded.error is not None
    value = F.when(decoded.error.isNull(), decoded.column.cast("string"))
    return [tuple(row) for row in prepared.orderBy("at").select(value, decoded.error).collect()]


@pytest.mark.parametrize("unknown", ["error", "ignore"])
def test_values_and_errors_are_those_of_reading_field_by_field(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, unknown: str
) -> None:
    quick = _decoded(spark, unknown)
    monkeypatch.setattr(json_converter, "plain_json", lambda *given, **settings: None)
    slow = _decoded(spark, unknown)
    differences = [(record, *both) for record, *both in zip(_records(), quick, slow, strict=True) if both[0] != both[1]]
    assert not differences
    assert 100 < sum(error is not None for _, error in quick) < len(quick) - 80


def test_ordinary_records_are_plain(spark: SparkSession) -> None:
    schema = _schema(_DDL)
    plain = plain_json(schema, refuses_unknown=True)
    assert plain is not None
    text = F.lit(_document(_BASE).decode())
    assert spark.range(1).select(plain.is_plain(text, plain.parse(text))).first() == (True,)


@pytest.mark.parametrize(
    "ddl", ["ARRAY<INT>", "a ARRAY<INT>", "a STRUCT<b: INT>", "a DECIMAL(5, 2)", "a FLOAT", "a BINARY", "a INT, A INT"]
)
def test_other_schemas_are_read_field_by_field(spark: SparkSession, ddl: str) -> None:
    assert plain_json(_schema(ddl), refuses_unknown=False) is None


def test_json_without_a_schema_is_not_read_by_a_schema() -> None:
    assert plain_json(None, refuses_unknown=True) is None


def _schema(ddl: str) -> ConnectSchema | None:
    return connect_schema(DataType.fromDDL(ddl))
