"""The columns that records add to a table, and those it lacks. Tests on Spark cover the fitting of values."""

from __future__ import annotations

import pytest

t = pytest.importorskip("pyspark.sql.types")
fitting = pytest.importorskip("barnabas.connect_spark.connectors.columns.column_fitting")

LONG, TEXT, VOID = t.LongType(), t.StringType(), t.NullType()


def struct(**fields: object) -> object:
    return t.StructType([t.StructField(name, kind) for name, kind in fields.items()])


def test_a_field_without_a_known_type_creates_no_column() -> None:
    found = struct(
        a=LONG, b=VOID, c=t.ArrayType(VOID), d=struct(e=VOID), f=struct(g=VOID, h=t.MapType(TEXT, VOID), i=TEXT)
    )
    assert fitting.known_type(found).simpleString() == "struct<a:bigint,f:struct<i:string>>"
    assert fitting.known_type(struct(a=VOID)) is None


def test_a_field_whose_type_varies_between_records_is_text() -> None:
    found = struct(a=t.VariantType(), b=t.ArrayType(t.VariantType()))
    assert fitting.known_type(found).simpleString() == "struct<a:string,b:array<string>>"


def test_new_fields_are_added_after_existing_ones_at_every_depth() -> None:
    known = struct(Id=LONG, part=struct(a=LONG), parts=t.ArrayType(struct(a=LONG)), of=t.MapType(TEXT, struct(a=LONG)))
    found = struct(
        new=TEXT,
        parts=t.ArrayType(struct(b=TEXT, a=LONG)),
        part=struct(A=TEXT, b=TEXT),
        of=t.MapType(TEXT, struct(b=TEXT)),
        id=TEXT,
    )
    merged, added = fitting.new_fields(known, found)
    assert added == ["part.b", "parts.b", "of.b", "new"]
    assert merged.simpleString() == (
        "struct<Id:bigint,part:struct<a:bigint,b:string>,parts:array<struct<a:bigint,b:string>>,"
        "of:map<string,struct<a:bigint,b:string>>,new:string>"
    )
    assert fitting.new_fields(known, struct(id=TEXT)) == (known, [])
