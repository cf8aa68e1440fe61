"""A batch has the same effect on a table as its records one by one; SQLite runs the statements."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.connect_spark.connectors.jdbc.column_types import ColumnType, Kind
from barnabas.connect_spark.connectors.jdbc.database import SqliteDatabase
from barnabas.connect_spark.connectors.jdbc.database_address import parse_address
from barnabas.connect_spark.connectors.jdbc.dialects import dialect_of
from barnabas.connect_spark.connectors.jdbc.sql_dialect import DELETED, OFFSET, PARTITION

TYPES = {"id": ColumnType(Kind.INT64), "text": ColumnType(Kind.TEXT)}


@dataclass(frozen=True)
class Record:
    key: int
    text: str | None
    """None deletes."""


RECORDS = st.lists(st.builds(Record, st.integers(0, 4), st.none() | st.sampled_from("abc")), max_size=12)


class Target:
    """A table with a key, and batches written to it as by a task."""

    def __init__(self, folder: Path, keys: tuple[str, ...] = ("id",)) -> None:
        self.folder = folder
        self.database = SqliteDatabase(parse_address(f"jdbc:sqlite:{folder}/target.db"))
        self.dialect = self.database.dialect
        self.keys = keys
        self.database.execute(self.dialect.create_table(("t",), TYPES, keys))

    def write(self, records: list[Record], mode: str, *, deletes: bool) -> None:
        columns = {
            "c0": pa.array([record.key for record in records], pa.int64()),
            "c1": pa.array([record.text for record in records], pa.string()),
            "c2": pa.array([0] * len(records), pa.int32()),
            "c3": pa.array(range(len(records)), pa.int64()),
            "c4": pa.array([int(record.text is None) for record in records], pa.int32()),
        }
        pq.write_table(pa.table(columns), self.folder / "batch.parquet")
        names = list(TYPES)
        self.database.begin()
        self.database.execute(self.dialect.create_staging(("t",), names))
        self.database.load([self.folder / "batch.parquet"], [*names, PARTITION, OFFSET, DELETED], range(5))
        for statement in self.dialect.merge(("t",), names, self.keys, mode, deletes=deletes):
            self.database.execute(statement)
        self.database.execute(self.dialect.drop_staging)
        self.database.commit()

    def rows(self) -> list[tuple[int, str]]:
        return sorted(self.database.rows('SELECT id, text FROM "t"'))


def one_after_the_other(rows: dict[int, str], records: list[Record], mode: str) -> dict[int, str]:
    after = dict(rows)
    for record in records:
        if record.text is None:
            after.pop(record.key, None)
        elif mode == "upsert" or record.key in after:
            after[record.key] = record.text
    return after


@pytest.mark.parametrize("mode", ["upsert", "update"])
@given(before=st.dictionaries(st.integers(0, 4), st.sampled_from("xyz")), records=RECORDS)
def test_a_batch_has_the_effect_of_its_records_in_order(
    mode: str, before: dict[int, str], records: list[Record]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        target = Target(Path(folder))
        target.write([Record(*row) for row in before.items()], "insert", deletes=False)
        target.write(records, mode, deletes=True)
        assert dict(target.rows()) == one_after_the_other(before, records, mode)
        target.database.close()


def test_records_inserted_before_a_deletion_of_their_key_are_not_in_the_table(tmp_path: Path) -> None:
    target = Target(tmp_path)
    target.write(
        [Record(1, "a"), Record(1, None), Record(1, "b"), Record(2, "c"), Record(2, None)], "insert", deletes=True
    )
    assert target.rows() == [(1, "b")]
    target.database.close()


def test_names_with_quotes_and_capitals_are_quoted() -> None:
    sql = dialect_of("postgresql").create_table(("my schema", 'say "hi"'), {"Id": ColumnType(Kind.INT32)}, ["Id"])
    assert sql == 'CREATE TABLE "my schema"."say ""hi""" ("Id" INTEGER NOT NULL, PRIMARY KEY ("Id"))'


@pytest.mark.parametrize("name", ["sqlite", "duckdb", "postgresql"])
def test_every_type_has_a_name_in_every_dialect(name: str) -> None:
    dialect = dialect_of(name)
    assert all(dialect.column_type(ColumnType(kind, 10, 2)) for kind in Kind)


@pytest.mark.parametrize(
    ("written", "micros"),
    [
        ("'1970-01-01 00:00:01'", 1_000_000),
        ("'2020-02-29T12:34:56.789'", 1_582_979_696_789_000),
        ("1582979696789", 1_582_979_696_789_000),
        ("'1969-12-31 23:59:59.250'", -750_000),
        ("NULL", None),
    ],
)
def test_times_in_sqlite_are_text_or_milliseconds(tmp_path: Path, written: str, micros: int | None) -> None:
    database = SqliteDatabase(parse_address(f"jdbc:sqlite:{tmp_path}/target.db"))
    sql = f"SELECT {database.dialect.micros('at')} FROM (SELECT {written} AS at)"
    assert database.rows(sql) == [(micros,)]
    database.close()
