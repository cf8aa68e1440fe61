"""The task of PostgresChanges on a real PostgreSQL, without Spark: what it reads, streams, and confirms.

``ChangesRun`` stands for Kafka. Its ``replayed`` fails if a record contradicts those before it: a row that is created
twice, or changed or deleted without being there.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from barnabas.connect.decide.tasks.transaction_requests import TransactionEnd
from barnabas.connect.plugins.api import SourceOffset, TerminalError
from tests.peers.changes_run import ChangesRun, source_settings
from tests.peers.postgresql_server import PostgresqlServer, postgresql_programs, running_postgresql

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresqlServer]:
    programs = postgresql_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: install the package postgresql")
    with running_postgresql(programs, ["wal_level=logical", "max_replication_slots=30", "max_wal_senders=20"]) as found:
        yield found


@pytest.fixture
def database(server: PostgresqlServer) -> Iterator[PostgresqlServer]:
    """The server. Afterwards it has no slot, publication or table."""
    yield server
    _until_free(server)
    server.sql("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
    for (name,) in server.sql("SELECT pubname FROM pg_publication"):
        server.sql(f'DROP PUBLICATION "{name}"')
    server.sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")


def _until_free(server: PostgresqlServer) -> None:
    deadline = time.monotonic() + 30
    while server.sql("SELECT count(*) FROM pg_replication_slots WHERE active") != [["0"]]:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def runs(database: PostgresqlServer) -> Iterator[list[ChangesRun]]:
    started: list[ChangesRun] = []
    yield started
    for run in started:
        run.die()


def started(
    runs: list[ChangesRun], database: PostgresqlServer, prefix: str, tables: str = "", **more: str
) -> ChangesRun:
    run = ChangesRun(source_settings(database, prefix, tables, **more))
    runs.append(run)
    return run


def operations(run: ChangesRun) -> list[str | None]:
    return [record["value"] and record["value"]["op"] for record in run.records]


def after(run: ChangesRun, at: int = -1) -> Any:
    return run.records[at]["value"]["after"]


def in_table(database: PostgresqlServer, table: str) -> dict[int, str]:
    return {int(row[0]): row[1] for row in database.sql(f"SELECT id, item FROM {table}")}


# ---- reading, then streaming


def test_a_table_is_read_in_parts_and_its_changes_follow(runs: list[ChangesRun], database: PostgresqlServer) -> None:
    database.sql("CREATE TABLE orders (id INT PRIMARY KEY, item TEXT)")
    database.sql("INSERT INTO orders SELECT n, 'item ' || n FROM generate_series(1, 5) AS n")
    run = started(runs, database, "shop", r"public\.orders", snapshot_fetch_size="2", snapshot_max_threads="1")
    run.until_records(5)
    assert operations(run) == ["r"] * 5
    database.sql("INSERT INTO orders VALUES (6, 'new')")
    database.sql("UPDATE orders SET item = 'changed' WHERE id = 2")
    database.sql("DELETE FROM orders WHERE id = 3")
    run.until_records(9)
    assert operations(run)[5:] == ["c", "u", "d", None]
    assert {record["topic"] for record in run.records} == {"shop.public.orders"}
    assert run.records[7]["key"] == run.records[8]["key"] == {"id": 3}
    assert run.records[7]["value"]["before"] == {"id": 3, "item": None}
    assert after(run, 6) == {"id": 2, "item": "changed"}
    assert {key: row["item"] for key, row in run.replayed().items()} == in_table(database, "orders")


def test_a_changed_key_is_a_deletion_and_a_creation(runs: list[ChangesRun], database: PostgresqlServer) -> None:
    database.sql("CREATE TABLE moved (id INT PRIMARY KEY, item TEXT)")
    run = started(runs, database, "moved", r"public\.moved", tombstones_on_delete="false")
    database.sql("INSERT INTO moved VALUES (1, 'a')")
    run.until_records(1)
    database.sql("UPDATE moved SET id = 2")
    run.until_records(3)
    assert operations(run)[1:] == ["d", "c"]
    assert [record["key"]["id"] for record in run.records[1:]] == [1, 2]


def test_identity_full_has_the_row_before_and_a_table_without_a_key_has_no_key(
    runs: list[ChangesRun], database: PostgresqlServer
) -> None:
    database.sql("CREATE TABLE notes (id INT, item TEXT)")
    database.sql("ALTER TABLE notes REPLICA IDENTITY FULL; INSERT INTO notes VALUES (1, 'a'), (2, 'b')")
    run = started(runs, database, "notes", r"public\.notes")
    run.until_records(2)
    database.sql("UPDATE notes SET item = 'c' WHERE id = 1; DELETE FROM notes WHERE id = 2")
    run.until_records(4)
    assert operations(run) == ["r", "r", "u", "d"]
    assert run.records[2]["value"]["before"] == {"id": 1, "item": "a"}
    assert run.records[3]["value"]["before"] == {"id": 2, "item": "b"}
    assert all("key" not in record for record in run.records)


def test_a_large_value_that_did_not_change_is_named_as_debezium_does(
    runs: list[ChangesRun], database: PostgresqlServer
) -> None:
    database.sql("CREATE TABLE large (id INT PRIMARY KEY, item TEXT, content TEXT, raw BYTEA)")
    database.sql("ALTER TABLE large ALTER content SET STORAGE EXTERNAL, ALTER raw SET STORAGE EXTERNAL")
    database.sql("INSERT INTO large VALUES (1, 'a', repeat('x', 9000), decode(repeat('00', 9000), 'hex'))")
    run = started(runs, database, "large", r"public\.large")
    run.until_streaming()
    assert len(after(run)["content"]) == len(after(run)["raw"]) == 9000
    database.sql("UPDATE large SET item = 'b'")
    run.until_records(2)
    assert after(run)["content"] == "__debezium_unavailable_value"
    assert after(run)["raw"] == b"__debezium_unavailable_value"
    database.sql("ALTER TABLE large REPLICA IDENTITY FULL")
    database.sql("UPDATE large SET item = 'c'")
    run.until_records(3)
    assert len(after(run)["content"]) == 9000  # The row before has it.


def test_truncates_are_events_if_they_are_not_skipped(runs: list[ChangesRun], database: PostgresqlServer) -> None:
    database.sql("CREATE TABLE emptied (id INT PRIMARY KEY, item TEXT); INSERT INTO emptied VALUES (1, 'a')")
    shown = started(runs, database, "shown", r"public\.emptied", skipped_operations="none")
    skipping = started(runs, database, "skipping", r"public\.emptied")
    shown.until_streaming()
    skipping.until_streaming()
    database.sql("TRUNCATE emptied")
    database.sql("INSERT INTO emptied VALUES (2, 'b')")
    shown.until_records(3)
    assert operations(shown) == ["r", "t", "c"]
    assert shown.records[1]["key"] is None
    assert [*shown.replayed()] == [2]
    skipping.until_records(2)
    assert operations(skipping) == ["r", "c"]


def test_columns_appear_change_and_disappear(runs: list[ChangesRun], database: PostgresqlServer) -> None:
    database.sql("CREATE TABLE growing (id INT PRIMARY KEY, item TEXT)")
    run = started(runs, database, "growing", r"public\.growing")
    run.until_streaming()
    database.sql(
        "INSERT INTO growing VALUES (1, 'a'); ALTER TABLE growing ADD size INT DEFAULT 5; "
        "INSERT INTO growing VALUES (2, 'b', 7); ALTER TABLE growing DROP item; "
        "UPDATE growing SET size = 8 WHERE id = 1; ALTER TABLE growing ALTER size TYPE TEXT; "
        "ALTER TABLE growing RENAME size TO extent; INSERT INTO growing VALUES (3, 'large')"
    )
    run.until_records(4)
    assert [record["value"]["after"] for record in run.records] == [
        {"id": 1, "item": "a"},
        {"id": 2, "item": "b", "size": 7},
        {"id": 1, "size": 8},
        {"id": 3, "extent": "large"},
    ]


def test_tables_that_do_not_match_are_left_out(runs: list[ChangesRun], database: PostgresqlServer) -> None:
    database.sql("CREATE TABLE seen (id INT PRIMARY KEY); CREATE TABLE unseen (id INT PRIMARY KEY)")
    database.sql("CREATE PUBLICATION chosen FOR ALL TABLES; INSERT INTO seen VALUES (1); INSERT INTO unseen VALUES (1)")
    run = started(runs, database, "chosen", r"public\.seen", publication_autocreate_mode="disabled")
    run.until_records(1)
    database.sql("INSERT INTO unseen VALUES (2); INSERT INTO seen VALUES (2)")
    run.until_records(2)
    assert {record["topic"] for record in run.records} == {"chosen.public.seen"}


def test_a_publication_with_columns_and_a_condition_applies_to_the_reading_too(
    runs: list[ChangesRun], database: PostgresqlServer
) -> None:
    if database.sql("SHOW server_version_num")[0][0] < "150000":
        pytest.skip("column lists and conditions came with PostgreSQL 15")
    database.sql("CREATE TABLE part (id INT PRIMARY KEY, item TEXT, secret TEXT)")
    database.sql("INSERT INTO part VALUES (1, 'a', 'x'), (20, 'b', 'y')")
    database.sql("CREATE PUBLICATION part FOR TABLE part (id, item) WHERE (id > 10)")
    run = started(runs, database, "part")
    run.until_records(1)
    database.sql("INSERT INTO part VALUES (2, 'c', 'z'), (21, 'd', 'z')")
    run.until_records(2)
    assert [record["value"]["after"] for record in run.records] == [{"id": 20, "item": "b"}, {"id": 21, "item": "d"}]


def test_a_table_that_is_included_later_is_read_then(runs: list[ChangesRun], database: PostgresqlServer) -> None:
    database.sql("CREATE TABLE early (id INT PRIMARY KEY); CREATE TABLE late (id INT PRIMARY KEY)")
    database.sql("INSERT INTO early VALUES (1); INSERT INTO late VALUES (1)")
    run = started(runs, database, "grown", r"public\.early")
    run.until_records(1)
    run.die()
    run.settings = {**run.settings, "table.include.list": r"public\.early,public\.late"}
    database.sql("INSERT INTO late VALUES (2); INSERT INTO early VALUES (2)")
    run.until_records(4)
    assert sorted(operations(run)) == ["c", "r", "r", "r"]
    database.sql("INSERT INTO late VALUES (3)")
    run.until_records(5)


# ---- values


def test_values_have_the_forms_of_debezium(runs: list[ChangesRun], database: PostgresqlServer) -> None:
    database.sql("CREATE TYPE mood AS ENUM ('sad', 'happy'); CREATE DOMAIN positive AS NUMERIC(6, 3) CHECK (value > 0)")
    columns = {
        "a_bool": ("BOOL", "true", True),
        "a_small": ("SMALLINT", "-3", -3),
        "a_big": ("BIGINT", "9000000000", 9000000000),
        "a_real": ("REAL", "1.5", 1.5),
        "a_double": ("DOUBLE PRECISION", "0.1", 0.1),
        "a_decimal": ("NUMERIC(8, 2)", "-12.34", Decimal("-12.34")),
        "a_number": ("NUMERIC", "'-12.345'", {"scale": 3, "value": (-12345).to_bytes(2, "big", signed=True)}),
        "a_domain": ("positive", "1.5", Decimal("1.500")),
        "some_money": ("MONEY", "'-1234.5'", Decimal("-1234.50")),
        "a_date": ("DATE", "'1969-12-31'", -1),
        "a_time": ("TIME", "'00:00:01.5'", 1_500_000),
        "a_short_time": ("TIME(3)", "'00:00:01.5'", 1_500),
        "a_timestamp": ("TIMESTAMP", "'1970-01-02 00:00:00.000001'", 86_400_000_001),
        "a_short_timestamp": ("TIMESTAMP(3)", "'1970-01-01 00:00:01.234'", 1_234),
        "a_zoned_timestamp": ("TIMESTAMPTZ", "'2020-01-01 01:00:00.5+01'", "2020-01-01T00:00:00.500000Z"),
        "a_zoned_time": ("TIMETZ", "'01:00:00.5+02'", "23:00:00.5Z"),
        "an_interval": ("INTERVAL", "'1 day 00:00:01.5'", 86_401_500_000),
        "a_uuid": ("UUID", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        "a_json": ("JSON", """'{"a": 1}'""", '{"a": 1}'),
        "a_jsonb": ("JSONB", """'{"a":1}'""", '{"a": 1}'),
        "some_bytes": ("BYTEA", r"'\x00ff'", b"\x00\xff"),
        "a_bit": ("BIT", "'1'", True),
        "some_bits": ("BIT(10)", "'1000000001'", b"\x01\x02"),
        "an_enum": ("mood", "'happy'", "happy"),
        "an_address": ("INET", "'10.0.0.1/8'", "10.0.0.1/8"),
        "a_range": ("INT4RANGE", "'[1,5)'", "[1,5)"),
        "numbers": ("INT[]", "'{1,NULL,3}'", [1, None, 3]),
        "texts": ("TEXT[]", """'{"a b",NULL,"NULL","x\\"y"}'""", ["a b", None, "NULL", 'x"y']),
        "a_char": ("CHAR(5)", "'ab'", "ab   "),
    }
    declared = ", ".join(f"{name} {kind}" for name, (kind, _, _) in columns.items())
    database.sql(f"CREATE TABLE kinds (id INT PRIMARY KEY, {declared})")
    values = ", ".join(text for _, text, _ in columns.values())
    database.sql(f"INSERT INTO kinds VALUES (1, {values})")
    run = started(runs, database, "kinds", r"public\.kinds")
    run.until_records(1)
    database.sql(f"INSERT INTO kinds VALUES (2, {values}); INSERT INTO kinds VALUES (3)")
    run.until_records(3)
    expected = {name: value for name, (_, _, value) in columns.items()}
    assert after(run, 0) == {"id": 1, **expected}
    assert after(run, 1) == {"id": 2, **expected}
    assert after(run, 2) == {"id": 3, **dict.fromkeys(columns)}


def test_modes_of_decimals_and_times(runs: list[ChangesRun], database: PostgresqlServer) -> None:
    database.sql("CREATE TABLE modes (id INT PRIMARY KEY, price NUMERIC(8, 2), at TIMESTAMP, clock TIME(3))")
    database.sql("INSERT INTO modes VALUES (1, 'NaN', '2020-01-01', '00:00:01')")
    run = started(
        runs, database, "plain", r"public\.modes", decimal_handling_mode="string", time_precision_mode="connect"
    )
    run.until_records(1)
    assert after(run)["price"] == "NaN"
    assert after(run)["at"].isoformat().startswith("2020-01-01T00:00:00")
    assert after(run)["clock"] == 1000
    precise = started(runs, database, "precise", r"public\.modes")
    with pytest.raises(Exception, match=r"column price of public\.modes.*NaN.*decimal\.handling\.mode"):
        precise.until_records(1)


# ---- exactly once


class _Writer(threading.Thread):
    """Changes rows by random transactions, some of which are rolled back, until it is stopped."""

    def __init__(self, database: PostgresqlServer, table: str, seed: int, *, pause_s: float = 0.0) -> None:
        super().__init__(daemon=True)
        import psycopg

        self._connection = psycopg.connect(
            f"host=127.0.0.1 port={database.port} dbname=postgres user={database.user} password={database.password}"
        )
        self._table = table
        self._random = random.Random(seed)
        self._pause_s = pause_s
        self._stopping = threading.Event()
        self.transactions = 0

    def run(self) -> None:
        while not self._stopping.is_set():
            for _ in range(self._random.randrange(1, 5)):
                self._connection.execute(self._statement())
            if self._random.random() < 0.2:
                self._connection.rollback()
            else:
                self._connection.commit()
            self.transactions += 1
            time.sleep(self._pause_s)

    def _statement(self) -> str:
        table, key, other = self._table, self._random.randrange(400), self._random.randrange(400)
        kind = self._random.randrange(4)
        if kind == 0:
            return f"INSERT INTO {table} VALUES ('{key}', md5(random()::text)) ON CONFLICT DO NOTHING"
        if kind == 1:
            return f"UPDATE {table} SET item = md5(random()::text) WHERE id = '{key}'"
        if kind == 2:
            return f"DELETE FROM {table} WHERE id = '{key}'"
        is_free = f"NOT EXISTS (SELECT FROM {table} WHERE id = '{other}')"
        return f"UPDATE {table} SET id = '{other}' WHERE id = '{key}' AND {is_free}"

    def stop(self) -> None:
        self._stopping.set()
        self.join(30)
        self._connection.close()


def _step_that_may_die(run: ChangesRun, choose: random.Random) -> bool:
    """Make one step, and lose the task before or after it, or between the records and their positions."""
    death = choose.choice(["no", "no", "no", "before", "reading", "after"])
    if death == "before":
        run.die()
    polled = run.poll()
    if polled is None:
        return False
    rows = run.read(polled)
    if death == "reading":
        run.die()  # Nothing of it was committed: with exactly-once delivery the transaction is aborted.
        return True
    run.commit(rows, polled)
    if death == "after":
        run.die()
    return True


@pytest.mark.parametrize("seed", range(2))
def test_a_task_that_dies_anywhere_while_rows_change_loses_and_doubles_nothing(
    runs: list[ChangesRun], database: PostgresqlServer, seed: int
) -> None:
    """The key is text, whose order is the database's own. Each run has a snapshot of its own."""
    choose = random.Random(seed)
    table = f"busy{seed}"
    database.sql(f"CREATE TABLE {table} (id TEXT PRIMARY KEY, item TEXT)")
    database.sql(f"INSERT INTO {table} SELECT n, 'item ' || n FROM generate_series(0, 399, 2) AS n")
    run = started(
        runs, database, table, rf"public\.{table}",
        snapshot_fetch_size="15", snapshot_max_threads="2", max_batch_size="7",
    )  # fmt: skip
    writer = _Writer(database, table, seed, pause_s=0.002)
    writer.start()
    try:
        streamed = 0
        while streamed < 40:
            found = _step_that_may_die(run, choose)
            streamed += found and any(operation != "r" for operation in operations(run)[-1:])
    finally:
        writer.stop()
    expected = {row[0]: row[1] for row in database.sql(f"SELECT id, item FROM {table}")}
    run.until(lambda: {key: row["item"] for key, row in run.replayed().items()} == expected, timeout_s=60)
    assert run.task is not None
    assert writer.transactions > 20


