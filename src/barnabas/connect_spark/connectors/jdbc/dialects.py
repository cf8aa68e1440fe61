"""All dialects by name."""

from __future__ import annotations

from barnabas.connect_spark.connectors.jdbc.mysql_dialect import MARIADB
from barnabas.connect_spark.connectors.jdbc.sql_dialect import DUCKDB, POSTGRESQL, SQLITE, Dialect
from barnabas.connect_spark.connectors.jdbc.sqlserver_dialect import SQLSERVER

__all__ = ["dialect_of"]


def dialect_of(name: str) -> Dialect:
    """Return the dialect. ``mysql`` is MariaDB's until its server says that it is MySQL."""
    return {dialect.name: dialect for dialect in (SQLITE, POSTGRESQL, DUCKDB, MARIADB, SQLSERVER)}[name]
