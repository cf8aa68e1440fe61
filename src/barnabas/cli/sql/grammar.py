"""Parse the shell's own statements. Every other one is for Spark's parser, if the shell may run it.

The grammar, where [ ] is optional, and a name is a word, or any text in backticks:

    SHOW TOPICS | PIPELINES | VIEWS [LIKE 'pattern']
    DESCRIBE [TOPIC | PIPELINE | VIEW] name
    CREATE [OR REPLACE] TEMPORARY VIEW name USING topic | table [OPTIONS (key 'value', ...)]
    DROP VIEW [IF EXISTS] name
    CREATE [OR REPLACE] PIPELINE [IF NOT EXISTS] name [WITH (key = 'value', ...)] AS query
    ALTER PIPELINE name SET (key = 'value', ...) | RESET (key, ...) | AS query | PAUSE | RESUME | STOP | RESTART
    DROP PIPELINE [IF EXISTS] name
    SET [key [= value]]
    RESET [key]
    HELP | EXIT | QUIT
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.cli.sql.cursor import Cursor
from barnabas.cli.sql.script import Statement
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
    OwnStatement,
    PipelineAction,
    Reset,
    SetSetting,
    Show,
    Shown,
    SparkStatement,
)
from barnabas.cli.sql.table_names import table_names
from barnabas.cli.sql.tokens import Kind

__all__ = ["FORMS", "parse_statement"]

FORMS = {
    "SHOW": "SHOW TOPICS, SHOW PIPELINES or SHOW VIEWS, optionally with LIKE 'pattern'",
    "DESCRIBE": "DESCRIBE [TOPIC | PIPELINE | VIEW] name",
    "CREATE VIEW": "CREATE TEMPORARY VIEW name USING topic OPTIONS (topic 'orders', format 'json', schema 'id BIGINT')",
    "CREATE PIPELINE": "CREATE PIPELINE name WITH (output.topic = 'large-orders') AS SELECT ...",
    "ALTER PIPELINE": "ALTER PIPELINE name SET (key = 'value') or RESET (key), AS query, PAUSE, RESUME, STOP, RESTART",
    "DROP": "DROP PIPELINE [IF EXISTS] name, or DROP VIEW [IF EXISTS] name",
    "SET": "SET, SET key, or SET key = value",
}
"""How the statements are written, for error messages."""

_ALLOWED = frozenset(
    {
        "SELECT",
        "WITH",
        "FROM",
        "VALUES",
        "TABLE",
        "MAP",
        "REDUCE",
        "EXPLAIN",
        "SHOW",
        "DESCRIBE",
        "DESC",
        "DROP",
        "CREATE",
    }
)
_CHANGES = {
    "INSERT": "write rows with a pipeline: CREATE PIPELINE name WITH (output.topic = ...) AS SELECT ...",
    "MERGE": "a pipeline merges its rows into a table: CREATE PIPELINE name WITH (output.table = ..., "
    "output.mode = 'upsert', output.key = ...) AS SELECT ...",
}
_READS = "the shell reads topics and tables, and manages pipelines; HELP shows its statements"
_QUERY = "a query: SELECT ..., or WITH ... SELECT ..."


def parse_statement(statement: Statement) -> OwnStatement | SparkStatement:
    """Raise StatementError for a statement of the shell that is written wrong, or one that it does not run."""
    cursor = Cursor(statement)
    word = statement.tokens[0].keyword
    match word:
        case "SHOW" if (found := _show(cursor)) is not None:
            return found
        case "DESCRIBE" | "DESC" if (described := _describe(cursor)) is not None:
            return described
        case "CREATE" if (created := _create(cursor)) is not None:
            return created
        case "ALTER" if cursor.take("ALTER", "PIPELINE"):
            return _alter_pipeline(cursor)
        case "DROP" if (dropped := _drop(cursor)) is not None:
            return dropped
        case "SET" | "RESET":
            return _setting(cursor, statement)
        case "HELP" | "EXIT" | "QUIT":
            cursor.take(word)
            cursor.end()
            return Help() if word == "HELP" else Exit()
        case _:
            return _for_spark(statement)


def _show(cursor: Cursor) -> Show | None:
    cursor.form = FORMS["SHOW"]
    cursor.take("SHOW")
    for shown in Shown:
        if cursor.take(shown.name):
            pattern = None
            if cursor.take("LIKE") or (cursor.token is not None and cursor.token.kind is Kind.STRING):
                pattern = cursor.value("LIKE")
            cursor.end()
            return Show(shown, pattern)
    return None


def _describe(cursor: Cursor) -> Describe | None:
    """Return None for Spark's: DESCRIBE FUNCTION, QUERY, TABLE, and that of a query."""
    cursor.form = FORMS["DESCRIBE"]
    cursor.take("DESCRIBE") or cursor.take("DESC")
    if any(cursor.is_at(word) for word in ("FUNCTION", "QUERY", "TABLE", "SELECT", "WITH", "FROM", "EXTENDED")):
        return None
    kind = next((shown for shown in Shown if cursor.take(shown.value.upper())), None)
    name = cursor.name("a name")
    cursor.end()
    return Describe(name, kind)


