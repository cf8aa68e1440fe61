"""The names that a query reads are found without Spark."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cli.sql.script import parse_script, statement_of
from barnabas.cli.sql.table_names import table_names
from tests.unit.cli.sql.queries_to_read import QUERIES


@pytest.mark.parametrize(("query", "names"), QUERIES)
def test_the_names_that_a_query_reads(query: str, names: list[str]) -> None:
    statement = statement_of(query)
    found = table_names(statement.tokens)
    assert [str(name) for name in found] == names
    for name in found:
        written = query[name.start : name.start + name.length]
        assert written.replace("``", "`").replace("`", "") == str(name).replace("`", "")


@given(st.sampled_from(QUERIES), st.sampled_from(QUERIES))
def test_subqueries_add_their_names(outer: tuple[str, list[str]], inner: tuple[str, list[str]]) -> None:
    if "WITH" in outer[0] or inner[0].startswith("EXPLAIN"):
        return
    query = f"SELECT * FROM ({inner[0]}\n) first_one, ({outer[0].removeprefix('EXPLAIN ')}\n) second_one, last_one"
    wanted = list(dict.fromkeys([*inner[1], *outer[1], "last_one"]))
    assert [str(name) for name in table_names(statement_of(query).tokens)] == wanted


@given(st.text(alphabet="SELECT FROM,()`a.b\n", max_size=60))
def test_any_text_has_names_or_none(text: str) -> None:
    for statement in parse_script(text).statements:
        table_names(statement.tokens)
