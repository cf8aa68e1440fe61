"""The schema that all tasks of a connector share for their files: given, read from existing files, or inferred.

It is stored beside the positions (``file_commits``) and grows under their lock, before the first file that needs it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from barnabas.connect.plugins.api import TerminalError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from barnabas.connect_spark.connectors.files.file_rows import FileRows, FoundColumns
    from barnabas.connect_spark.connectors.files.file_schema import FileSchema, Growth

__all__ = ["SchemaStore", "SharedSchema"]

log = logging.getLogger(__name__)

_TYPED = ("parquet", "orc")


class SchemaStore(Protocol):
    """Keeps the schema with the commits of a connector's files."""

    @property
    def schema_place(self) -> str:
        """Where the schema is, for messages."""

    def change_schema(self, change: Callable[[str | None], str | None]) -> None:
        """Change the stored schema. ``change`` receives it, or None, and returns the new one; it may be called again.

        No other task changes the schema meanwhile. Raise what ``change`` raises.
        """

    def data_files(self, extension: str) -> Sequence[str]:
        """Return the data files that this connector has committed."""


class SharedSchema:
    """``target`` names the files in messages."""

    def __init__(self, commits: SchemaStore, target: str, file_format: str) -> None:
        self._commits = commits
        self._target = target
        self._format = file_format

    @property
    def _is_typed(self) -> bool:
        return self._format in _TYPED

    def open(self, spark: SparkSession, given: str) -> None:
        """Open the schema. ``given`` are columns as in CREATE TABLE.

        Raise TerminalError for columns that have other types in the files, and for files of an earlier release that
        have several types for one column.
        """
        from barnabas.connect_spark.connectors.files.file_schema import FileSchema, grown

        columns = _parsed(given)

        def opened(stored: str | None) -> str | None:
            known = self._read(stored)
            if known is None:
                known = self._of_files(spark)
            if known is None and not len(columns):
                return stored
            known = known or FileSchema()
            self._refuse_other_types(known, columns)
            growth = grown(known.columns, columns)
            return FileSchema(growth.columns, True if len(columns) else known.is_object).to_json()

        self._commits.change_schema(opened)

    def rows(self, found: FoundColumns) -> FileRows:
        """Return how a batch becomes rows, after adding its columns to the schema."""
        from barnabas.connect_spark.connectors.files.file_rows import FileRows
        from barnabas.connect_spark.connectors.files.file_schema import FileSchema

        result: list[tuple[FileSchema, Growth]] = []

        def grow(stored: str | None) -> str | None:
            known = self._read(stored) or FileSchema()
            schema, growth = found.grow(known)
            if not self._is_typed:
                schema = FileSchema(_texts(schema.columns), schema.is_object)
            result.append((schema, growth))
            if growth.clashing and not found.is_schemaless:
                return stored
            if growth.added:
                log.info("the files of %s have these columns from now on: %s", self._target, ", ".join(growth.added))
            return schema.to_json() if schema != known else stored

        self._commits.change_schema(grow)
        schema, growth = result[-1]
        return FileRows(found, schema, growth, self._target, is_typed=self._is_typed)

    def _read(self, stored: str | None) -> FileSchema | None:
        from barnabas.connect_spark.connectors.files.file_schema import FileSchema

        if stored is None:
            return None
        try:
            return FileSchema.from_json(stored)
        except ValueError as error:
            raise TerminalError(
                f"{self._commits.schema_place} can't be read: {error}. Restore it, or remove it to read the schema "
                "from the files."
            ) from error

    def _of_files(self, spark: SparkSession) -> FileSchema | None:
        """Read the schema of files from a release without schema.json, or whose schema.json was lost."""
        from barnabas.connect_spark.connectors.files.file_schema import FileSchema

        files = list(self._commits.data_files(self._format))
        if not files or not self._is_typed:
            return None
        try:
            columns = spark.read.option("mergeSchema", "true").format(self._format).load(files).schema
        except Exception as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise TerminalError(
                f"the files that the connector has written to {self._target} have no schema in common, so no reader "
                f"can read them together: {reason}. Move them elsewhere, or set directory to another folder."
            ) from error
        log.info("the schema of the %d files in %s is %s", len(files), self._target, columns.simpleString())
        of_values = [name for name in columns.fieldNames() if not name.startswith("_")]
        return FileSchema(columns, of_values != ["value"])

    def _refuse_other_types(self, known: FileSchema, columns: StructType) -> None:
        kinds = {column.name: column.dataType for column in known.columns}
        for column in columns:
            kind = kinds.get(column.name)
            if kind is not None and kind != column.dataType:
                raise TerminalError(
                    f"schema: {column.name} is {column.dataType.simpleString().upper()}, but in the files of "
                    f"{self._target} it is {kind.simpleString().upper()}. A column's type can't "
                    "change: set that type, or write to another folder."
                )


def _parsed(given: str) -> StructType:
    """Parse the columns. Raise TerminalError."""
    from pyspark.sql.types import DataType, StructType

    if not given.strip():
        return StructType()
    try:
        found = DataType.fromDDL(given)
    except Exception as error:
        reason = str(error).strip().splitlines()[0]
        raise TerminalError(
            f"schema: {given} can't be read; write it as in CREATE TABLE, for example: id BIGINT, price DOUBLE. Spark "
            f"says: {reason}"
        ) from error
    if not isinstance(found, StructType):
        raise TerminalError(f"schema: {given} has no column names; write it as in CREATE TABLE, for example: id BIGINT")
    return found


def _texts(columns: StructType) -> StructType:
    from pyspark.sql.types import StringType, StructField, StructType

    return StructType([StructField(column.name, StringType()) for column in columns])
