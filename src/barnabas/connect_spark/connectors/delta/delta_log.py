"""A Delta Lake table: its schema, its commits, and the positions that it keeps with its data.

Positions are Delta's own transaction identifiers, one for each topic-partition: the application is
``<name>:<topic>-<partition>``, its version the next offset to read. They are part of the table's state, so they outlive
the clean-up of its log. A commit writes positions and data together or not at all.

Delta's writer for DataFrames takes one identifier for each commit. Therefore this module uses Delta's transaction
through the classes of the pinned version (``barnabas.spark.connector_jars``). Delta's own command writes the files and
checks schema, constraints and generated columns. The identifiers are committed with the actions that it returns.

A transaction that reads a position conflicts with every writer that sets it at the same time.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from barnabas.common.topic_partition import TopicPartition
from barnabas.connect_spark.connectors.tables.sink_table import TableConflict
from barnabas.connect_spark.sessions.scala_values import ScalaValues
from barnabas.connect_spark.sessions.spark_packages import DELTA, require_package

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["DeltaTable", "DeltaTransaction", "refusal", "require_delta"]

_FORGOTTEN = -1


def require_delta(spark: SparkSession) -> None:
    """Raise TerminalError for a session without Delta Lake."""
    require_package(spark, DELTA, "TopicToDelta")


def _jvm(spark: SparkSession) -> Any:
    return spark._jvm


class DeltaTable:
    def __init__(self, spark: SparkSession, path: str, application: str) -> None:
        self.path = path
        self._spark = spark
        self._application = application
        self._delta = _jvm(spark).org.apache.spark.sql.delta
        self._scala = ScalaValues(_jvm(spark))
        self._log = self._delta.DeltaLog.forTable(self._session, path)

    def begin(self) -> DeltaTransaction:
        """Start a transaction on the present table; a table that does not exist has no columns."""
        return DeltaTransaction(self, self._log.startTransaction())

    def set_positions(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Set positions on request; None removes one. The data stay unchanged. Raise TableConflict."""
        transaction = self.begin()
        if transaction.exists:
            transaction.positions(offsets)
            transaction.commit({partition: _FORGOTTEN if to is None else to for partition, to in offsets.items()})

    @property
    def _session(self) -> Any:
        return self._spark._jsparkSession

    def identifier(self, partition: TopicPartition) -> str:
        return f"{self._application}:{partition.topic}-{partition.partition}"


@dataclass(slots=True)
class _Written:
    actions: list[Any]
    partitioned_by: Sequence[str]


class DeltaTransaction:
    """A transaction, whose commit is checked against its reads."""

    def __init__(self, table: DeltaTable, transaction: Any) -> None:
        self._table = table
        self._transaction = transaction
        self._scala = table._scala
        self._written = _Written([], ())

    @property
    def exists(self) -> bool:
        return bool(self._transaction.readVersion() >= 0)

    @property
    def file_column(self) -> str:
        return "_metadata.file_path"

    @property
    def schema(self) -> StructType:
        from pyspark.sql.types import StructType

        return StructType.fromJson(json.loads(self._transaction.metadata().schema().json()))

    def positions(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the positions that the table stores."""
        found = {
            partition: int(self._transaction.txnVersion(self._table.identifier(partition))) for partition in partitions
        }
        return {partition: offset for partition, offset in found.items() if offset >= 0}

    def rows(self) -> DataFrame:
        """Return all rows."""
        reader = self._table._spark.read.format("delta")
        return reader.option("versionAsOf", str(self._transaction.readVersion())).load(self._table.path)

    def add(
        self,
        rows: DataFrame,
        *,
        merges_schema: bool,
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Write files. They belong to the table only after the commit. The last two arguments apply to a new table."""
        delta, scala = self._table._delta, self._scala
        session = self._table._session
        options = delta.DeltaOptions(
            scala.map({"mergeSchema": "true"} if merges_schema else {}), session.sessionState().conf()
        )
        partition_by = () if self.exists else partition_by
        command = delta.commands.WriteIntoDelta(
            self._table._log,
            self._mode,
            options,
            scala.seq(partition_by),
            scala.map({} if self.exists else dict(properties or {})),
            rows._jdf,
            scala.none,
            scala.none,
        )
        self._written.actions += scala.items(command.write(self._transaction, session, scala.none, False))
        self._written.partitioned_by = partition_by

    def remove(self, files: Sequence[str]) -> None:
        """Remove files by the paths of ``rows``. The commit then conflicts with every writer that adds files."""
        delta, scala = self._table._delta, self._scala
        log = self._table._log
        # Any of Delta's commands can do it; this one is not run.
        command = delta.commands.WriteIntoDelta(
            log,
            self._mode,
            delta.DeltaOptions(scala.map({}), self._table._session.sessionState().conf()),
            scala.seq(()),
            scala.map({}),
            self._table._spark.createDataFrame([], self.schema)._jdf,
            scala.none,
            scala.none,
        )
        known = command.generateCandidateFileMap(log.dataPath(), self._transaction.filterFiles())
        removed = command.removeFilesFromPaths(log, known, scala.seq(files), _now_ms())
        self._written.actions += scala.items(removed)

    def commit(self, positions: Mapping[TopicPartition, int]) -> None:
        """Commit the added and removed files, and the positions. Raise TableConflict."""
        delta, scala = self._table._delta, self._scala
        now = scala.some(_now_ms())
        identifiers = [
            delta.actions.SetTransaction(self._table.identifier(partition), offset, now)
            for partition, offset in sorted(positions.items())
        ]
        columns = self._written.partitioned_by
        operation = getattr(delta, "DeltaOperations$Write")(
            self._mode, scala.some(scala.seq(columns)) if columns else scala.none, scala.none, scala.none
        )
        try:
            self._transaction.commit(scala.seq([*self._written.actions, *identifiers]), operation)
        except Exception as error:
            if _is_conflict(error):
                origin = getattr(error, "java_exception", None)
                text = str(error if origin is None else origin.getMessage()).strip()
                raise TableConflict(text.partition("\n")[0]) from error
            raise

    @property
    def _mode(self) -> Any:
        return _jvm(self._table._spark).org.apache.spark.sql.SaveMode.Append


def _is_conflict(error: Exception) -> bool:
    """Return whether the error is a conflict: Delta's exception itself, or PySpark's that has it as its origin."""
    origin = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    names = [str(error)]
    if origin is not None:
        names.append(str(origin.getClass().getName()))
    return any("Concurrent" in name or "MetadataChanged" in name or "ProtocolChanged" in name for name in names)


def refusal(error: Exception) -> str | None:
    """Return why a table rejects records, by its types or constraints; None for other errors."""
    from pyspark.errors import AnalysisException

    text = str(error).strip()
    if isinstance(error, AnalysisException):
        return " ".join(line.strip() for line in text.splitlines()[:6])[:500]
    found = re.search(r"DeltaInvariantViolationException: (.*)", text)
    return None if found is None else found[1][:500]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
