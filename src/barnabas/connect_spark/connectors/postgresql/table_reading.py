"""Read the tables that have no position yet, or that an earlier run has not finished."""

from __future__ import annotations

import logging
from collections.abc import Iterator, MutableMapping
from functools import partial
from typing import TYPE_CHECKING, Any

from psycopg.errors import UndefinedTable

from barnabas.connect.plugins.api import SourceOffset
from barnabas.connect_spark.connectors.postgresql.catalogue import SnapshotTable
from barnabas.connect_spark.connectors.postgresql.debezium.column_types import PostgresType
from barnabas.connect_spark.connectors.postgresql.debezium.envelope import EventPlan, event_plan
from barnabas.connect_spark.connectors.postgresql.debezium.events import Event, Origin
from barnabas.connect_spark.connectors.postgresql.event_frames import EventSource
from barnabas.connect_spark.connectors.postgresql.handover.progress import TableProgress, table_partition
from barnabas.connect_spark.connectors.postgresql.settings import ChangesSettings
from barnabas.connect_spark.connectors.postgresql.snapshot_reading import Part, PartReading, SnapshotSession
from barnabas.connect_spark.connectors.postgresql.spark_frames import event_frame, frame_schema
from barnabas.connect_spark.queries.polled_source import Polled

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["TableReading"]

log = logging.getLogger(__name__)


class TableReading:
    """The reading of tables, one after another. Each has a snapshot of its own, so none is locked for longer than it
    takes to read it."""

    def __init__(
        self, settings: ChangesSettings, tables: list[str], progress: MutableMapping[str, TableProgress]
    ) -> None:
        """``progress`` is changed as tables are read; read tables are removed from ``tables``."""
        self._settings = settings
        self._progress = progress
        self._names = tables
        self._session: SnapshotSession | None = None
        self._types: dict[int, PostgresType] = {}
        self._table: SnapshotTable | None = None

    def next(self, spark: SparkSession) -> Polled | None:
        """Return the next parts; None if all tables are read. Those of the previous call are safe.

        Raise psycopg.Error.
        """
        if self._table is None:
            self.close()
        while self._names:
            session, table = self._begun(self._names[0])
            if session is not None and table is not None:
                return self._parts(spark, session, table)
            self.close()
            self._names.pop(0)  # It was dropped.
        return None

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _begun(self, name: str) -> tuple[SnapshotSession | None, SnapshotTable | None]:
        if self._table is None:
            try:
                self._session = SnapshotSession(self._settings.login, name)
            except UndefinedTable:
                return None, None
            self._types = self._session.catalogue.types()
            self._table = self._session.catalogue.table(self._settings.publication, name)
        return self._session, self._table

    def _parts(self, spark: SparkSession, session: SnapshotSession, table: SnapshotTable) -> Polled:
        name = table.table.full_name
        settings, found = self._settings, self._progress.get(name)
        plan = event_plan(settings.prefix, table.table, self._types, settings.modes)
        frames: list[DataFrame] = []
        if found is None or (found.file != table.file or not table.keys):
            if found is not None and "t" not in settings.skipped:
                frames.append(event_frame(spark, [_truncation(session, table)], plan, self._source))
            if found is None or found.runs:
                log.info("reading the table %s%s", name, "" if found is None else " again: it was rewritten")
            found = TableProgress(is_done=False, file=table.file)
        parts = session.parts(table, found.last_key, settings.part_rows, settings.parts)
        frames.append(self._frame(spark, session, table, plan, parts))
        is_done = parts[-1].until is None
        progress = found.after(session.run(parts[-1].until), is_done=is_done)
        self._progress[name] = progress
        if is_done:
            self._names.pop(0)
            self._table = None
        offset = SourceOffset(table_partition(settings.prefix, name), progress.offset())
        return Polled(frames, [offset], topics=frozenset({plan.topic}))

    @property
    def _source(self) -> EventSource:
        return EventSource(self._settings.prefix, self._settings.login.database)

    def _frame(
        self,
        spark: SparkSession,
        session: SnapshotSession,
        table: SnapshotTable,
        plan: EventPlan,
        parts: list[Part],
    ) -> DataFrame:
        reading = PartReading(
            self._settings.login,
            session.snapshot_id,
            table,
            self._types,
            self._settings.modes,
            self._source,
            session.lsn,
            session.at_us,
        )
        numbers = spark.range(0, len(parts), 1, len(parts))
        read: Any = partial(_read, reading=reading, parts=parts)
        return numbers.mapInArrow(read, frame_schema(plan))


def _truncation(session: SnapshotSession, table: SnapshotTable) -> Event:
    origin = Origin(session.lsn, None, session.at_us, is_snapshot=True)
    return Event(table.table, "t", None, None, None, origin)


def _read(batches: Iterator[pa.RecordBatch], *, reading: PartReading, parts: list[Part]) -> Iterator[pa.RecordBatch]:
    return reading.read(batches, parts)
