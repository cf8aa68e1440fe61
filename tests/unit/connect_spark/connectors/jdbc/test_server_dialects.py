"""Statements of MySQL and SQL Server as text: no SQL Server runs here, so they follow its documented grammar.

MariaDB's run in tests/interop/test_mariadb_statements.py.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from barnabas.connect_spark.connectors.jdbc.column_types import ColumnType, Kind
from barnabas.connect_spark.connectors.jdbc.database_address import parse_address
from barnabas.connect_spark.connectors.jdbc.database_driver import is_transient_error
from barnabas.connect_spark.connectors.jdbc.dialects import dialect_of
from barnabas.connect_spark.connectors.jdbc.insert_literals import insert_statements
from barnabas.connect_spark.connectors.jdbc.mysql_dialect import MARIADB, MYSQL
from barnabas.connect_spark.connectors.jdbc.row_database import mysql_type, sqlserver_type
from barnabas.connect_spark.connectors.jdbc.source_reading import Position, Reading

SQLSERVER = dialect_of("sqlserver")
STAGED = (
    'FROM (SELECT "id", "v", "__barnabas_deleted", ROW_NUMBER() OVER (PARTITION BY "id" ORDER BY '
    '"__barnabas_offset" DESC, "__barnabas_partition" DESC) AS "__barnabas_rank" FROM #barnabas_staging) AS r '
)


def test_sql_server_creates_tables() -> None:
    types = {"id": ColumnType(Kind.TEXT), "raw": ColumnType(Kind.BYTES), "price": ColumnType(Kind.DECIMAL, 10, 2)}
    assert SQLSERVER.create_table(("dbo", "t"), types, ("id",)) == (
        'CREATE TABLE "dbo"."t" ("id" NVARCHAR(255) COLLATE Latin1_General_100_BIN2 NOT NULL, '
        '"raw" VARBINARY(MAX), "price" DECIMAL(10,2), PRIMARY KEY ("id"))'
    )
    assert SQLSERVER.add_column(("t",), "n", ColumnType(Kind.INT8)) == 'ALTER TABLE "t" ADD "n" SMALLINT'
    assert SQLSERVER.create_staging(("t",), ["id"]) == (
        'SELECT t."id", CAST(NULL AS INT) AS "__barnabas_partition", CAST(NULL AS BIGINT) AS "__barnabas_offset", '
        'CAST(NULL AS BIT) AS "__barnabas_deleted" INTO #barnabas_staging FROM (SELECT 1 AS one) AS d '
        'LEFT JOIN "t" AS t ON 1 = 0 WHERE 1 = 0'
    )
    assert SQLSERVER.drop_staging == "DROP TABLE IF EXISTS #barnabas_staging"


def test_sql_server_merges_a_batch() -> None:
    delete, upsert = SQLSERVER.merge(("t",), ["id", "v"], ("id",), "upsert", deletes=True)
    assert delete == (
        'DELETE FROM "t" WHERE EXISTS (SELECT 1 FROM #barnabas_staging AS s '
        'WHERE s."__barnabas_deleted" = 1 AND s."id" = "t"."id")'
    )
    assert upsert == (
        f'MERGE INTO "t" WITH (HOLDLOCK) AS t USING (SELECT "id", "v" {STAGED}'
        'WHERE "__barnabas_rank" = 1 AND NOT "__barnabas_deleted" = 1) AS r ON t."id" = r."id" '
        'WHEN MATCHED THEN UPDATE SET "v" = r."v" '
        'WHEN NOT MATCHED THEN INSERT ("id", "v") VALUES (r."id", r."v");'
    )
    [update] = SQLSERVER.merge(("t",), ["id", "v"], ("id",), "update", deletes=False)
    assert update == (
        f'UPDATE t SET "v" = r."v" FROM "t" AS t INNER JOIN {STAGED.removeprefix("FROM ")}'
        'ON r."id" = t."id" WHERE r."__barnabas_rank" = 1 AND NOT r."__barnabas_deleted" = 1'
    )


def test_sql_server_keeps_positions() -> None:
    assert SQLSERVER.create_positions(("p",)).startswith(
        "IF OBJECT_ID(N'\"p\"', N'U') IS NULL CREATE TABLE \"p\" (connector NVARCHAR(255)"
    )
    assert SQLSERVER.read_positions(("p",), for_update=True).endswith(
        'FROM "p" WITH (UPDLOCK, HOLDLOCK) WHERE connector = ?'
    )
    assert 'USING (SELECT * FROM (VALUES (?, ?, ?, ?, ?, ?)) AS v ("connector"' in SQLSERVER.write_position(("p",))


def test_sql_server_reads_by_time() -> None:
    reading = Reading.of(SQLSERVER, ("t",), "", "timestamp", "", ("at",))
    micros = "DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01' AS DATETIME2(6)), r.\"at\")"
    until = "CAST('1970-01-01 00:00:00.000009' AS DATETIME2(6))"
    assert reading.end(Position(), 9, 100) == (
        f'SELECT NULL, {micros} FROM "t" AS r WHERE r."at" IS NOT NULL AND r."at" < {until} '
        'ORDER BY r."at" OFFSET 99 ROWS FETCH NEXT 1 ROWS ONLY'
    )


def test_mysql_has_a_collation_of_its_own() -> None:
    key = ColumnType(Kind.TEXT)
    assert MYSQL.key_type(key) == "VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin"
    assert MARIADB.key_type(key) == "VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin"


def test_literals_of_sql_server(tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"c0": ["it's \\", None, "c"], "c1": ["00FF", "", None]}), file)
    found = list(insert_statements("INSERT INTO s VALUES", [file], (0, 1), {1}, "sqlserver", rows_max=2))
    assert found == ["INSERT INTO s VALUES (N'it''s \\', 0x00FF), (NULL, 0x)", "INSERT INTO s VALUES (N'c', NULL)"]


@pytest.mark.parametrize(
    ("name", "precision", "scale", "wanted"),
    [
        ("integer unsigned", 10, 0, ColumnType(Kind.INT64)),
        ("bigint unsigned", 20, 0, ColumnType(Kind.DECIMAL, 20)),
        ("tinyint", 4, 0, ColumnType(Kind.INT8)),
        ("decimal", 10, 2, ColumnType(Kind.DECIMAL, 10, 2)),
        ("bit", 1, 0, ColumnType(Kind.BOOLEAN)),
        ("bit", 8, 0, ColumnType(Kind.BYTES)),
        ("json", 0, 0, ColumnType(Kind.TEXT)),
        ("datetime", 26, 6, ColumnType(Kind.TIMESTAMP)),
    ],
)
def test_types_of_mysql(name: str, precision: int, scale: int, wanted: ColumnType) -> None:
    assert mysql_type(name, precision, scale) == wanted


def test_types_of_sql_server() -> None:
    names = ("int identity", "money", "timestamp", "datetimeoffset", "float", "uniqueidentifier")
    kinds = (Kind.INT32, Kind.DECIMAL, Kind.BYTES, Kind.TIMESTAMP, Kind.FLOAT64, Kind.TEXT)
    assert tuple(sqlserver_type(name, 0, 0).kind for name in names) == kinds


def test_errors_that_a_retry_can_mend() -> None:
    assert is_transient_error("sqlserver", "40001", "deadlock", 1205)
    assert is_transient_error("sqlserver", "S0001", "There is already an object named 't'", 2714)
    assert not is_transient_error("sqlserver", "23000", "Violation of PRIMARY KEY constraint", 2627)
    assert is_transient_error("mysql", "40001", "Deadlock found")
    assert is_transient_error("mysql", "42S01", "Table 't' already exists")
    assert not is_transient_error("mysql", "22001", "Data too long for column")


@pytest.mark.parametrize(
    ("url", "dialect", "used"),
    [
        ("jdbc:mysql://h:3306/shop?useSSL=true", "mysql", "jdbc:mariadb://h:3306/shop?useSSL=true"),
        ("jdbc:mariadb://h/shop", "mysql", "jdbc:mariadb://h/shop"),
        ("jdbc:sqlserver://h:1433;databaseName=shop", "sqlserver", "jdbc:sqlserver://h:1433;databaseName=shop"),
    ],
)
def test_addresses(url: str, dialect: str, used: str) -> None:
    address = parse_address(url)
    assert (address.dialect, address.url) == (dialect, used)


@pytest.mark.parametrize(
    ("url", "part"),
    [
        ("jdbc:sqlserver://h;databaseName=s;user=sa;password=p", "has credentials in it"),
        ("jdbc:sqlserver://h", "does not name a server and a database"),
        ("jdbc:mysql://u:p@h/shop", "has credentials in it"),
        ("jdbc:mariadb://h/shop?password=p", "has credentials in it"),
        ("jdbc:oracle:thin:@h", "is not a usable database URL"),
    ],
)
def test_addresses_that_can_not_be_used(url: str, part: str) -> None:
    with pytest.raises(ValueError, match=part) as refused:
        parse_address(url)
    assert "=p" not in str(refused.value)