def test_a_transaction_larger_than_a_batch_continues_in_its_middle(
    runs: list[ChangesRun], database: PostgresqlServer
) -> None:
    database.sql("CREATE TABLE wide (id INT PRIMARY KEY, item TEXT)")
    run = started(runs, database, "wide", r"public\.wide", max_batch_size="10")
    run.until(lambda: not run.step() and bool(run.offsets))
    database.sql("INSERT INTO wide SELECT n, 'x' FROM generate_series(1, 450) AS n")
    run.until(run.step)
    assert len(run.records) == 100  # Ten times the usual, because the transaction has no end before.
    assert run.offsets['{"server": "wide"}'].offset["changes"] == 100
    run.die()
    run.until_records(450)
    assert [record["key"]["id"] for record in run.records] == [*range(1, 451)]
    assert run.offsets['{"server": "wide"}'].offset["changes"] == 0


def test_transactions_of_kafka_are_those_of_the_database(runs: list[ChangesRun], database: PostgresqlServer) -> None:
    database.sql("CREATE TABLE whole (id INT PRIMARY KEY); INSERT INTO whole VALUES (0)")
    run = started(
        runs, database, "whole", r"public\.whole",
        transaction_boundary="connector", max_batch_size="5", heartbeat_interval_ms="100000",
    )  # fmt: skip
    run.until_records(1)
    requests: Any = run.start().context.transactions
    assert requests.take() is TransactionEnd.COMMIT  # The table was read.
    run.until_streaming()
    safe, ends = confirmed(database, "whole"), []
    database.sql("INSERT INTO whole VALUES (1)")
    database.sql("INSERT INTO whole SELECT n FROM generate_series(2, 99) AS n")
    while len(run.records) < 100:
        if run.step():
            ends.append(requests.take())
            if ends[-1] is TransactionEnd.COMMIT:
                safe = run.offsets['{"server": "whole"}'].offset["lsn"]
        time.sleep(0.1)
        assert confirmed(database, "whole") <= safe  # The server must keep what is in an open transaction.
    assert ends[-2:] == [TransactionEnd.NONE, TransactionEnd.COMMIT]


