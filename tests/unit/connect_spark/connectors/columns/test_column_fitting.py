"""Which columns a table gets from records, and which it lacks. How values fit is tested on Spark."""

from __future__ import annotations

import pytest

t = pytest.importorskip("pyspark.sql.types")
fitting = pytest.importorskip("barnabas.connect_spark.connectors.columns.column_fitting")

LONG, TEXT, VOID = t.LongType(), t.StringType(), t.NullType()


def struct(**fields: object) -> object:
    return t.StructType([t.StructField(name, kind) for name, kind in fields.items()])


def test_what_no_record_says_the_type_of_makes_no_column() -> None:
    found = struct(
        a=LONG, b=VOID, c=t.ArrayType(VOID), d=struct(e=VOID), f=struct(g=VOID, h=t.MapType(TEXT, VOID), i=TEXT)
    )
    assert fitting.known_type(found).simpleString() == "struct<a:bigint,f:struct<i:string>>"
    assert fitting.known_type(struct(a=VOID)) is None


def test_what_has_a_type_of_its_own_in_each_record_is_text() -> None:
    found = struct(a=t.VariantType(), b=t.ArrayType(t.VariantType()))
    assert fitting.known_type(found).simpleString() == "struct<a:string,b:array<string>>"


def test_new_fields_come_behind_those_that_are_there_however_deep() -> None:
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
