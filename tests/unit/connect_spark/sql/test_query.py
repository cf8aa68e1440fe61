"""Texts that are queries, and those that would change something."""

from __future__ import annotations

import pytest

from barnabas.connect_spark.sql.query import statement_problem


@pytest.mark.parametrize(
    "text",
    [
        "select 1",
        "-- why\n  SELECT 1",
        "/* a\nb */ WITH a AS (SELECT 1) SELECT * FROM a",
        "(SELECT 1)",
        "FROM a SELECT b",
    ],
)
def test_a_query_reads(text: str) -> None:
    assert statement_problem(text) is None


@pytest.mark.parametrize(
    ("text", "word"), [("insert into a values (1)", "INSERT"), ("-- x\nDROP TABLE a", "DROP"), ("set a=b", "SET")]
)
def test_another_statement_is_refused_by_its_name(text: str, word: str) -> None:
    problem = statement_problem(text)
    assert problem is not None
    assert problem.startswith(f"{word} is not a query")


@pytest.mark.parametrize("text", ["", "  -- nothing", "12"])
def test_no_statement_is_refused(text: str) -> None:
    assert statement_problem(text) is not None
