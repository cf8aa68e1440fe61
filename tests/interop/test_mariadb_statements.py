"""The statements of a sink on a real MariaDB: a batch has the effect of its records one by one, and text survives."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from barnabas.connect_spark.connectors.jdbc.column_types import ColumnType, Kind
from barnabas.connect_spark.connectors.jdbc.dialects import dialect_of
from barnabas.connect_spark.connectors.jdbc.insert_literals import insert_statements
from barnabas.connect_spark.connectors.jdbc.row_database import _SQL_MODE
from barnabas.connect_spark.connectors.jdbc.source_reading import Position, Reading
from barnabas.connect_spark.connectors.jdbc.sql_dialect import DELETED, OFFSET, PARTITION, columns_of
from tests.peers.mariadb_server import MariadbServer, mariadb_programs, running_mariadb
from tests.unit.connect_spark.test_jdbc_merge import Record, one_after_the_other

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

SESSION = f"SET SESSION sql_mode = '{_SQL_MODE}'; SET SESSION time_zone = '+00:00';"
DIALECT = dialect_of("mysql")


@pytest.fixture(scope="module")
def server() -> Iterator[MariadbServer]:
    programs = mariadb_programs()
    if programs is None:
        pytest.skip("MariaDB is not installed: install the packages mariadb-server-core and mariadb-client-core")
    with running_mariadb(programs) as running:
        yield running


def batch(
    folder: Path, table: str, columns: dict[str, list[str | None]], deleted: list[bool], mode: str, *, deletes: bool
) -> str:
    """Return the statements of a batch, as the connector runs them. Values are text, as Spark writes them."""
    ours = {PARTITION: ["0"] * len(deleted), OFFSET: [str(at) for at in range(len(deleted))]}
    ours[DELETED] = [str(int(is_deleted)) for is_deleted in deleted]
    values = list((columns | ours).values())
    arrays = {f"c{at}": pa.array(column, pa.string()) for at, column in enumerate(values)}
    pq.write_table(pa.table(arrays), folder / "batch.parquet")
    names = list(columns)
    bytes_at = {at for at, name in enumerate(names) if name == "raw"}
    head = f"INSERT INTO {DIALECT.staging} ({columns_of([*names, *ours])}) VALUES"
    files = [folder / "batch.parquet"]
    statements = [
        DIALECT.create_staging((table,), names),
        *insert_statements(head, files, range(len(values)), bytes_at, "mysql", rows_max=5),
        *DIALECT.merge((table,), names, ("id",), mode, deletes=deletes),
        DIALECT.drop_staging,
    ]
    return ";\n".join(statements) + ";\n"


@pytest.mark.parametrize("mode", ["upsert", "update"])
def test_a_batch_has_the_effect_of_its_records_in_order(server: MariadbServer, tmp_path: Path, mode: str) -> None:
    types = {"id": ColumnType(Kind.INT64), "text": ColumnType(Kind.TEXT)}
    drawn = random.Random(20)
    script, wanted = "", []
    for at in range(25):
        before = {key: drawn.choice("xyz") for key in range(5) if drawn.random() < 0.6}
        records = [Record(drawn.randrange(5), drawn.choice([None, "a", "b"])) for _ in range(drawn.randrange(13))]
        table = f"t{mode}{at}"
        script += DIALECT.create_table((table,), types, ("id",)) + ";\n"
        for rows, how in (([Record(*row) for row in before.items()], "insert"), (records, mode)):
            columns = {"id": [str(record.key) for record in rows], "text": [record.text for record in rows]}
            gone = [record.text is None for record in rows]
            script += batch(tmp_path, table, columns, gone, how, deletes=how != "insert")
        script += f'SELECT COALESCE(GROUP_CONCAT(CONCAT(id, "text") ORDER BY id), \'-\') FROM "{table}";\n'
        after = one_after_the_other(before, records, mode)
        wanted.append(",".join(f"{key}{after[key]}" for key in sorted(after)) or "-")
    assert [row[0] for row in server.sql(script, session=SESSION)] == wanted


def test_every_text_arrives_unchanged(server: MariadbServer, tmp_path: Path) -> None:
    texts = [
        "",
        "it's",
        'say "hi"',
        "back\\slash \\' ?",
        "two\nlines\r.",
        "\u00fc\U0001f600",
        "x" * 300_000,
        "tab\t'",
        "NULL",
    ]
    types = {"id": ColumnType(Kind.INT64), "text": ColumnType(Kind.TEXT), "raw": ColumnType(Kind.BYTES)}
    columns: dict[str, list[str | None]] = {
        "id": [str(at) for at in range(len(texts) + 1)],
        "text": [*texts, None],
        "raw": [text.encode().hex() for text in texts] + [None],
    }
    script = DIALECT.create_table(("texts",), types, ("id",)) + ";\n"
    script += batch(tmp_path, "texts", columns, [False] * (len(texts) + 1), "insert", deletes=False)
    rows = server.sql(script + 'SELECT HEX("text"), HEX(raw) FROM texts ORDER BY id;', session=SESSION)
    expected = [text.encode().hex().upper() for text in texts]
    assert rows == [*([text, text] for text in expected), ["NULL", "NULL"]]


def test_keys_that_differ_in_case_or_a_last_space_are_two(server: MariadbServer, tmp_path: Path) -> None:
    types = {"id": ColumnType(Kind.TEXT), "n": ColumnType(Kind.INT32)}
    script = DIALECT.create_table(("keyed",), types, ("id",)) + ";\n"
    keys: list[str | None] = ["a", "A", "a ", "\u00e4", "a"]
    script += batch(tmp_path, "keyed", {"id": keys, "n": list("12345")}, [False] * 5, "upsert", deletes=False)
    rows = server.sql(script + "SELECT GROUP_CONCAT(n ORDER BY n) FROM keyed;", session=SESSION)
    assert rows == [["2,3,4,5"]]


def test_a_value_that_does_not_fit_is_an_error(server: MariadbServer, tmp_path: Path) -> None:
    server.sql("CREATE TABLE narrow (id INT PRIMARY KEY, v VARCHAR(2));")
    script = batch(tmp_path, "narrow", {"id": ["1"], "v": ["abc"]}, [False], "insert", deletes=False)
    with pytest.raises(AssertionError, match="Data too long for column 'v'"):
        server.sql(script, session=SESSION)


def test_rows_are_read_by_time_and_number(server: MariadbServer) -> None:
    server.sql(
        "CREATE TABLE events (id INT PRIMARY KEY, at DATETIME(6));"
        "INSERT INTO events VALUES (1, '2024-01-01 00:00:00.000001'), (2, '2024-01-01 00:00:00.000001'),"
        "(3, '2024-01-01 00:00:00.000002');"
    )
    reading = Reading.of(DIALECT, ("events",), "", "timestamp+incrementing", "id", ("at",))
    far = 4_000_000_000_000_000
    [[number, micros]] = server.sql(reading.end(Position(), far, 2), session=SESSION)
    end = Position(int(number), int(micros))
    assert end == Position(2, 1_704_067_200_000_001)
    assert [row[0] for row in server.sql(reading.rows(Position(), end), session=SESSION)] == ["1", "2"]
    assert server.sql(reading.end(end, far, 2), session=SESSION) == []
    assert server.sql(reading.last(end, far), session=SESSION) == [["3", "1704067200000002"]]


def test_positions_are_kept(server: MariadbServer) -> None:
    write = DIALECT.write_position(("noted",))
    for value in ("'c', 0, 't', 1, 5, 7", "'c', 2, 't', 1, 9, 8"):
        write_row = write.replace("?, ?, ?, ?, ?, ?", value)
        server.sql(f"{DIALECT.create_positions(('noted',))}; {write_row};", session=SESSION)
    read = DIALECT.read_positions(("noted",), for_update=True).replace("?", "'c'")
    assert server.sql(read, session=SESSION) == [["t", "1", "9", "8"]]
