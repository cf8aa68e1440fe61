"""The query of a pipeline: from one DataFrame for each input to the DataFrame of its rows.

SQL is one kind: its inputs are temporary views of the pipeline's own session. A Python function of the same signature
is the other. SQL that does anything but read is refused by name, before Spark would run it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from barnabas.connect_spark.sql.query_error_loggers import silence_query_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["InvalidQuery", "Query", "SqlQuery", "forbid_unsafe_functions", "may_use_headers", "statement_problem"]

Query = Callable[["SparkSession", Mapping[str, "DataFrame"]], "DataFrame"]
"""The inputs by name, and the result."""

_READS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")
_SPACE = re.compile(r"(\s+|--[^\n]*(\n|\Z)|/\*.*?\*/|\()", re.DOTALL)
_WORD = re.compile(r"[A-Za-z]+")
_STAR_ARGUMENT = re.compile(r"\*\s*\)")
_COUNT = re.compile(r"count\s*\(\s*\*\s*\)")
_UNSAFE = ("reflect", "try_reflect", "java_method")
"""Functions that call any method of Java, so also those that end the worker or read its secrets."""
_CODES = re.compile(r"^\[[A-Z0-9_.]+\] | SQLSTATE: .*$")
_CHANGES = re.compile(r"Insert|Merge|Update|Delete|Create|Drop|Alter|Command|Overwrite|Replace|Set[A-Z]|Script")


class InvalidQuery(ValueError):
    """The query can't be used. The message says why, and what to do."""


def statement_problem(text: str) -> str | None:
    """Return why a text is not a query, by its first word; None if it may be one. Needs no Spark."""
    position = 0
    while found := _SPACE.match(text, position):
        position = found.end()
    word = _WORD.match(text, position)
    if word is None:
        return "write a query, for example SELECT id, amount FROM orders WHERE amount > 100."
    if word[0].upper() in _READS:
        return None
    return (
        f"{word[0].upper()} is not a query: write SELECT or WITH. The settings output.topic or output.table, "
        "output.mode, output.key and output.delete.when say where rows go, and which rows they replace or delete."
    )


@dataclass(frozen=True, slots=True)
class SqlQuery:
    text: str

    def __call__(self, spark: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
        """Return the rows. The session must be the pipeline's own. Raise InvalidQuery."""
        _refuse_changes(spark, self.text)
        for name, frame in inputs.items():
            frame.createOrReplaceTempView(name)
        try:
            return spark.sql(self.text)
        except Exception as error:
            raise InvalidQuery(_reason(error)) from None


def may_use_headers(query: Query, *expressions: str) -> bool:
    """Return whether a query, or one of these expressions, may use ``_headers`` of an input, which cost time to read.

    A text that does not is known by its words: it has neither the name nor a function of all columns, ``struct(*)``.
    Columns of metadata that ``SELECT *`` returns are not written.
    """
    if not isinstance(query, SqlQuery):
        return True
    texts = [text.lower() for text in (query.text, *expressions)]
    return any("_headers" in text or _STAR_ARGUMENT.search(_COUNT.sub("", text)) for text in texts)


def forbid_unsafe_functions(spark: SparkSession) -> None:
    """Remove functions from a session whose text of SQL comes from the API."""
    silence_query_errors()
    java: Any = spark._jsparkSession
    jvm: Any = spark._jvm
    registry = java.sessionState().functionRegistry()
    for name in _UNSAFE:
        registry.dropFunction(jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name))


def _refuse_changes(spark: SparkSession, text: str) -> None:
    problem = statement_problem(text)
    if problem is not None:
        raise InvalidQuery(problem)
    java: Any = spark._jsparkSession
    try:
        plan = java.sessionState().sqlParser().parsePlan(text)
    except Exception as error:
        raise InvalidQuery(_reason(error)) from None
    for name in _node_names(plan):
        if _CHANGES.search(name):
            raise InvalidQuery(f"the query contains {name}, which does more than read: write SELECT or WITH only.")


def _node_names(plan: Any) -> list[str]:
    """Return the names of the nodes of a parsed plan, without those of subqueries in expressions, which only read."""
    names, waiting = [], [plan]
    while waiting:
        node = waiting.pop()
        names.append(str(node.nodeName()))
        children = node.children()
        waiting += [children.apply(index) for index in range(children.size())]
    return names


def _reason(error: Exception) -> str:
    """Return Spark's message without its codes, and without the plan below it."""
    text = str(error).strip()
    if "INVALID_SUBQUERY_EXPRESSION.STREAMING_QUERY" in text:
        return "a subquery in an expression can't read a topic: join it instead."
    line = (text.splitlines() or [type(error).__name__])[0]
    return _CODES.sub("", line)
