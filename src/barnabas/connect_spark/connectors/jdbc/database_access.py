"""A task's access to its database: one connection, reopened after it was closed, and a folder for files."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.connect_spark.connectors.jdbc.database import Database
from barnabas.connect_spark.connectors.jdbc.jdbc_settings import connect, staging_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["DatabaseAccess"]


class DatabaseAccess:
    def __init__(self, settings: Mapping[str, object], spark: SparkSession, *, must_exist: bool = False) -> None:
        """Open nothing yet, so that ``close`` works whatever fails. ``must_exist`` is as for ``connect``."""
        self._settings = settings
        self._spark = spark
        self._must_exist = must_exist
        self._database: Database | None = None
        self._folder: Path | None = None

    def folder(self) -> Path:
        """Return the folder. The first call creates it, and ``close`` removes it. Raise TerminalError."""
        if self._folder is None:
            self._folder = staging_folder(self._settings, self._spark)
        return self._folder

    def database(self) -> Database:
        """Return the connection. Raise DatabaseError or TerminalError."""
        if self._database is None:
            self._database = connect(self._settings, self._spark, must_exist=self._must_exist)
        return self._database

    def disconnect(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            database.close()

    def close(self) -> None:
        self.disconnect()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