def test_a_truncate_between_two_runs_reads_the_table_again(runs: list[ChangesRun], database: PostgresqlServer) -> None:
    database.sql("CREATE TABLE cut (id INT PRIMARY KEY, item TEXT)")
    database.sql("INSERT INTO cut SELECT n, 'old' FROM generate_series(1, 9) AS n")
    run = started(
        runs, database, "cut", r"public\.cut",
        snapshot_fetch_size="4", snapshot_max_threads="1", skipped_operations="none",
    )  # fmt: skip
    run.until_records(4)
    run.die()
    database.sql("TRUNCATE cut; INSERT INTO cut SELECT n, 'new' FROM generate_series(3, 6) AS n")
    run.until(lambda: {key: row["item"] for key, row in run.replayed().items()} == in_table(database, "cut"))
    database.sql("INSERT INTO cut VALUES (1, 'last')")
    run.until(lambda: {key: row["item"] for key, row in run.replayed().items()} == in_table(database, "cut"))
    assert operations(run) == ["r"] * 4 + ["t"] + ["r"] * 4 + ["c"]


def test_the_database_dies_and_the_stream_continues(runs: list[ChangesRun], database: PostgresqlServer) -> None:
    database.sql("CREATE TABLE kept (id INT PRIMARY KEY, item TEXT)")
    run = started(runs, database, "kept", r"public\.kept")
    database.sql("INSERT INTO kept VALUES (1, 'a')")
    run.until_records(1)
    database.sql("INSERT INTO kept VALUES (2, 'b')")
    database.kill()
    with pytest.raises(ConnectionError, match=r"PostgreSQL at 127\.0\.0\.1:\d+/postgres"):
        run.until(lambda: len(run.records) == 3)
    database.start()
    run.until_records(2)
    database.sql("INSERT INTO kept VALUES (3, 'c')")
    run.until_records(3)


