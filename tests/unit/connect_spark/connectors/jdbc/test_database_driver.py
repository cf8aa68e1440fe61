from __future__ import annotations

import pytest

from barnabas.connect_spark.connectors.jdbc.database_driver import is_transient_error


@pytest.mark.parametrize(
    ("dialect", "state", "message", "is_transient"),
    [
        ("postgresql", "40001", "could not serialize access", True),
        ("postgresql", "08006", "An I/O error occurred", True),
        ("postgresql", "57P01", "terminating connection", True),
        ("postgresql", "", "unknown error", True),
        ("postgresql", "42P07", 'relation "t" already exists', True),
        ("postgresql", "23505", 'violates unique constraint "pg_type_typname_nsp_index"', True),
        ("postgresql", "23505", 'violates unique constraint "t_pkey"', False),
        ("postgresql", "22P02", "invalid input syntax for type integer", False),
        ("postgresql", "28P01", "password authentication failed", False),
        ("duckdb", "", "Constraint Error: Duplicate key", False),
        ("duckdb", "", "TransactionContext Error: Conflict on tuple", True),
        ("duckdb", "", "IO Error: Could not set lock on file", True),
    ],
)
def test_transient_errors_are_distinguished_from_permanent_ones(
    dialect: str, state: str, message: str, is_transient: bool
) -> None:
    assert is_transient_error(dialect, state, message) is is_transient
