from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as t

from barnabas.connect_spark.converters.connect_schema import ConnectSchema, DataException, Field, SchemaType
from barnabas.connect_spark.converters.spark_types import connect_schema, spark_type

_NAMES = st.text(min_size=1, max_size=4)
_PRIMITIVES = st.builds(
    ConnectSchema,
    type=st.sampled_from([kind for kind in SchemaType if kind.is_primitive]),
    optional=st.booleans(),
    name=st.none() | _NAMES,
    version=st.none() | st.integers(1, 9),
    doc=st.none() | _NAMES,
    parameters=st.dictionaries(_NAMES, _NAMES, max_size=2).map(lambda values: tuple(values.items())),
    default=st.none() | st.sampled_from(["1", '"x"', "true"]),
)


def _nested(inner: st.SearchStrategy[ConnectSchema]) -> st.SearchStrategy[ConnectSchema]:
    fields = st.dictionaries(_NAMES, inner, max_size=3).map(
        lambda schemas: tuple(Field(name, schema) for name, schema in schemas.items())
    )
    return (
        st.builds(lambda item: ConnectSchema(SchemaType.ARRAY, values=item), inner)
        | st.builds(
            lambda item: ConnectSchema(SchemaType.MAP, True, keys=ConnectSchema(SchemaType.STRING), values=item), inner
        )
        | st.builds(lambda struct_fields: ConnectSchema(SchemaType.STRUCT, fields=struct_fields), fields)
    )


@given(st.recursive(_PRIMITIVES, _nested, max_leaves=6))
def test_a_schema_survives_its_json_form(schema: ConnectSchema) -> None:
    assert ConnectSchema.from_json(json.loads(json.dumps(schema.to_json()))) == schema


_SIMPLE = st.sampled_from(
    [
        t.ByteType(),
        t.ShortType(),
        t.IntegerType(),
        t.LongType(),
        t.FloatType(),
        t.DoubleType(),
        t.BooleanType(),
        t.StringType(),
        t.BinaryType(),
        t.DateType(),
        t.TimestampType(),
        t.DecimalType(10, 2),
        t.DecimalType(38, 0),
    ]
)


def _complex(inner: st.SearchStrategy[t.DataType]) -> st.SearchStrategy[t.DataType]:
    return (
        st.builds(t.ArrayType, inner)
        | st.builds(lambda value: t.MapType(t.StringType(), value), inner)
        | st.lists(inner, max_size=3).map(
            lambda kinds: t.StructType([t.StructField(f"f{at}", kind) for at, kind in enumerate(kinds)])
        )
    )


@given(st.recursive(_SIMPLE, _complex, max_leaves=6))
def test_a_spark_type_survives_conversion_to_a_schema(kind: t.DataType) -> None:
    assert spark_type(connect_schema(kind)) == kind


def test_variant_is_schemaless() -> None:
    assert connect_schema(t.VariantType()) is None
    assert spark_type(None) == t.VariantType()


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (t.DayTimeIntervalType(), "interval day to second has no schema"),
        (t.StructType([t.StructField("v", t.VariantType())]), '"v" is a VARIANT inside a typed value'),
    ],
)
def test_a_type_without_a_schema_is_refused_with_advice(kind: t.DataType, message: str) -> None:
    with pytest.raises(DataException, match=message):
        connect_schema(kind)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({}, "must contain 'type' field"),
        ({"type": "odd"}, "Unknown schema type: odd"),
        ({"type": "array"}, "did not specify the element type"),
        ({"type": "map", "keys": {"type": "string"}}, "did not specify the value type"),
        ({"type": "struct", "fields": {}}, "is not an array"),
        ({"type": "struct", "fields": [{"type": "string"}]}, "field name not specified"),
        ({"type": "string", "name": 5}, "Invalid schema name"),
        ({"type": "string", "version": "1"}, "Invalid schema version"),
        ({"type": "string", "parameters": {"a": 1}}, "Invalid schema parameters"),
    ],
)
def test_json_that_is_not_a_schema_is_reported_with_connects_message(form: Any, message: str) -> None:
    with pytest.raises(DataException, match=message):
        ConnectSchema.from_json(form)


@pytest.mark.parametrize(("parameters", "message"), [((), "scale parameter"), ((("scale", "40"),), "no type in Spark")])
def test_a_decimal_without_a_spark_type_is_refused(parameters: tuple[tuple[str, str], ...], message: str) -> None:
    schema = ConnectSchema(SchemaType.BYTES, name="org.apache.kafka.connect.data.Decimal", parameters=parameters)
    with pytest.raises(DataException, match=message):
        spark_type(schema)
