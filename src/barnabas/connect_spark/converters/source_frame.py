"""Convert the result of a source's ``read`` to a RecordBatch. Report columns that a record does not have by name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as t

from barnabas.connect_spark.converters.connect_schema import ConnectSchema, DataException
from barnabas.connect_spark.converters.record_batch import FAILURE, HEADERS, ORIGINAL, RecordBatch
from barnabas.connect_spark.converters.spark_types import connect_schema, spark_type
from barnabas.connect_spark.converters.variants import variant_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from typing_extensions import TypeIs

__all__ = ["CONNECT_SCHEMA", "source_batch"]

CONNECT_SCHEMA = "connect.schema"
"""Metadata of the columns ``key`` and ``value``: a schema of Connect, in the form of JsonConverter's envelope. It gives
names and parameters to types that Spark's types can't name. Without it the schema follows from Spark's type."""

_REQUIRED = ("topic", "value")
_PLACES = {"topic": "string", "partition": "int", "timestamp": "timestamp"}
_ALLOWED = (*_PLACES, "key", "value", "headers")


def source_batch(frame: DataFrame) -> RecordBatch:
    """Return the batch. Raise DataException."""
    _check_columns(frame.columns)
    types = {field.name: field.dataType for field in frame.schema.fields}
    described = {field.name: field.metadata.get(CONNECT_SCHEMA) for field in frame.schema.fields}
    places = {name: _place(name, types.get(name), kind) for name, kind in _PLACES.items()}
    key, key_schema = _datum("key", types.get("key"), described.get("key"))
    value, value_schema = _datum("value", types["value"], described["value"])
    return RecordBatch(
        frame.select(
            places["topic"].alias("topic"),
            places["partition"].alias("partition"),
            F.lit(None).cast("bigint").alias("offset"),
            places["timestamp"].alias("timestamp"),
            key.alias("key"),
            value.alias("value"),
            _headers(types.get("headers")).alias("headers"),
            F.lit(None).cast(FAILURE).alias("failure"),
            F.lit(None).cast(ORIGINAL).alias("original"),
        ),
        key_schema,
        value_schema,
        can_fail=False,
        absent=frozenset(name for name in ("key", "headers") if _is_absent(types.get(name))),
    )


def _is_absent(found: t.DataType | None) -> TypeIs[t.NullType | None]:
    return found is None or isinstance(found, t.NullType)


def _check_columns(names: list[str]) -> None:
    missing = [name for name in _REQUIRED if name not in names]
    unknown = [name for name in names if name not in _ALLOWED]
    doubled = sorted({name for name in names if names.count(name) > 1})
    problems = [
        f"{what} {', '.join(found)}"
        for what, found in (("no column", missing), ("unknown:", unknown), ("more than once:", doubled))
        if found
    ]
    if problems:
        raise DataException(
            f"the source did not return a batch of records ({'; '.join(problems)}). "
            f"Select {' and '.join(_REQUIRED)}, and any of {', '.join(n for n in _ALLOWED if n not in _REQUIRED)}; "
            "put several fields into one struct named value"
        )


def _place(name: str, found: t.DataType | None, wanted: str) -> Column:
    if _is_absent(found):
        return F.lit(None).cast(wanted)
    allowed = {
        "topic": (t.StringType, t.CharType, t.VarcharType),
        "partition": (t.ByteType, t.ShortType, t.IntegerType),
        "timestamp": (t.TimestampType, t.TimestampNTZType),
    }[name]
    if not isinstance(found, allowed):
        raise DataException(f"the column {name} of the source is {found.simpleString()}, but it must be {wanted}")
    return F.col(name).cast(wanted)


def _datum(name: str, found: t.DataType | None, described: object = None) -> tuple[Column, ConnectSchema | None]:
    if _is_absent(found):
        return F.lit(None).cast("variant"), None
    try:
        schema = connect_schema(found) if described is None else ConnectSchema.from_json(described)
    except DataException as error:
        raise DataException(f"the column {name} of the source: {error}") from None
    return F.col(name).cast(spark_type(schema)), schema


def _headers(found: t.DataType | None) -> Column:
    if _is_absent(found):
        return F.lit(None).cast(HEADERS)
    if not (
        isinstance(found, t.ArrayType)
        and isinstance(found.elementType, t.StructType)
        and found.elementType.names == ["key", "value"]
        and isinstance(found.elementType["key"].dataType, t.StringType)
    ):
        raise DataException(
            f"the column headers of the source is {found.simpleString()}, "
            "but it must be array<struct<key: string, value: any type>>"
        )
    schema = connect_schema(found.elementType["value"].dataType)
    schema_text = None if schema is None else json.dumps(schema.to_json(), separators=(",", ":"))

    def typed(header: Column) -> Column:
        value = variant_of(schema, header["value"].cast(spark_type(schema)))
        return F.struct(
            header["key"].alias("key"), value.alias("value"), F.lit(schema_text).cast("string").alias("schema")
        )

    return F.transform(F.col("headers"), typed).cast(HEADERS)
