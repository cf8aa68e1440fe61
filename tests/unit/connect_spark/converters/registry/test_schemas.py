"""Schemas of a registry and Connect's: the types, what is refused by name, and which schemas share a column."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import types as t

from barnabas.connect_spark.converters.connect_schema import ConnectSchema, DataException, Field, SchemaType
from barnabas.connect_spark.converters.registry.avro_schemas import avro_of, named_by_avro, record_name
from barnabas.connect_spark.converters.registry.json_schemas import connect_of_json_schema, json_schema_of
from barnabas.connect_spark.converters.registry.latest_schema import misfits
from barnabas.connect_spark.converters.registry.protobuf_schemas import protobuf_of
from barnabas.connect_spark.converters.registry.schema_reading import grouped
from barnabas.connect_spark.converters.spark_types import connect_schema, spark_type

INT, LONG, TEXT = t.IntegerType(), t.LongType(), t.StringType()


def struct(**fields: t.DataType) -> t.StructType:
    return t.StructType([t.StructField(name, kind) for name, kind in fields.items()])


def connect(kind: t.DataType) -> ConnectSchema:
    schema = connect_schema(kind)
    assert schema is not None
    return schema


SCALARS = st.sampled_from(
    [t.ByteType(), t.ShortType(), INT, LONG, t.FloatType(), t.DoubleType(), t.BooleanType(), TEXT, t.BinaryType(),
     t.DateType(), t.TimestampType(), t.DecimalType(12, 3)]
)  # fmt: skip
NAMES = st.text("abc_", min_size=1, max_size=4)
TYPES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.builds(t.ArrayType, inner),
        st.builds(lambda values: t.MapType(TEXT, values), inner),
        st.dictionaries(NAMES, inner, min_size=1, max_size=3).map(lambda fields: struct(**fields)),
    ),
    max_leaves=6,
)
RECORDS = st.dictionaries(NAMES, TYPES, min_size=1, max_size=4).map(lambda fields: struct(**fields))


@settings(max_examples=60, deadline=None)
@given(RECORDS)
def test_json_schemas_say_the_types_that_they_were_made_of(kind: t.StructType) -> None:
    written = json.dumps(json_schema_of(connect(kind), decimals_as_numbers=False))
    found = connect_of_json_schema(written, {})
    expected = spark_type(connect(kind)).json().replace("decimal(12,3)", "decimal(38,3)")
    assert spark_type(found).json() == expected


@settings(max_examples=60, deadline=None)
@given(RECORDS)
def test_avro_schemas_are_valid_and_name_each_record_once(kind: t.StructType) -> None:
    from fastavro import parse_schema

    parse_schema(json.loads(json.dumps(avro_of(connect(kind)))))


def test_avro_has_the_names_of_structs_and_confluents_form() -> None:
    schema = connect(struct(id=LONG, inner=struct(a=TEXT)))
    assert avro_of(schema) == {
        "type": "record", "name": "ConnectDefault", "namespace": "io.confluent.connect.avro",
        "fields": [
            {"name": "id", "type": ["null", "long"], "default": None},
            {"name": "inner", "default": None, "type": ["null", {
                "type": "record", "name": "ConnectDefault2", "namespace": "io.confluent.connect.avro",
                "fields": [{"name": "a", "type": ["null", "string"], "default": None}],
            }]},
        ],
    }  # fmt: skip
    avro = {"type": "record", "name": "Order", "namespace": "shop", "fields": [
        {"name": "id", "type": "long"},
        {"name": "inner", "type": ["null", {
            "type": "record", "name": "In", "fields": [{"name": "a", "type": "string"}],
        }]},
    ]}  # fmt: skip
    named = named_by_avro(schema, avro)
    assert (named.name, named.field_by_name["inner"].schema.name) == ("shop.Order", "In")
    assert avro_of(named)["connect.name"] == "shop.Order"
    assert (record_name(avro), record_name("int")) == ("shop.Order", None)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (connect(struct(**{"a-b": INT})), "no field 'a-b'"),
        (connect(t.MapType(INT, TEXT)), "keys of int32"),
        (ConnectSchema(SchemaType.STRUCT, name="a b"), "not a name of Avro"),
    ],
)
def test_what_avro_lacks_is_named(schema: ConnectSchema, message: str) -> None:
    with pytest.raises(DataException, match=message):
        avro_of(schema)


def test_two_structs_of_one_name_are_one_record_if_they_are_equal() -> None:
    item = ConnectSchema(SchemaType.STRUCT, name="Item", fields=(Field("a", ConnectSchema(SchemaType.INT32)),))
    other = ConnectSchema(SchemaType.STRUCT, name="Item")
    pair = ConnectSchema(SchemaType.STRUCT, fields=(Field("x", item), Field("y", item)))
    assert avro_of(pair)["fields"][1]["type"] == "Item"
    with pytest.raises(DataException, match="two structs with different fields have the name Item"):
        avro_of(ConnectSchema(SchemaType.STRUCT, fields=(Field("x", item), Field("y", other))))


JSON_CASES: list[tuple[Any, str]] = [
    ({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": ["null", "number"]}}},
     "struct<a:bigint,b:double>"),
    ({"type": "object", "properties": {"a": {"type": "integer", "connect.type": "int8"}, "b": {"enum": ["x"]}}},
     "struct<a:tinyint,b:string>"),
    ({"type": "object", "properties": {"b": {"type": "string", "connect.index": 1}, "a": {"type": "boolean"}}},
     "struct<a:boolean,b:string>"),
    ({"type": "array", "items": {"oneOf": [{"type": "null"}, {"type": "string"}]}}, "array<string>"),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, "map<string,bigint>"),
    ({"type": "object", "properties": {"any": {}, "two": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}},
     "struct<any:string,two:string>"),
    ({"allOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b": {"type": "string"}}}]},
     "struct<a:bigint,b:string>"),
    ({"properties": {"i": {"$ref": "#/$defs/I"}}, "$defs": {"I": {"properties": {"s": {"type": "string"}}}}},
     "struct<i:struct<s:string>>"),
    ({"properties": {"i": {"$ref": "item.json#/x/y"}}}, "struct<i:struct<s:string>>"),
]  # fmt: skip
REFERENCE = {"x": {"y": {"properties": {"s": {"$ref": "#/z"}}}}, "z": {"type": "string"}}


@pytest.mark.parametrize(("schema", "expected"), JSON_CASES)
def test_a_json_schema_says_the_columns(schema: Any, expected: str) -> None:
    found = connect_of_json_schema(json.dumps(schema), {"item.json": json.dumps(REFERENCE)})
    assert spark_type(found).simpleString() == expected


@pytest.mark.parametrize("schema", [True, {}, {"type": ["string", "integer"]}, {"type": "object"}])
def test_a_json_schema_without_a_single_type_is_none(schema: Any) -> None:
    assert connect_of_json_schema(json.dumps(schema), {}) is None


def test_required_fields_are_not_optional() -> None:
    text = {"type": "string"}
    properties = {"a": text, "b": text, "c": {"oneOf": [{"type": "null"}, text]}}
    schema = {"type": "object", "title": "Order", "properties": properties, "required": ["a", "c"]}
    found = connect_of_json_schema(json.dumps(schema), {})
    assert found is not None
    assert found.name == "Order"
    assert [field.schema.optional for field in found.fields] == [False, True, True]


def test_a_recursive_json_schema_and_an_unknown_reference_are_named() -> None:
    tree = {"properties": {"next": {"$ref": "#"}}}
    with pytest.raises(DataException, match="contains itself"):
        connect_of_json_schema(json.dumps(tree), {})
    with pytest.raises(DataException, match=r"uses other\.json, which is not one of its references"):
        connect_of_json_schema('{"$ref": "other.json"}', {})
    with pytest.raises(DataException, match="uses #/x, which does not exist"):
        connect_of_json_schema('{"$ref": "#/x"}', {})


def test_schemas_share_a_column_if_their_types_fit() -> None:
    schemas = [connect(struct(a=INT, b=TEXT)), connect(struct(a=LONG, c=TEXT)), connect(struct(a=t.DoubleType()))]
    (group,) = grouped(schemas)
    assert group.indexes == (0, 1, 2)
    assert group.type.simpleString() == "struct<a:double,b:string,c:string>"


def test_schemas_whose_types_do_not_fit_are_apart() -> None:
    schemas = [connect(struct(a=INT)), connect(struct(a=TEXT)), connect(struct(a=LONG)), None]
    assert [group.indexes for group in grouped(schemas)] == [(0, 2), (1,), (3,)]


def test_records_are_compared_with_the_latest_schema_field_by_field() -> None:
    latest = t.StructType(
        [t.StructField("id", LONG, False), t.StructField("note", TEXT), t.StructField("n", INT, False)]
    )
    assert misfits(struct(id=INT, n=INT), latest, {}, is_strict=True) == []
    assert misfits(struct(id=INT), latest, {"n": "0"}, is_strict=True) == []
    problems = misfits(struct(id=TEXT, other=INT), latest, {}, is_strict=True)
    assert problems == [
        "value.id is string, and the schema has bigint",
        "they lack value.n, which has no default",
        "it does not have value.other (latest.compatibility.strict=false leaves such fields out)",
    ]
    assert misfits(struct(id=INT, n=INT, other=INT), latest, {}, is_strict=False) == []


def test_a_protobuf_file_has_a_message_for_each_struct() -> None:
    kind = struct(
        id=LONG,
        at=t.TimestampType(),
        tags=t.ArrayType(TEXT),
        by_key=t.MapType(TEXT, struct(x=INT)),
        item=struct(y=TEXT),
    )
    file = protobuf_of(connect(kind))
    message = file.message_type[0]
    assert (message.name, list(file.dependency)) == ("ConnectDefault1", ["google/protobuf/timestamp.proto"])
    assert [nested.name for nested in message.nested_type] == ["ByKeyEntry", "ByKeyValue", "Item"]
    assert message.field[0].proto3_optional
    named = protobuf_of(ConnectSchema(SchemaType.STRUCT, name="shop.v1.Order"))
    assert (named.package, named.name, named.message_type[0].name) == ("shop.v1", "Order.proto", "Order")


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (INT, "written from a struct"),
        (struct(d=t.DecimalType(10, 2)), "Decimal, for which Protobuf has no type"),
        (struct(d=t.ArrayType(t.ArrayType(INT))), "array inside another"),
        (struct(m=t.MapType(t.DoubleType(), INT)), "keys of double"),
        (struct(**{"a-b": INT}), "no field 'a-b'"),
    ],
)
def test_what_protobuf_lacks_is_named(kind: t.DataType, message: str) -> None:
    with pytest.raises(DataException, match=message):
        protobuf_of(connect(kind))
