"""Texts that are queries, those that would change something, and those that use headers."""

from __future__ import annotations

import pytest

from barnabas.connect_spark.sql.query import SqlQuery, may_use_headers, statement_problem


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


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM orders",
        "SELECT count(*), COUNT( * ) FROM orders GROUP BY id",
        "SELECT o.* FROM (SELECT id, price * (1 + tax) AS gross FROM orders) o",
    ],
)
def test_headers_are_not_read_for_a_query_without_them(text: str) -> None:
    assert not may_use_headers(SqlQuery(text), "at", "id")


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("SELECT _headers FROM orders", ""),
        ("SELECT `_HEADERS`[0].value AS trace FROM orders", ""),
        ("SELECT to_json(struct(*)) AS all FROM orders", ""),
        ("SELECT hash(o.* ) AS hash FROM orders o", ""),
        ("SELECT id FROM orders", "to_timestamp(_headers[0].value)"),
    ],
)
def test_headers_are_read_for_a_query_that_may_use_them(text: str, expression: str) -> None:
    assert may_use_headers(SqlQuery(text), expression)


def test_a_function_may_use_headers() -> None:
    assert may_use_headers(lambda spark, inputs: inputs["orders"])
