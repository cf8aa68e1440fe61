"""The columns of all files of a connector, and their growth. Tests on Spark cover the fitting of values."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

t = pytest.importorskip("pyspark.sql.types")
schemas = pytest.importorskip("barnabas.connect_spark.connectors.files.file_schema")

LONG, TEXT, VOID, DOUBLE, VARIANT = t.LongType(), t.StringType(), t.NullType(), t.DoubleType(), t.VariantType()


def struct(**fields: object) -> object:
    return t.StructType([t.StructField(name, kind) for name, kind in fields.items()])


def simple(kind: object) -> str:
    return kind.simpleString()  # type: ignore[attr-defined]


def test_a_type_never_changes_and_new_columns_are_appended() -> None:
    growth = schemas.grown(struct(a=LONG, b=struct(x=LONG)), struct(c=TEXT, b=struct(y=TEXT, x=TEXT), a=DOUBLE))
    assert simple(growth.columns) == "struct<a:bigint,b:struct<x:bigint,y:string>,c:string>"
    assert growth.added == ("b.y", "c")
    assert growth.clashing == ()


def test_fields_grow_inside_lists_and_maps() -> None:
    known = struct(a=t.ArrayType(struct(x=LONG)), m=t.MapType(TEXT, struct(x=LONG)))
    found = struct(a=t.ArrayType(struct(y=LONG)), m=t.MapType(TEXT, struct(y=LONG)))
    assert simple(schemas.grown(known, found).columns) == (
        "struct<a:array<struct<x:bigint,y:bigint>>,m:map<string,struct<x:bigint,y:bigint>>>"
    )


def test_names_that_differ_only_in_case_are_one_column() -> None:
    growth = schemas.grown(
        struct(id=LONG, p=struct(x=LONG)), struct(ID=TEXT, p=struct(X=LONG), new=struct(b=LONG, B=LONG))
    )
    assert simple(growth.columns) == "struct<id:bigint,p:struct<x:bigint>,new:struct<b:bigint>>"
    assert growth.clashing == ("p.X", "ID", "new.B")


def test_data_without_a_schema_has_wide_types_that_later_records_probably_fit() -> None:
    found = struct(
        i=t.IntegerType(), l=LONG, big=t.DecimalType(21, 0), d=t.DecimalType(3, 1), f=DOUBLE, b=t.BooleanType(),
        v=VARIANT, n=VOID, e=t.StructType(), es=t.ArrayType(VOID), vs=t.ArrayType(VARIANT),
        o=struct(n=VOID, x=t.DecimalType(2, 1)),
    )  # fmt: skip
    assert simple(schemas.settled(found, is_schemaless=True)) == (
        "struct<i:bigint,l:bigint,big:decimal(38,0),d:double,f:double,b:boolean,v:string,vs:array<string>,"
        "o:struct<x:double>>"
    )


def test_data_with_a_schema_keeps_its_types() -> None:
    found = struct(i=t.IntegerType(), d=t.DecimalType(3, 1), n=VOID, v=VARIANT)
    assert simple(schemas.settled(found, is_schemaless=False)) == "struct<i:int,d:decimal(3,1),v:string>"


def test_a_schema_is_stored_and_read_back() -> None:
    schema = schemas.FileSchema(struct(a=LONG, b=t.ArrayType(struct(c=TEXT))), True)
    assert schemas.FileSchema.from_json(schema.to_json()) == schema


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"version": 2}', '{"version": 1, "columns": 3, "is_object": true}']
)
def test_an_invalid_stored_schema_is_reported(text: str) -> None:
    with pytest.raises(ValueError):
        schemas.FileSchema.from_json(text)


KINDS = st.recursive(
    st.sampled_from([LONG, TEXT, DOUBLE]),
    lambda inner: (
        st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, min_size=1).map(lambda found: struct(**found))
        | inner.map(t.ArrayType)
    ),
    max_leaves=6,
)
STRUCTS = st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), KINDS).map(lambda found: struct(**found))


def leaves(kind: object, path: str = "") -> dict[str, str]:
    if isinstance(kind, t.StructType):
        return {key: text for field in kind for key, text in leaves(field.dataType, f"{path}.{field.name}").items()}
    if isinstance(kind, t.ArrayType):
        return leaves(kind.elementType, f"{path}[]")
    return {path: simple(kind)}


@given(st.lists(STRUCTS, min_size=1, max_size=5))
def test_every_column_keeps_its_type_across_all_files(batches: list[object]) -> None:
    known = t.StructType()
    for batch in batches:
        after = schemas.grown(known, batch).columns
        assert after.fieldNames()[: len(known)] == known.fieldNames()
        assert leaves(known).items() <= leaves(after).items()
        assert schemas.grown(after, batch).columns == after, "an added column is known afterwards"
        known = after


def test_the_stored_form_has_a_version() -> None:
    assert json.loads(schemas.FileSchema().to_json())["version"] == 1
