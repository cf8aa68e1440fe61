"""What a task of the JDBC connectors has of its database: one connection, made again when it was given up, and a folder
for the files on their way."""

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
        """Touches nothing yet, so that it can be closed whatever fails. ``must_exist`` is as for ``connect``."""
        self._settings = settings
        self._spark = spark
        self._must_exist = must_exist
        self._database: Database | None = None
        self._folder: Path | None = None

    def folder(self) -> Path:
        """Made on the first call, and removed by ``close``. Raises TerminalError."""
        if self._folder is None:
            self._folder = staging_folder(self._settings, self._spark)
        return self._folder

    def database(self) -> Database:
        """Raises DatabaseError, TerminalError."""
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