# ---- the slot


def confirmed(database: PostgresqlServer, slot: str) -> int:
    query = f"SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots WHERE slot_name = '{slot}'"
    return int(database.sql(query)[0][0])


def test_the_server_learns_a_position_only_when_it_is_committed(
    runs: list[ChangesRun], database: PostgresqlServer
) -> None:
    database.sql("CREATE TABLE safe (id INT PRIMARY KEY)")
    run = started(runs, database, "safe", r"public\.safe", heartbeat_interval_ms="100000")
    run.until_streaming()
    database.sql("INSERT INTO safe VALUES (1)")
    before = confirmed(database, "safe")
    polled = None
    while polled is None:
        polled = run.poll()
    time.sleep(1)  # Long enough for a report to the server.
    assert confirmed(database, "safe") == before
    run.commit(run.read(polled), polled)
    run.until(lambda: not run.step() and confirmed(database, "safe") > before)
    assert confirmed(database, "safe") == run.offsets['{"server": "safe"}'].offset["lsn"]


def test_the_slot_of_an_idle_table_advances(runs: list[ChangesRun], database: PostgresqlServer) -> None:
    database.sql("CREATE TABLE idle (id INT PRIMARY KEY); CREATE TABLE noise (id INT, content TEXT)")
    run = started(runs, database, "idle", r"public\.idle")
    run.until(lambda: not run.step() and bool(run.offsets))
    end = int(database.sql("SELECT pg_current_wal_lsn() - '0/0'")[0][0])
    database.sql("INSERT INTO noise SELECT n, repeat('x', 100) FROM generate_series(1, 5000) AS n")
    run.until(lambda: (run.step() and False) or confirmed(database, "idle") > end + 500_000)
    assert run.records == []
    assert run.offsets['{"server": "idle"}'].offset["lsn"] >= confirmed(database, "idle")


