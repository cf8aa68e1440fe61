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
    type=st.sampled_from([each for each in SchemaType if each.is_primitive]),
    optional=st.booleans(),
    name=st.none() | _NAMES,
    version=st.none() | st.integers(1, 9),
    doc=st.none() | _NAMES,
    parameters=st.dictionaries(_NAMES, _NAMES, max_size=2).map(lambda each: tuple(each.items())),
    default=st.none() | st.sampled_from(["1", '"x"', "true"]),
)


def _nested(inner: st.SearchStrategy[ConnectSchema]) -> st.SearchStrategy[ConnectSchema]:
    fields = st.dictionaries(_NAMES, inner, max_size=3).map(
        lambda each: tuple(Field(name, schema) for name, schema in each.items())
    )
    return (
        st.builds(lambda item: ConnectSchema(SchemaType.ARRAY, values=item), inner)
        | st.builds(
            lambda item: ConnectSchema(SchemaType.MAP, True, keys=ConnectSchema(SchemaType.STRING), values=item), inner
        )
        | st.builds(lambda each: ConnectSchema(SchemaType.STRUCT, fields=each), fields)
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
            lambda each: t.StructType([t.StructField(f"f{at}", kind) for at, kind in enumerate(each)])
        )
    )


@given(st.recursive(_SIMPLE, _complex, max_leaves=6))
def test_a_type_of_sparks_comes_back_from_its_schema(kind: t.DataType) -> None:
    assert spark_type(connect_schema(kind)) == kind


def test_variant_is_schemaless() -> None:
    assert connect_schema(t.VariantType()) is None
    assert spark_type(None) == t.VariantType()


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (t.DayTimeIntervalType(), "interval day to second has no schema"),
        (t.StructType([t.StructField("v", t.VariantType())]), '"v" is a VARIANT inside a typed value'),
    ],
)
def test_a_type_without_a_schema_is_refused_with_what_to_do(kind: t.DataType, told: str) -> None:
    with pytest.raises(DataException, match=told):
        connect_schema(kind)


@pytest.mark.parametrize(
    ("form", "told"),
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
def test_json_that_is_no_schema_is_told_in_connects_words(form: Any, told: str) -> None:
    with pytest.raises(DataException, match=told):
        ConnectSchema.from_json(form)


@pytest.mark.parametrize(("parameters", "told"), [((), "scale parameter"), ((("scale", "40"),), "no type in Spark")])
def test_a_decimal_that_spark_has_no_type_for_is_refused(parameters: tuple[tuple[str, str], ...], told: str) -> None:
    schema = ConnectSchema(SchemaType.BYTES, name="org.apache.kafka.connect.data.Decimal", parameters=parameters)
    with pytest.raises(DataException, match=told):
        spark_type(schema)
