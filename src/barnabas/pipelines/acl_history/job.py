"""Write the ACL history of a metadata log as a table, once or while the log grows.

The number of a version is the offset of the last record that the history is made of. So running again without changes
writes nothing, and a stream and a batch over the same log have the same versions. A stream keeps the records of ACLs
beside the history (``changes``), because a record may end a rule of any age.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from barnabas.pipelines.acl_history.schema import RECORD_TYPES
from barnabas.pipelines.acl_history.transforms import acl_history
from barnabas.pipelines.sources.registration import register_sources
from barnabas.pipelines.tables.replaced_table import ReplacedTable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["HistoryTable", "follow_history", "read_acl_records", "write_history"]

_SCHEMA_VERSION = 1


class HistoryTable:
    """The tables below a folder."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self.history = ReplacedTable(spark, f"{path.rstrip('/')}/acl_history_v{_SCHEMA_VERSION}")
        self._changes = ReplacedTable(spark, f"{path.rstrip('/')}/acl_changes_v{_SCHEMA_VERSION}")

    def replace(self, records: DataFrame) -> None:
        """Write the history that ``records`` lead to."""
        self.history.write(acl_history(records), _last_offset(records))

    def add(self, records: DataFrame) -> None:
        """Add records that follow those before. Records that are known, as those of a new stream, change nothing."""
        last = _last_offset(records)
        if last < 0:
            return
        known = self._changes.read()
        if last > self._changes.version:
            new = records.where(_place() > self._changes.version)
            self._changes.write(new if known is None else known.unionByName(new), last)
        changes = self._changes.read()
        assert changes is not None
        self.history.write(acl_history(changes), last)


def read_acl_records(spark: SparkSession, path: str, options: Mapping[str, str] | None = None) -> DataFrame:
    """Return the records of ACLs in a metadata log, for ``acl_history``. ``options`` are those of the source."""
    register_sources(spark)
    return spark.read.format("kraft-metadata").options(**_options(options)).load(path)


def write_history(spark: SparkSession, path: str, output: str, options: Mapping[str, str] | None = None) -> None:
    """Write the history of the log at ``path`` to a table below ``output``."""
    records = read_acl_records(spark, path, options).cache()
    try:
        HistoryTable(spark, output).replace(records)
    finally:
        records.unpersist()


def follow_history(
    spark: SparkSession,
    path: str,
    output: str,
    checkpoint: str,
    *,
    options: Mapping[str, str] | None = None,
    interval: str | None = None,
) -> StreamingQuery:
    """Start a query that keeps the table up to date. ``interval`` None: it ends when it has read what exists."""
    register_sources(spark)
    table = HistoryTable(spark, output)

    def add(batch: DataFrame, _: int) -> None:
        kept = batch.cache()
        try:
            table.add(kept)
        finally:
            kept.unpersist()

    stream = spark.readStream.format("kraft-metadata").options(**_options(options)).load(path)
    writer = stream.writeStream.option("checkpointLocation", checkpoint).queryName("acl history").foreachBatch(add)
    ready = writer.trigger(availableNow=True) if interval is None else writer.trigger(processingTime=interval)
    return ready.start()


def _options(options: Mapping[str, str] | None) -> dict[str, str]:
    return {**(options or {}), "recordFormat": "struct", "types": ",".join(RECORD_TYPES), "raw": "false"}


def _last_offset(records: DataFrame) -> int:
    """Return the offset of the last record, or of the end of the snapshot if the log has none after it."""
    found = records.where(F.col("type").isNotNull()).agg(F.max(_place()).alias("last")).first()
    return -1 if found is None or found["last"] is None else int(found["last"])


def _place() -> Column:
    """Return the offset of a record; for those of a snapshot the last offset in it."""
    return F.coalesce(F.col("snapshot_offset") - 1, F.col("offset"))
