"""The shell's own statements, and the messages for those that are written wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cli.sql.grammar import parse_statement
from barnabas.cli.sql.script import statement_of
from barnabas.cli.sql.statement_errors import StatementError
from barnabas.cli.sql.statements import (
    AlterPipeline,
    CreateInputView,
    CreatePipeline,
    Describe,
    DropPipeline,
    DropView,
    Exit,
    Help,
    PipelineAction,
    Reset,
    SetSetting,
    Show,
    Shown,
    SparkStatement,
)


def parsed(text: str) -> object:
    return parse_statement(statement_of(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("show topics", Show(Shown.TOPICS)),
        ("SHOW PIPELINES LIKE 'or*'", Show(Shown.PIPELINES, "or*")),
        ("SHOW VIEWS 'a'", Show(Shown.VIEWS, "a")),
        ("DESCRIBE orders", Describe("orders")),
        ("desc topic pay.orders-v2", Describe("pay.orders-v2", Shown.TOPICS)),
        ("DESCRIBE PIPELINE `a b`", Describe("a b", Shown.PIPELINES)),
        (
            "CREATE TEMP VIEW v USING topic OPTIONS (topic 'o', format = 'json', event.time 't', x true, y -3)",
            CreateInputView("v", {"topic": "o", "format": "json", "event.time": "t", "x": "true", "y": "-3"}),
        ),
        ("CREATE OR REPLACE TEMPORARY VIEW v USING TOPIC", CreateInputView("v", {}, replaces=True)),
        (
            "CREATE TEMPORARY VIEW c USING table OPTIONS (table 'delta:/c')",
            CreateInputView("c", {"table": "delta:/c"}, is_table=True),
        ),
        ("DROP VIEW IF EXISTS v", DropView("v", if_exists=True)),
        (
            "CREATE PIPELINE p WITH (output.topic = 'large', 'output.mode' 'append') AS SELECT *\nFROM orders -- all",
            CreatePipeline("p", "SELECT *\nFROM orders -- all", {"output.topic": "large", "output.mode": "append"}),
        ),
        ("CREATE OR REPLACE PIPELINE p AS SELECT 1", CreatePipeline("p", "SELECT 1", replaces=True)),
        ("CREATE PIPELINE IF NOT EXISTS p AS SELECT 1", CreatePipeline("p", "SELECT 1", if_not_exists=True)),
        ("ALTER PIPELINE p SET (a.b = 1)", AlterPipeline("p", {"a.b": "1"})),
        ("ALTER PIPELINE p RESET (a.b, 'c')", AlterPipeline("p", {"a.b": None, "c": None})),
        ("ALTER PIPELINE p AS SELECT 2", AlterPipeline("p", query="SELECT 2")),
        ("alter pipeline p pause", AlterPipeline("p", action=PipelineAction.PAUSE)),
        ("DROP PIPELINE IF EXISTS p-1", DropPipeline("p-1", if_exists=True)),
        ("SET", SetSetting()),
        ("SET start", SetSetting("start")),
        ("SET start = -1h", SetSetting("start", "-1h")),
        ("SET spark.sql.x = 'a b'", SetSetting("spark.sql.x", "a b")),
        ("SET end = 0:42, 1:17", SetSetting("end", "0:42, 1:17")),
        ("RESET", Reset()),
        ("RESET start", Reset("start")),
        ("help", Help()),
        ("QUIT", Exit()),
    ],
)
def test_a_statement_of_the_shell(text: str, expected: object) -> None:
    assert parsed(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "(SELECT 1)",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "FROM orders SELECT id",
        "VALUES (1)",
        "EXPLAIN EXTENDED SELECT 1",
        "SHOW FUNCTIONS LIKE 'to_*'",
        "DESCRIBE FUNCTION upper",
        "DESCRIBE QUERY SELECT 1",
        "CREATE TEMPORARY VIEW v AS SELECT 1",
        "CREATE OR REPLACE TEMP VIEW v USING parquet OPTIONS (path '/x')",
        "DROP TEMPORARY FUNCTION f",
    ],
)
def test_other_statements_are_for_spark(text: str) -> None:
    found = parsed(text)
    assert isinstance(found, SparkStatement)
    assert found.text == text
    assert found.explains == text.startswith("EXPLAIN")


@pytest.mark.parametrize(
    ("text", "message", "marked", "advice"),
    [
        ("DESCRIBE", "the statement ends where a name is expected", "", "DESCRIBE [TOPIC"),
        ("SHOW TOPICS orders", "the end of the statement is expected, not orders", "orders", "LIKE"),
        ("CREATE PIPELINE p", "the statement ends where AS is expected", "", "CREATE PIPELINE name WITH"),
        ("CREATE PIPELINE p AS", "the statement ends where a query", "", "CREATE PIPELINE name WITH"),
        ("CREATE PIPELINE p WITH (a b) AS SELECT 1", "the value of a: a string", "b", "a = 'b'"),
        ("CREATE PIPELINE p WITH (a = 1 b = 2) AS SELECT 1", ", is expected, not b", "b", "CREATE PIPELINE"),
        ("CREATE PIPELINE p WITH (a = 1, a = 2) AS SELECT 1", "a is set twice", "a", ""),
        ("ALTER PIPELINE p", "ends where SET, RESET, AS", "", "ALTER PIPELINE name SET"),
        ("INSERT INTO t VALUES (1)", "INSERT is not a statement of the shell", "INSERT", "CREATE PIPELINE"),
        ("MERGE INTO t", "MERGE is not a statement of the shell", "MERGE", "output.mode = 'upsert'"),
        ("WITH a AS (SELECT 1) INSERT INTO t SELECT 1", "the shell inserts no rows", "INSERT", "CREATE PIPELINE"),
        ("CREATE TABLE t (a INT)", "can only create pipelines, temporary views", "CREATE", "CREATE PIPELINE"),
        ("DROP TABLE t", "can only drop pipelines", "DROP", "DROP PIPELINE"),
        ("UPDATE t SET a = 1", "UPDATE is not a statement of the shell", "UPDATE", "HELP"),
        ("42", "42 is not the start of a statement", "42", "HELP"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, message: str, marked: str, advice: str) -> None:
    with pytest.raises(StatementError) as raised:
        parsed(text)
    error = raised.value
    assert message in error.text
    assert error.start is not None
    assert text[error.start : error.start + error.length] == marked
    assert advice in error.advice


def test_a_place_is_shown_below_its_line() -> None:
    text = "CREATE PIPELINE p\nWITH (output.topic = large)\nAS SELECT 1"
    with pytest.raises(StatementError) as raised:
        parsed(text)
    assert raised.value.lines(text) == [
        "the value of output.topic: a string, a number, true or false is expected, not large",
        "  line 2: WITH (output.topic = large)",
        "                               ^^^^^",
        "  next: write it in quotes: output.topic = 'large'",
    ]


def test_a_long_line_is_cut_around_the_place() -> None:
    text = f"SELECT {'x, ' * 100}foo"
    lines = StatementError("wrong", start=text.index("foo"), length=3).lines(text)
    assert lines[1].startswith("  ... x, ")
    assert lines[1].endswith("foo")
    assert lines[2].rstrip("^") == " " * lines[1].index("foo")


KEYS = st.from_regex(r"[a-z]+(\.[a-z]+){0,2}", fullmatch=True).filter(lambda key: key not in ("true", "false"))
VALUES = st.text(st.characters(codec="utf-8", exclude_characters="\\\x00"), max_size=20)


@given(st.dictionaries(KEYS, VALUES, max_size=5))
def test_any_settings_are_read_as_written(settings: dict[str, str]) -> None:
    written = ", ".join(f"{key} = '{value.replace(chr(39), chr(39) * 2)}'" for key, value in settings.items())
    assert parsed(f"CREATE PIPELINE p WITH ({written}) AS SELECT 1") == CreatePipeline("p", "SELECT 1", settings)


WORDS = st.sampled_from(
    [
        *("SHOW", "TOPICS", "CREATE", "PIPELINE", "ALTER", "DROP", "SET", "RESET", "WITH", "AS", "(", ")", "=", ","),
        *("a", "'b'", "1", "LIKE", "VIEW", "TEMPORARY", "USING", "topic", "OPTIONS", "DESCRIBE", "IF", "EXISTS"),
        *("SELECT", "`", ".", "-"),
    ]
)


@given(st.lists(WORDS, min_size=1, max_size=12).map(" ".join))
def test_any_words_are_a_statement_or_a_mistake_with_a_place(text: str) -> None:
    try:
        statement = statement_of(text)
    except ValueError:
        return
    try:
        parse_statement(statement)
    except StatementError as error:
        assert error.start is None or 0 <= error.start <= len(statement.text)
        assert error.lines(statement.text)
