"""Positions and tables of the JDBC sink, on SQLite, and the errors of its settings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.connect.plugins.api import OffsetRange, SinkBatch, TerminalError, TopicPartition
from barnabas.connect.plugins.testing import ConnectorKit
from barnabas.connect_spark.connectors.jdbc.column_types import ColumnType, Kind
from barnabas.connect_spark.connectors.jdbc.database import DatabaseError, SqliteDatabase
from barnabas.connect_spark.connectors.jdbc.database_address import parse_address
from barnabas.connect_spark.connectors.jdbc.jdbc_settings import connect
from barnabas.connect_spark.connectors.jdbc.jdbc_sink import JdbcSink
from barnabas.connect_spark.connectors.jdbc.position_table import Positions
from barnabas.connect_spark.connectors.jdbc.target_tables import TableRules, target_table

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
TEXT, NUMBER = ColumnType(Kind.TEXT), ColumnType(Kind.INT64)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    database = SqliteDatabase(parse_address(f"jdbc:sqlite:{tmp_path}/target.db"))
    yield database
    database.close()


@pytest.fixture
def positions(database: SqliteDatabase) -> Positions:
    positions = Positions("c", 0, "noted")
    positions.prepare(database)
    positions.prepare(database)
    return positions


def batch(number: int, start: int, end: int) -> SinkBatch:
    return SinkBatch(number, {P0: OffsetRange(start, end)})


def test_a_batch_whose_response_was_lost_counts_as_written(database: SqliteDatabase, positions: Positions) -> None:
    assert not positions.is_done(database, batch(7, 0, 5))
    positions.write(database, batch(7, 0, 5))
    assert positions.is_done(database, batch(7, 0, 5))
    assert not positions.is_done(database, batch(8, 5, 6))
    assert positions.read(database) == {P0: 5}


def test_a_batch_that_another_task_has_written_is_refused(database: SqliteDatabase, positions: Positions) -> None:
    positions.write(database, batch(7, 0, 5))
    with pytest.raises(TerminalError, match="all offsets before 5 already: another task writes the same partition"):
        positions.is_done(database, batch(8, 0, 5))


def test_connectors_that_share_a_table_have_separate_positions(database: SqliteDatabase, positions: Positions) -> None:
    positions.write(database, batch(7, 0, 5))
    assert Positions("other", 0, "noted").read(database) == {}


def test_positions_are_set_and_deleted_manually(tmp_path: Path) -> None:
    url = f"jdbc:sqlite:{tmp_path}/target.db"
    config = {"name": "c", "topics": "t", "connection.url": url}
    assert JdbcSink.alter_offsets(config, {P0: 7, P1: 9})
    assert JdbcSink.alter_offsets(config, {P0: None, P1: 3})
    database = SqliteDatabase(parse_address(url))
    assert Positions("c", 0, "barnabas_connect_positions").read(database) == {P1: 3}
    database.close()


def test_a_rolled_back_batch_leaves_nothing(database: SqliteDatabase, positions: Positions) -> None:
    database.begin()
    TableRules(True, False, ("id",)).prepare(database, ("t",), {"id": NUMBER}, {"id"}, is_alone=True)
    positions.write(database, batch(7, 0, 5))
    database.rollback()
    assert database.columns(("t",)) == []
    assert positions.read(database) == {}


def test_a_missing_table_is_created_or_reported(database: SqliteDatabase) -> None:
    types = {"id": NUMBER, "name": TEXT, "note": TEXT}
    with pytest.raises(TerminalError, match=r'table "t" does not exist\. Create it, or set auto\.create=true'):
        TableRules(False, False, ("id",)).prepare(database, ("t",), types, {"id"}, is_alone=True)
    made = TableRules(True, False, ("id",)).prepare(database, ("t",), types, {"id", "name"}, is_alone=False)
    assert made == (["id", "name"], True)
    assert [column.name for column in database.columns(("t",))] == ["id", "name"]


def test_a_missing_column_is_added_or_reported(database: SqliteDatabase) -> None:
    database.execute('CREATE TABLE t (id INTEGER PRIMARY KEY, "Name" TEXT)')
    types = {"id": NUMBER, "Name": TEXT, "note": TEXT, "empty": TEXT}
    strict, evolving = (TableRules(False, evolves, ("id",)) for evolves in (False, True))
    with pytest.raises(TerminalError, match="has no column note .it has Name, id.*auto.evolve=true"):
        strict.prepare(database, ("t",), types, {"id", "note"}, is_alone=True)
    assert strict.prepare(database, ("t",), types, {"id"}, is_alone=True) == (["id", "Name"], False)
    evolved = evolving.prepare(database, ("t",), types, {"id", "note"}, is_alone=True)
    assert evolved == (["id", "Name", "note"], True)


def test_a_locked_database_is_retriable_and_an_invalid_statement_is_not(tmp_path: Path) -> None:
    address = parse_address(f"jdbc:sqlite:{tmp_path}/target.db")
    first, second = SqliteDatabase(address), SqliteDatabase(address)
    second.execute("PRAGMA busy_timeout = 0")
    first.begin()
    with pytest.raises(DatabaseError) as locked:
        second.begin()
    with pytest.raises(DatabaseError) as wrong:
        first.execute("SELECT nothing FROM nowhere")
    assert (locked.value.is_transient, wrong.value.is_transient) == (True, False)
    first.close()
    second.close()


@pytest.mark.parametrize(
    ("form", "topic", "table"),
    [
        ("${topic}", "a.b", ("a.b",)),
        ("archive.${topic}", "a.b", ("archive", "a.b")),
        ("kafka_${topic}_v1", "t", ("kafka_t_v1",)),
    ],
)
def test_a_topic_is_mapped_to_its_table(form: str, topic: str, table: tuple[str, ...]) -> None:
    assert target_table(form, topic) == table


@pytest.mark.parametrize(
    ("settings", "setting", "text"),
    [
        ({"insert.mode": "upsert"}, "pk.mode", "needs a key"),
        ({"delete.enabled": "true"}, "delete.enabled", "set pk.mode=record_key"),
        ({"pk.mode": "kafka", "pk.fields": "a"}, "pk.fields", "three names"),
        ({"pk.fields": "a"}, "pk.fields", "does not use a key"),
        ({"dialect.name": "OracleDatabaseDialect"}, "dialect.name", "is not supported"),
        ({"insert.mode": "replace"}, "insert.mode", "insert, upsert, update"),
    ],
)
def test_errors_are_reported_by_setting(settings: dict[str, str], setting: str, text: str) -> None:
    kit = ConnectorKit(JdbcSink, {"connection.url": "jdbc:sqlite:/tmp/x.db", **settings})
    assert text in " ".join(kit.errors[setting])


def test_settings_of_confluents_connector_are_accepted() -> None:
    config = {
        "connection.url": "jdbc:postgresql://db:5432/orders",
        "connection.user": "kafka",
        "connection.password": "secret",
        "table.name.format": "kafka_${topic}",
        "insert.mode": "upsert",
        "pk.mode": "record_key",
        "pk.fields": "id",
        "delete.enabled": "true",
        "auto.create": "true",
        "auto.evolve": "true",
        "batch.size": "1000",
        "max.retries": "5",
        "retry.backoff.ms": "100",
        "quote.sql.identifiers": "ALWAYS",
        "db.timezone": "UTC",
    }
    assert ConnectorKit(JdbcSink, config).errors == {}


def test_a_missing_source_database_is_not_created(tmp_path: Path) -> None:
    settings = {
        "connection.url": f"jdbc:sqlite:{tmp_path}/none.db",
        "connection.user": None,
        "connection.password": None,
    }
    with pytest.raises(TerminalError, match="does not exist on this worker"):
        connect(settings, None, must_exist=True)
    assert not (tmp_path / "none.db").exists()
