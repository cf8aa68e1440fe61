"""Every row of a table is read once, whatever the size of batches and however times repeat; SQLite runs the queries."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.connect.plugins.api import TerminalError
from barnabas.connect.plugins.testing import ConnectorKit
from barnabas.connect_spark.connectors.jdbc.column_types import ColumnType, Kind, TableColumn
from barnabas.connect_spark.connectors.jdbc.database import SqliteDatabase
from barnabas.connect_spark.connectors.jdbc.database_address import parse_address
from barnabas.connect_spark.connectors.jdbc.dialects import dialect_of
from barnabas.connect_spark.connectors.jdbc.jdbc_source import JdbcSource, check_columns
from barnabas.connect_spark.connectors.jdbc.source_reading import Position, Reading, partition_of

SQLITE = dialect_of("sqlite")
MODES = ("incrementing", "timestamp", "timestamp+incrementing")


def reading(mode: str) -> Reading:
    return Reading.of(SQLITE, ("t",), "", mode, "id", ("at",))


def batch(
    database: SqliteDatabase, mode: str, position: Position, until_ms: int, size: int
) -> tuple[list[int], Position]:
    """Return the rows that a task reads next, and its position after them."""
    queries = reading(mode)
    ends = database.rows(queries.end(position, until_ms * 1000, size)) or database.rows(
        queries.last(position, until_ms * 1000)
    )
    if not ends:
        return [], position
    end = Position(*ends[0])
    assert Position.of(end.offset()) == end
    return [row[0] for row in database.rows(queries.rows(position, end))], end


@pytest.mark.parametrize("mode", MODES)
@given(
    rounds=st.lists(st.lists(st.integers(0, 3), max_size=6), max_size=5),
    size=st.integers(1, 4),
)
def test_every_row_is_read_once_and_in_order(mode: str, rounds: list[list[int]], size: int) -> None:
    """Each round adds rows with times of that round, many of them equal, and then reads all eligible rows."""
    with tempfile.TemporaryDirectory() as folder:
        database = SqliteDatabase(parse_address(f"jdbc:sqlite:{folder}/source.db"))
        database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, at INTEGER NOT NULL)")
        position, seen, number = Position(), [], 0
        for at, times in enumerate([*rounds, []]):
            for time in times:
                number += 1
                database.execute("INSERT INTO t VALUES (?, ?)", (number, at * 4 + time))
            while True:
                found, position = batch(database, mode, position, (at + 1) * 4, size)
                if not found:
                    break
                seen += found
        database.close()
    assert sorted(seen) == list(range(1, number + 1))


def test_rows_with_the_current_time_are_read_later(tmp_path: Path) -> None:
    database = SqliteDatabase(parse_address(f"jdbc:sqlite:{tmp_path}/source.db"))
    database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, at INTEGER NOT NULL)")
    database.execute("INSERT INTO t VALUES (1, 10)")
    assert batch(database, "timestamp", Position(), 10, 5)[0] == []
    database.execute("INSERT INTO t VALUES (2, 10)")
    assert batch(database, "timestamp", Position(), 11, 1)[0] == [1, 2]
    database.close()


@pytest.mark.parametrize(
    ("offset", "position"),
    [
        (None, Position()),
        ({"incrementing": 5}, Position(5)),
        ({"timestamp": 1500}, Position(None, 1_500_000)),
        ({"timestamp": 1500, "timestamp_nanos": 500_123_000}, Position(None, 1_500_123)),
        ({"timestamp": 1500, "timestamp_nanos": 500_123_000, "incrementing": 2}, Position(2, 1_500_123)),
    ],
)
def test_offsets_are_those_of_confluents_connector(offset: dict[str, int] | None, position: Position) -> None:
    assert Position.of(offset) == position
    assert Position.of(position.offset()) == position


def test_an_offset_of_another_form_is_refused() -> None:
    with pytest.raises(ValueError, match="incrementing must be a whole number, not '5'"):
        JdbcSource.alter_offsets(settings(), [(partition_of("t"), {"incrementing": "5"})])
    with pytest.raises(ValueError, match="is not a partition of this connector"):
        JdbcSource.alter_offsets(settings(), [(partition_of("other"), {"incrementing": 5})])
    assert JdbcSource.alter_offsets(settings(), [(partition_of("t"), None)])


def settings(**changed: str) -> dict[str, str]:
    config = {
        "connection.url": "jdbc:sqlite:/tmp/x.db",
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "table.whitelist": "t",
        "topic.prefix": "p-",
    }
    return {**config, **{name.replace("_", "."): value for name, value in changed.items()}}


@pytest.mark.parametrize(
    ("changed", "setting", "text"),
    [
        ({"connection_url": "jdbc:oracle:thin:@h"}, "connection.url", "is not a usable database URL"),
        ({"connection_url": "jdbc:sqlite::memory:"}, "connection.url", "in memory"),
        ({"connection_url": "jdbc:sqlite:x.db"}, "connection.url", "not an absolute path"),
        ({"connection_url": "jdbc:postgresql://h/d?user=a&password=secret"}, "connection.url", "credentials"),
        ({"connection_url": "jdbc:postgresql://a:secret@h/d"}, "connection.url", "credentials"),
        ({"mode": "timestamp"}, "timestamp.column.name", "needs the name"),
        ({"query": "SELECT 1"}, "table.whitelist", "either table.whitelist, or query"),
        ({"db_timezone": "Europe/Paris"}, "db.timezone", "is not supported"),
    ],
)
def test_errors_are_reported_by_setting(changed: dict[str, str], setting: str, text: str) -> None:
    errors = ConnectorKit(JdbcSource, settings(**changed)).errors
    assert text in " ".join(errors[setting])
    assert "secret" not in str(errors)


def test_valid_settings_have_no_errors_and_tables_are_distributed() -> None:
    kit = ConnectorKit(JdbcSource, settings(table_whitelist="a,b,c"))
    assert kit.errors == {}
    assert [config["tables"] for config in kit.task_configs(2)] == ["a,c", "b"]


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (TableColumn("other", "int", False, ColumnType(Kind.INT64)), "has no column id .incrementing.column.name."),
        (TableColumn("id", "text", False, ColumnType(Kind.TEXT)), "is text, but incrementing.column.name needs whole"),
        (TableColumn("id", "int", True, ColumnType(Kind.INT64)), "may be null.*validate.non.null=false"),
    ],
)
def test_a_table_that_does_not_fit_the_mode_is_reported(column: TableColumn, text: str) -> None:
    with pytest.raises(TerminalError, match=text):
        check_columns("t", {column.name: column}, reading("incrementing"), must_be_set=True)
