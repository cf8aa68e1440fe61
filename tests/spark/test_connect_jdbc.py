"""Topics to tables, in databases without a server and in a real PostgreSQL."""

from __future__ import annotations

import asyncio
import datetime
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.connect.plugins.api import TerminalError
from barnabas.connect.plugins.testing import ConnectorKit, SinkRecord
from barnabas.connect_spark.connectors.jdbc.jdbc_sink import JdbcSink
from barnabas.connect_spark.connectors.jdbc.jdbc_source import JdbcSource
from barnabas.testing import Node
from tests.peers.mariadb_server import MariadbServer, mariadb_programs, running_mariadb
from tests.peers.postgresql_server import PostgresqlServer, postgresql_programs, running_postgresql
from tests.spark.connect_stage import running_json_stage, running_stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

FIRST = (
    1,
    'say "hi",\n\\. \u00fc',
    datetime.datetime(2024, 2, 29, 12, 34, 56, 789012),
    Decimal("12.50"),
    b"\x00\xff",
    [1, 2],
    True,
)
VALUE = (
    "struct<id: int, name: string, at: timestamp, price: decimal(10,2), raw: binary, parts: array<int>, ok: boolean>"
)


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as started:
        yield started
        started.stop()
        assert "Traceback" not in started.log


@pytest.fixture(scope="module")
def postgresql() -> Iterator[PostgresqlServer]:
    programs = postgresql_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: install the package postgresql")
    with running_postgresql(programs) as server:
        yield server


def test_objects_become_rows_with_their_positions(spark: SparkSession, node: Node, tmp_path: Path) -> None:
    path = tmp_path / "target.db"
    config = {
        "connection.url": f"jdbc:sqlite:{path}",
        "insert.mode": "upsert",
        "pk.mode": "record_value",
        "pk.fields": "id",
        "auto.create": "true",
        "auto.evolve": "true",
    }

    async def scenario() -> None:
        async with running_json_stage(spark, node, tmp_path, JdbcSink) as stage:
            partitions = stage.create("orders.new")
            stage.produce("orders.new", ['{"id": 1, "name": "a"}', '{"id": 2, "name": null}', '{"id": 1, "name": "b"}'])
            task = await stage.start("orders", config, partitions=partitions)
            await stage.until(lambda: stage.committed("connect-orders") == {partitions[0]: 3})
            stage.produce("orders.new", ['{"id": 3, "name": "c", "more": {"x": 1.5}}'])
            await stage.until(lambda: stage.committed("connect-orders") == {partitions[0]: 4})
            await stage.stop(task)

    asyncio.run(scenario())
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute('SELECT id, name, more FROM "orders.new" ORDER BY id').fetchall()
        assert rows == [(1, "b", None), (2, None, None), (3, "c", '{"x":1.5}')]
        noted = database.execute(
            "SELECT connector, task, topic, partition_number, next_offset FROM barnabas_connect_positions"
        ).fetchall()
        assert noted == [("orders", 0, "orders.new", 0, 4)]


def _write_every_type(spark: SparkSession, config: dict[str, str]) -> None:
    """Batches with every type, one of them repeated, and a deletion."""
    settings = {
        **config,
        "insert.mode": "upsert",
        "pk.mode": "record_key",
        "pk.fields": "key",
        "auto.create": "true",
        "delete.enabled": "true",
        "table.name.format": "t_${topic}",
    }
    kit = ConnectorKit(JdbcSink, settings)
    records = [SinkRecord(FIRST, key="a"), SinkRecord((2, "", *[None] * 5), key="b", offset=1)]
    for batch_id in (7, 7):  # The answer to the commit was lost, and the batch is repeated.
        kit.write(spark, records, batch_id=batch_id, value_type=VALUE)
    kit.write(spark, [SinkRecord(None, key="a", offset=2)], batch_id=8, value_type=VALUE)
    kit.write(spark, [SinkRecord(FIRST, key="c", offset=3)], batch_id=9, value_type=VALUE)
    with pytest.raises(TerminalError, match="another task writes the same partition"):
        kit.write(spark, [SinkRecord(FIRST, key="d", offset=3)], batch_id=10, value_type=VALUE)


def _read(spark: SparkSession, config: dict[str, str]) -> list[list[tuple[Any, ...]]]:
    """Return all rows that a source reads, batch by batch, and check that no more follow."""
    task: Any = ConnectorKit(JdbcSource, {"topic.prefix": "from-", "poll.interval.ms": "0", **config}).task()
    task.start(spark)
    try:
        batches = []
        while (found := task.poll(spark)) is not None and len(batches) < 5:
            rows = found.records.collect()
            assert {row.topic for row in rows} == {"from-" + config["table.whitelist"]}
            batches.append([tuple(row.value) for row in rows])
        return batches
    finally:
        task.stop()