def test_a_slot_that_keeps_much_log_is_reported(
    runs: list[ChangesRun], database: PostgresqlServer, caplog: pytest.LogCaptureFixture
) -> None:
    database.sql("CREATE TABLE slow (id INT PRIMARY KEY, content TEXT)")
    run = started(runs, database, "slow", r"public\.slow", slot_lag_warn_bytes="1")
    with caplog.at_level(logging.WARNING):
        run.step()
    assert "the replication slot slow of 127.0.0.1" in caplog.text
    assert "slot.lag.warn.bytes=1" in caplog.text
    assert run.start().context.reported.keys() == {"slot_lag_bytes", "slot_unconfirmed_bytes"}  # type: ignore[attr-defined]


def lost(run: ChangesRun) -> str:
    with pytest.raises(TerminalError) as caught:
        run.until(lambda: False)
    return str(caught.value)


def test_a_lost_slot_is_an_error_that_says_what_to_do(runs: list[ChangesRun], database: PostgresqlServer) -> None:
    database.sql("CREATE TABLE gone (id INT PRIMARY KEY); INSERT INTO gone VALUES (1)")
    run = started(runs, database, "gone", r"public\.gone")
    run.until(lambda: len(run.records) == 1 and not run.step())
    run.die()
    _until_free(database)
    database.sql("SELECT pg_drop_replication_slot('gone')")
    assert "does not exist" in lost(run)
    database.sql("INSERT INTO gone VALUES (2)")
    database.sql("SELECT pg_create_logical_replication_slot('gone', 'pgoutput')")
    message = lost(run)
    assert "it was created anew, or another client has read it" in message
    assert "DELETE /connectors/NAME/offsets" in message
    run.offsets.clear()
    run.until(lambda: len(run.records) == 3)
    assert operations(run) == ["r", "r", "r"]


