"""Rows as tables, JSON lines and CSV."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cli.sql.results import Result, print_result
from barnabas.cli.sql.statement_errors import StatementError

ROW = (1, 'a,"b"\n', None, Decimal("1.10"), datetime(2026, 1, 31, 12, tzinfo=UTC), b"\x00\xff", {"a": [1, None]}, True)
COLUMNS = ("id", "text", "empty", "price", "at", "bytes", "nested", "good")


def printed(result: Result, output: str, rows_max: int = 10) -> str:
    out = io.StringIO()
    print_result(result, output, out, rows_max=rows_max)
    return out.getvalue()


def test_a_row_is_one_line_of_json() -> None:
    (line,) = printed(Result(COLUMNS, [ROW]), "json").splitlines()
    assert '"price":1.10' in line
    assert json.loads(line) == {
        "id": 1,
        "text": 'a,"b"\n',
        "empty": None,
        "price": 1.1,
        "at": "2026-01-31T12:00:00.000Z",
        "bytes": "AP8=",
        "nested": {"a": [1, None]},
        "good": True,
    }


def test_csv_has_a_header_and_quotes_what_needs_it() -> None:
    rows = list(csv.reader(io.StringIO(printed(Result(COLUMNS, [ROW]), "csv"))))
    assert rows[0] == list(COLUMNS)
    assert rows[1][:5] == ["1", 'a,"b"\n', "", "1.10", "2026-01-31T12:00:00.000Z"]
    assert rows[1][6:] == ['{"a":[1,null]}', "true"]


def test_a_table_is_cut_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    notes = print_result(Result(["n", "x"], [(n, None) for n in range(5)]), "table", io.StringIO(), rows_max=3)
    assert capsys.readouterr().out.split() == ["n", "x", "0", "NULL", "1", "NULL", "2", "NULL"]
    assert notes == ["only the first 3 rows are shown: SET rows, LIMIT, or --output json or csv for all of them"]
    assert print_result(Result(["n"], [(1,)]), "table", io.StringIO(), rows_max=3) == []


def test_a_plan_is_printed_unchanged_in_a_table() -> None:
    result = Result(["plan"], [("== Plan ==\n+- Scan",)], text="== Plan ==\n+- Scan")
    assert printed(result, "table") == "== Plan ==\n+- Scan\n"
    assert json.loads(printed(result, "json")) == {"plan": "== Plan ==\n+- Scan"}


def test_json_refuses_two_columns_of_one_name() -> None:
    with pytest.raises(StatementError, match="several columns are called id") as raised:
        printed(Result(["id", "id"], [(1, 2)]), "json")
    assert "AS order_id" in raised.value.advice
    assert printed(Result(["id", "id"], [(1, 2)]), "csv") == "id,id\n1,2\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (float("nan"), "null"),
        (date(2026, 1, 31), '"2026-01-31"'),
        (datetime(2026, 1, 31, 12), '"2026-01-31T12:00:00.000"'),
        (datetime(2026, 1, 31, 12, 0, 0, 1, tzinfo=UTC), '"2026-01-31T12:00:00.000001Z"'),
        (timedelta(hours=1), '"PT3600S"'),
        ({1: "a"}, '{"1":"a"}'),
        (bytearray(b"a"), '"YQ=="'),
    ],
)
def test_values_of_all_types_have_json(value: Any, text: str) -> None:
    assert printed(Result(["x"], [(value,)]), "json") == f'{{"x":{text}}}\n'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (date(2026, 1, 31), "2026-01-31"),
        (timedelta(hours=1), "PT3600S"),
        (b"a", "YQ=="),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        ([date(2026, 1, 31)], '["2026-01-31"]'),
    ],
)
def test_a_cell_has_no_quotes_around_it(value: Any, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_result(Result(["x"], [(value,)]), "table", io.StringIO(), rows_max=1)
    assert capsys.readouterr().out == f"x\n{text}\n"
    ((_,), (cell,)) = csv.reader(io.StringIO(printed(Result(["x"], [(value,)]), "csv")))
    assert cell == text


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.tuples(VALUES, VALUES), max_size=4))
def test_json_keeps_every_value(rows: list[tuple[Any, Any]]) -> None:
    lines = printed(Result(["a", "b"], rows), "json").split("\n")[:-1]
    assert [tuple(json.loads(line).values()) for line in lines] == rows


def test_a_terminal_receives_no_control_characters_of_records() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for output in ("json", "csv"):
        out = Terminal()
        print_result(Result(["x"], [("a\x9b31m\u202e",)]), output, out, rows_max=1)
        assert "\x9b" not in out.getvalue()
        assert "\u202e" not in out.getvalue()