def _check_every_type(spark: SparkSession, config: dict[str, str]) -> None:
    _write_every_type(spark, config)
    by_number = {"mode": "incrementing", "incrementing.column.name": "id", "validate.non.null": "false"}
    seen = _read(spark, {**config, **by_number, "table.whitelist": "t_topic", "batch.max.rows": "1"})
    at = FIRST[2].replace(tzinfo=datetime.UTC).astimezone().replace(tzinfo=None)
    whole = ("c", 1, FIRST[1], at, FIRST[3], bytearray(FIRST[4]), "[1,2]", True)
    assert seen == [[whole], [("b", 2, "", None, None, None, None, None)]]
    by_time = {"mode": "timestamp", "timestamp.column.name": "at", "validate.non.null": "false"}
    assert _read(spark, {**config, **by_time, "table.whitelist": "t_topic"}) == [[whole]]
    with pytest.raises(TerminalError, match="may be null, and a row without it would never be read"):
        _read(spark, {**config, **by_time, "table.whitelist": "t_topic", "validate.non.null": "true"})


def test_every_type_survives_a_round_trip_through_postgresql(spark: SparkSession, postgresql: PostgresqlServer) -> None:
    _check_every_type(spark, postgresql.settings)
    sql = "SELECT key, id, octet_length(name), at, price, encode(raw, 'hex'), parts, ok FROM t_topic ORDER BY key"
    assert postgresql.sql(sql) == [
        ["b", "2", "0", "", "", "", "", ""],
        ["c", "1", "15", "2024-02-29 12:34:56.789012", "12.50", "00ff", "[1,2]", "t"],
    ]


@pytest.fixture(scope="module")
def mariadb() -> Iterator[MariadbServer]:
    programs = mariadb_programs()
    if programs is None:
        pytest.skip("MariaDB is not installed: install the packages mariadb-server-core and mariadb-client-core")
    with running_mariadb(programs) as server:
        yield server


def test_every_type_survives_a_round_trip_through_mariadb(spark: SparkSession, mariadb: MariadbServer) -> None:
    _check_every_type(spark, mariadb.settings)
    sql = "SELECT `key`, id, OCTET_LENGTH(name), at, price, HEX(raw), parts, ok FROM t_topic ORDER BY `key`"
    assert mariadb.sql(sql) == [
        ["b", "2", "0", "NULL", "NULL", "NULL", "NULL", "NULL"],
        ["c", "1", "15", "2024-02-29 12:34:56.789012", "12.50", "00FF", "[1,2]", "1"],
    ]
    mariadb.sql(
        "CREATE TABLE odd (id INT UNSIGNED PRIMARY KEY, big BIGINT UNSIGNED, changed TIMESTAMP(3) NOT NULL, "
        "day DATE, took TIME, note JSON, mask BIT(1), size FLOAT, `a b` VARCHAR(9));"
        "INSERT INTO odd VALUES (4000000000, 18446744073709551615, '2024-02-29 12:34:56.789', '1999-12-31', "
        "'10:20:30', '{\"a\": 1}', b'1', 1.5, 'x');"
    )
    config = {**mariadb.settings, "mode": "timestamp+incrementing", "timestamp.column.name": "changed"}
    [[row]] = _read(spark, {**config, "incrementing.column.name": "id", "table.whitelist": "odd"})
    at = datetime.datetime(2024, 2, 29, 12, 34, 56, 789000, datetime.UTC).astimezone().replace(tzinfo=None)
    day = datetime.date(1999, 12, 31)
    assert row == (4000000000, Decimal(18446744073709551615), at, day, "10:20:30", '{"a": 1}', True, 1.5, "x")


@pytest.mark.long  # It fetches 73 MB the first time.
def test_every_type_survives_a_round_trip_through_duckdb(spark: SparkSession, tmp_path: Path) -> None:
    _check_every_type(spark, {"connection.url": f"jdbc:duckdb:{tmp_path}/target.db"})


def test_rows_of_a_table_become_objects_and_a_restart_resumes(spark: SparkSession, node: Node, tmp_path: Path) -> None:
    path = tmp_path / "source.db"
    config = {
        "connection.url": f"jdbc:sqlite:{path}",
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "table.whitelist": "people",
        "topic.prefix": "db-",
        "poll.interval.ms": "100",
    }

    def add(*names: str) -> None:
        with closing(sqlite3.connect(path)) as database:
            database.execute("CREATE TABLE IF NOT EXISTS people (id INTEGER PRIMARY KEY, name TEXT)")
            database.executemany("INSERT INTO people (name) VALUES (?)", [(name,) for name in names])
            database.commit()

    async def scenario() -> None:
        async with running_stage(spark, node, tmp_path, JdbcSource) as stage:
            stage.create("db-people")
            add("a", "b")
            task = await stage.start("people", config)
            at = {"protocol": "1", "table": "people"}
            await stage.until(lambda: stage.offsets.source_offset("people", at) == {"incrementing": 2})
            await stage.stop(task)
            stage.events.clear()
            add("c")
            await stage.start("people", config)
            await stage.until(lambda: stage.offsets.source_offset("people", at) == {"incrementing": 3})
            values = [row.value.decode() for row in stage.read("db-people")]
            assert values == [f'{{"id":{at},"name":"{name}"}}' for at, name in enumerate("abc", 1)]

    asyncio.run(scenario())
