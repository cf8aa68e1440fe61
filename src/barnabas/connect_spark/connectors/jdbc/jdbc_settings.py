"""The settings of both JDBC connectors, by the names of the widely known ones, and the connection that they define."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.connect.plugins.api import (
    REQUIRED,
    ConfigKey,
    ConfigType,
    Importance,
    NonEmptyString,
    Password,
    TerminalError,
)
from barnabas.connect_spark.connectors.jdbc.database import Database, SqliteDatabase
from barnabas.connect_spark.connectors.jdbc.database_address import address_error, parse_address
from barnabas.connect_spark.connectors.jdbc.database_driver import DriverDatabase
from barnabas.connect_spark.connectors.jdbc.row_database import RowDatabase
from barnabas.connect_spark.sessions.shared_folder import place_of, require_shared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["CONNECTION", "STAGING", "connect", "connection_errors", "staging_folder"]

URL, USER, PASSWORD = "connection.url", "connection.user", "connection.password"
STAGING_DIRECTORY = "staging.directory"
_OF_JAVA = {"dialect.name": "", "table.types": "table", "db.timezone": "utc", "quote.sql.identifiers": "always"}

CONNECTION = (
    ConfigKey(
        URL,
        ConfigType.STRING,
        REQUIRED,
        "The database: jdbc:sqlite:/path, jdbc:duckdb:/path, jdbc:postgresql://host:port/database, jdbc:mariadb: and "
        "jdbc:mysql: in the same form, or jdbc:sqlserver://host:port;databaseName=database.",
        NonEmptyString(),
        Importance.HIGH,
    ),
    ConfigKey(USER, ConfigType.STRING, None, "The user of the database.", importance=Importance.HIGH),
    ConfigKey(PASSWORD, ConfigType.PASSWORD, None, "The password of the user.", importance=Importance.HIGH),
)
STAGING = ConfigKey(
    STAGING_DIRECTORY,
    ConfigType.STRING,
    "",
    "A folder for the files between Spark and the database. With Spark inside the worker it may be empty; on a "
    "cluster the worker and all executors must see it under the same path.",
    importance=Importance.LOW,
)


def connect(settings: Mapping[str, Any], spark: SparkSession | None, *, must_exist: bool = False) -> Database:
    """Connect. ``must_exist`` (sources): don't create a missing file. Raise DatabaseError or TerminalError."""
    try:
        address = parse_address(str(settings[URL]))
    except ValueError as error:
        raise TerminalError(f"{URL}: {error}") from None
    if address.path is not None and not address.path.parent.is_dir():
        raise TerminalError(f"{URL}: no such folder: {address.path.parent}. Create it, or write another path.")
    if must_exist and address.path is not None and not address.path.exists():
        raise TerminalError(f"{URL}: {address.path} does not exist on this worker. Correct the path.")
    if address.dialect == "sqlite":
        return SqliteDatabase(address)
    password = settings[PASSWORD]
    kind = RowDatabase if address.dialect in ("mysql", "sqlserver") else DriverDatabase
    return kind(address, settings[USER], password.value if isinstance(password, Password) else password, spark)


def staging_folder(settings: Mapping[str, object], spark: SparkSession) -> Path:
    """Create a folder, which the caller removes. Raise TerminalError."""
    given = str(settings[STAGING_DIRECTORY] or "")
    place = place_of(spark)
    if not given and place is not None:
        raise TerminalError(
            f"Spark runs on {place}, and its executors must see the files that go to the database: set "
            f"{STAGING_DIRECTORY} to a folder that the worker and they share."
        )
    try:
        if given:
            Path(given).mkdir(parents=True, exist_ok=True)
            require_shared(spark, Path(given), STAGING_DIRECTORY)
        return Path(tempfile.mkdtemp(prefix="barnabas-jdbc-", dir=given or None))
    except OSError as error:
        raise TerminalError(f"{STAGING_DIRECTORY}: {given or tempfile.gettempdir()}: {error.strerror}") from error


def connection_errors(
    config: Mapping[str, str], settings: Mapping[str, object], others_of_java: Mapping[str, str]
) -> dict[str, Sequence[str]]:
    """Return the errors of the URL, and of settings of Java's connectors that would be ignored.

    ``others_of_java`` are settings that only one of the two connectors has, each with the value that has no effect.
    """
    errors: dict[str, Sequence[str]] = {
        name: [f"{name}={config[name]} is not supported: remove it, or write {plain or 'nothing'}."]
        for name, plain in (_OF_JAVA | dict(others_of_java)).items()
        if name in config and config[name].strip().lower() != plain
    }
    if URL in settings and (wrong := address_error(settings, URL)):
        errors[URL] = wrong
    return errors
