"""Convert Connect's schemas to Spark types, and back.

Decimal becomes decimal(38, scale), or of the precision in the parameter ``connect.decimal.precision``; Date becomes
date, Timestamp timestamp. Time stays milliseconds since midnight, as in Connect: Spark 4.0 has no such type.
A missing schema is VARIANT. Every field may be null in Spark; the converters check whether it may in Connect.
"""

from __future__ import annotations

import json
from functools import cache

from pyspark.sql import types as t

from barnabas.connect_spark.converters.connect_schema import (
    DATE,
    DECIMAL,
    SCALE,
    TIMESTAMP,
    ConnectSchema,
    DataException,
    Field,
    SchemaType,
)

__all__ = ["PRECISION", "connect_schema", "decimal_type", "spark_type"]

PRECISION = "connect.decimal.precision"
_MAX_PRECISION = 38

_PRIMITIVES: dict[SchemaType, t.DataType] = {
    SchemaType.INT8: t.ByteType(),
    SchemaType.INT16: t.ShortType(),
    SchemaType.INT32: t.IntegerType(),
    SchemaType.INT64: t.LongType(),
    SchemaType.FLOAT32: t.FloatType(),
    SchemaType.FLOAT64: t.DoubleType(),
    SchemaType.BOOLEAN: t.BooleanType(),
    SchemaType.STRING: t.StringType(),
    SchemaType.BYTES: t.BinaryType(),
}
_SCHEMA_TYPES = {type(spark): connect for connect, spark in _PRIMITIVES.items()}


@cache
def spark_type(schema: ConnectSchema | None) -> t.DataType:
    """Return the type of a column with this schema. Raise DataException if Spark has no such type."""
    if schema is None:
        return t.VariantType()
    if schema.logical == DECIMAL:
        return decimal_type(schema)
    if schema.logical == DATE:
        return t.DateType()
    if schema.logical == TIMESTAMP:
        return t.TimestampType()
    if schema.type is SchemaType.ARRAY:
        return t.ArrayType(spark_type(schema.item))
    if schema.type is SchemaType.MAP:
        if schema.key.type is SchemaType.MAP:
            raise DataException("a map whose keys are maps has no type in Spark")
        return t.MapType(spark_type(schema.key), spark_type(schema.item))
    if schema.type is SchemaType.STRUCT:
        if len(schema.field_by_name) != len(schema.fields):
            raise DataException("the schema of a struct has two fields of the same name")
        return t.StructType([t.StructField(field.name, spark_type(field.schema)) for field in schema.fields])
    return _PRIMITIVES[schema.type]


def decimal_type(schema: ConnectSchema) -> t.DecimalType:
    """Return the type of a Decimal."""
    scale = schema.scale
    text = dict(schema.parameters).get(PRECISION, "")
    precision = int(text) if text.isdigit() and 0 < int(text) <= _MAX_PRECISION else _MAX_PRECISION
    if not 0 <= scale <= precision:
        raise DataException(f"Decimal of scale {scale} has no type in Spark, which takes 0 to {precision}")
    return t.DecimalType(precision, scale)


def connect_schema(spark: t.DataType, *, optional: bool = True) -> ConnectSchema | None:
    """Return the schema of a connector's column; None for VARIANT. Raise DataException for a type without one."""
    if isinstance(spark, t.VariantType):
        return None
    if isinstance(spark, t.StructType):
        fields = tuple(Field(field.name, _inner(field.dataType, field.nullable, field.name)) for field in spark.fields)
        return ConnectSchema(SchemaType.STRUCT, optional, fields=fields)
    if isinstance(spark, t.ArrayType):
        return ConnectSchema(SchemaType.ARRAY, optional, values=_inner(spark.elementType, spark.containsNull, "items"))
    if isinstance(spark, t.MapType):
        keys = _inner(spark.keyType, False, "keys")
        values = _inner(spark.valueType, spark.valueContainsNull, "values")
        return ConnectSchema(SchemaType.MAP, optional, keys=keys, values=values)
    if isinstance(spark, t.DecimalType):
        parameters = ((SCALE, str(spark.scale)), (PRECISION, str(spark.precision)))
        return ConnectSchema(SchemaType.BYTES, optional, DECIMAL, 1, parameters=parameters)
    if isinstance(spark, t.DateType):
        return ConnectSchema(SchemaType.INT32, optional, DATE, 1)
    if isinstance(spark, t.TimestampType | t.TimestampNTZType):
        return ConnectSchema(SchemaType.INT64, optional, TIMESTAMP, 1)
    if isinstance(spark, t.CharType | t.VarcharType):
        return ConnectSchema(SchemaType.STRING, optional)
    found = _SCHEMA_TYPES.get(type(spark))
    if found is None:
        raise DataException(f"a column of type {spark.simpleString()} has no schema in Connect: cast it to string")
    return ConnectSchema(found, optional)


def _inner(spark: t.DataType, nullable: bool, name: str) -> ConnectSchema:
    schema = connect_schema(spark, optional=nullable)
    if schema is None:
        raise DataException(
            f"{json.dumps(name)} is a VARIANT inside a typed value, which Connect's schemas can't express: "
            "make the whole value a VARIANT (to_variant_object), or a string (to_json)"
        )
    return schema
