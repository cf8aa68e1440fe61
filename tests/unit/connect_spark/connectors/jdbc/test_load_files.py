from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from barnabas.connect_spark.connectors.jdbc.column_types import ColumnType, Kind
from barnabas.connect_spark.connectors.jdbc.load_files import csv_pieces, csv_to_parquet, write_untyped


@pytest.mark.parametrize(
    ("chunks", "values"),
    [
        ([[(1,)], [(None,), (2,)]], [1, None, 2]),
        ([[(1,)], [(2.5,)]], [1.0, 2.5]),
        ([[(1,), ("a",)], [(2,)]], ["1", "a", "2"]),
        ([[(1,)], [("a",)], [(b"\xff",)]], ["1", "a", "ff"]),
        ([[(b"\xff",)]], [b"\xff"]),
        ([[(None,)]], [None]),
        ([], []),
    ],
)
def test_a_column_of_any_values_has_one_type(
    tmp_path: Path, chunks: list[list[tuple[object]]], values: list[object]
) -> None:
    assert write_untyped(["c"], chunks, tmp_path / "f") == len(values)
    assert pq.read_table(tmp_path / "f").column("c").to_pylist() == values


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="more than one column c: give them names with AS"):
        write_untyped(["c", "c"], [[(1, 2)]], tmp_path / "f")


def test_text_survives_conversion_to_csv_and_back(tmp_path: Path) -> None:
    texts = ["", None, 'say "hi"', "two\nlines\r\n", "\\.", "NULL", "a,b", " "]
    pq.write_table(pa.table({"c0": ["x"] * 8, "c1": pa.array(texts)}), tmp_path / "f")
    (piece,) = [path.read_bytes() for path in csv_pieces([tmp_path / "f"], [1], tmp_path)]
    (tmp_path / "csv").write_bytes(piece)
    assert csv_to_parquet(tmp_path / "csv", {"t": ColumnType(Kind.TEXT)}, tmp_path / "g") == 8
    assert pq.read_table(tmp_path / "g").column("t").to_pylist() == texts


def test_values_copied_out_of_postgresql_have_their_types_again(tmp_path: Path) -> None:
    columns = {
        "b": ColumnType(Kind.BOOLEAN),
        "n": ColumnType(Kind.DECIMAL, 10, 2),
        "d": ColumnType(Kind.DATE),
        "t": ColumnType(Kind.TIMESTAMP),
        "r": ColumnType(Kind.BYTES),
        "f": ColumnType(Kind.FLOAT64),
    }
    (tmp_path / "csv").write_text('"t","1.50","-1","-1","00ff","Infinity"\n"f",,,,"",\n')
    assert csv_to_parquet(tmp_path / "csv", columns, tmp_path / "f") == 2
    first, second = pq.read_table(tmp_path / "f").to_pylist()
    before = datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, datetime.UTC)
    assert list(first.values()) == [True, Decimal("1.50"), before.date(), before, b"\x00\xff", float("inf")]
    assert list(second.values()) == [False, None, None, None, b"", None]