def test_a_slot_that_another_connection_reads_is_waited_for(
    runs: list[ChangesRun], database: PostgresqlServer, caplog: pytest.LogCaptureFixture
) -> None:
    database.sql("CREATE TABLE shared (id INT PRIMARY KEY)")
    first = started(runs, database, "shared", r"public\.shared")
    first.until_streaming()
    second = started(runs, database, "shared", r"public\.shared", snapshot_mode="no_data")
    second.offsets |= first.offsets
    with caplog.at_level(logging.WARNING):
        assert not second.step()
        assert not second.step()
    assert caplog.text.count("waits: ") == 1
    first.die()
    database.sql("INSERT INTO shared VALUES (1)")
    second.until_records(1)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"publication_autocreate_mode": "disabled"}, "the publication wrong does not exist"),
        ({"table_include_list": r"public\.nothing"}, "no table of .* matches table.include.list"),
        ({"slot_create": "false"}, r"the replication slot wrong does not exist, and slot.create=false"),
        ({"database_password": "wrong"}, "password authentication failed"),
        ({"database_dbname": "nowhere"}, 'database "nowhere" does not exist'),
    ],
)
def test_what_is_missing_is_named(
    runs: list[ChangesRun], database: PostgresqlServer, more: dict[str, str], reason: str
) -> None:
    database.sql("CREATE TABLE wrong (id INT PRIMARY KEY)")
    run = started(runs, database, "wrong", r"public\.wrong", **more)
    with pytest.raises(TerminalError, match=reason):
        run.step()


def test_an_offset_that_can_not_be_used_is_named(runs: list[ChangesRun], database: PostgresqlServer) -> None:
    database.sql("CREATE TABLE odd (id INT PRIMARY KEY)")
    run = started(runs, database, "odd", r"public\.odd")
    run.offsets["x"] = SourceOffset({"server": "odd"}, {"lsn": "many"})
    with pytest.raises(TerminalError, match="lsn must be a whole number, not 'many'"):
        run.step()