def _create(cursor: Cursor) -> CreateInputView | CreatePipeline | None:
    cursor.take("CREATE")
    replaces = cursor.take("OR", "REPLACE")
    if cursor.take("PIPELINE"):
        return _create_pipeline(cursor, replaces=replaces)
    if not (cursor.take("TEMPORARY", "VIEW") or cursor.take("TEMP", "VIEW")):
        return None
    cursor.form = FORMS["CREATE VIEW"]
    name = cursor.name("the name of the view")
    is_table = cursor.take("USING", "TABLE")
    if not is_table and not cursor.take("USING", "TOPIC"):
        return None  # Spark's own: AS SELECT, or USING another source.
    options = _settings(cursor) if cursor.take("OPTIONS") else {}
    cursor.end()
    return CreateInputView(name, options, is_table, replaces)


def _create_pipeline(cursor: Cursor, *, replaces: bool) -> CreatePipeline:
    cursor.form = FORMS["CREATE PIPELINE"]
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    name = cursor.name("the name of the pipeline")
    options = _settings(cursor) if cursor.take("WITH") else {}
    cursor.expect("AS")
    return CreatePipeline(name, cursor.rest(_QUERY), options, if_not_exists, replaces)


def _alter_pipeline(cursor: Cursor) -> AlterPipeline:
    cursor.form = FORMS["ALTER PIPELINE"]
    name = cursor.name("the name of the pipeline")
    if cursor.take("AS"):
        return AlterPipeline(name, query=cursor.rest(_QUERY))
    if cursor.take("SET"):
        changed = AlterPipeline(name, _settings(cursor))
    elif cursor.take("RESET"):
        changed = AlterPipeline(name, dict.fromkeys(_keys(cursor)))
    else:
        action = next((action for action in PipelineAction if cursor.take(action.name)), None)
        if action is None:
            cursor.fail("SET, RESET, AS, PAUSE, RESUME, STOP or RESTART")
        changed = AlterPipeline(name, action=action)
    cursor.end()
    return changed


def _drop(cursor: Cursor) -> DropPipeline | DropView | None:
    cursor.form = FORMS["DROP"]
    cursor.take("DROP")
    what = next((word for word in ("PIPELINE", "VIEW") if cursor.take(word)), None)
    if what is None:
        return None
    if_exists = cursor.take("IF", "EXISTS")
    name = cursor.name(f"the name of the {what.lower()}")
    cursor.end()
    return DropPipeline(name, if_exists) if what == "PIPELINE" else DropView(name, if_exists)


def _setting(cursor: Cursor, statement: Statement) -> SetSetting | Reset:
    """Parse SET and RESET. As in Spark, the value of SET is everything behind the sign; quotes are optional."""
    cursor.form = FORMS["SET"]
    is_reset = cursor.take("RESET") or not cursor.take("SET")
    if cursor.token is None:
        return Reset() if is_reset else SetSetting()
    key = cursor.key()
    if is_reset or cursor.token is None:
        cursor.end()
        return Reset(key) if is_reset else SetSetting(key)
    cursor.expect("=")
    if cursor.token is not None and cursor.token.kind is Kind.STRING:
        value = cursor.value(key)
        cursor.end()
    else:
        value = cursor.rest(f"the value of {key}")
    return SetSetting(key, value)


def _settings(cursor: Cursor) -> Mapping[str, str]:
    found: dict[str, str] = {}
    cursor.expect("(")
    while not cursor.take(")"):
        token = cursor.token
        key = cursor.key()
        if key in found and token is not None:
            raise StatementError(f"{key} is set twice", start=token.start, length=len(token.text))
        cursor.take("=")
        found[key] = cursor.value(key)
        if not cursor.is_at(")"):
            cursor.expect(",")
    return found


def _keys(cursor: Cursor) -> list[str]:
    cursor.expect("(")
    keys = [cursor.key()]
    while cursor.take(","):
        keys.append(cursor.key())
    cursor.expect(")")
    return keys


def _for_spark(statement: Statement) -> SparkStatement:
    first = statement.tokens[0]
    if first.text != "(" and first.keyword not in _ALLOWED:
        kind = "is not a statement of the shell" if first.kind is Kind.WORD else "is not the start of a statement"
        raise StatementError(
            f"{first.text[:60]} {kind}", start=0, length=len(first.text), advice=_CHANGES.get(first.keyword, _READS)
        )
    for token, following in zip(statement.tokens, statement.tokens[1:], strict=False):
        if token.keyword == "INSERT" and following.keyword in ("INTO", "OVERWRITE"):
            raise StatementError("the shell inserts no rows", start=token.start, length=6, advice=_CHANGES["INSERT"])
    if first.keyword in ("CREATE", "DROP") and not _is_temporary(statement):
        raise StatementError(
            f"the shell can only {first.keyword.lower()} pipelines, temporary views and temporary functions",
            start=0,
            length=len(first.text),
            advice=FORMS["CREATE PIPELINE"] if first.keyword == "CREATE" else FORMS["DROP"],
        )
    return SparkStatement(statement.text, tuple(table_names(statement.tokens)), first.keyword == "EXPLAIN")


def _is_temporary(statement: Statement) -> bool:
    words = [token.keyword for token in statement.tokens[1:4] if token.keyword not in ("OR", "REPLACE", "GLOBAL")]
    return bool(words) and words[0] in ("TEMPORARY", "TEMP")
