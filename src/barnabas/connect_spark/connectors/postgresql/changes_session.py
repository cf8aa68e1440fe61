"""A task while it is connected: it reads tables, then streams, and confirms what is safe.

Every loss of a connection ends the session. The next one begins at the positions in Kafka.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from psycopg import Connection

from barnabas.connect.plugins.api import SourceOffset, TaskContext, TerminalError
from barnabas.connect_spark.connectors.postgresql.catalogue import Catalogue
from barnabas.connect_spark.connectors.postgresql.change_stream import ChangeStream
from barnabas.connect_spark.connectors.postgresql.debezium.envelope import event_plan
from barnabas.connect_spark.connectors.postgresql.debezium.events import Event
from barnabas.connect_spark.connectors.postgresql.event_frames import EventSource, UnusableValue
from barnabas.connect_spark.connectors.postgresql.handover.filter import uncovered
from barnabas.connect_spark.connectors.postgresql.handover.progress import (
    Key,
    TableProgress,
    place_of,
    place_offset,
    server_partition,
    table_partition,
)
from barnabas.connect_spark.connectors.postgresql.pgoutput.transactions import Place
from barnabas.connect_spark.connectors.postgresql.replication_stream import SlotInUse, StreamEnded
from barnabas.connect_spark.connectors.postgresql.settings import ChangesSettings
from barnabas.connect_spark.connectors.postgresql.slot_lag import SlotLag
from barnabas.connect_spark.connectors.postgresql.slot_setup import lost_slot, set_up_publication, set_up_slot
from barnabas.connect_spark.connectors.postgresql.snapshot_reading import compared_keys
from barnabas.connect_spark.connectors.postgresql.spark_frames import event_frame
from barnabas.connect_spark.connectors.postgresql.table_reading import TableReading
from barnabas.connect_spark.queries.polled_source import Polled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["ChangesSession"]

log = logging.getLogger(__name__)

_IN_USE_S = 120
_REMOVED = ("can no longer", "has already been removed", "has been invalidated", "does not exist")


class ChangesSession:
    def __init__(self, settings: ChangesSettings, connection: Connection, context: TaskContext) -> None:
        """Raise psycopg.Error or TerminalError."""
        self._settings = settings
        self._connection = connection
        self._context = context
        self._catalogue = Catalogue(connection)
        stored = self._stored_place()
        is_published_anew = set_up_publication(self._catalogue, settings)
        slot, is_new = set_up_slot(self._catalogue, settings, stored)
        self._place = stored or Place(slot.confirmed_lsn)
        """The place after the batch that was returned last."""
        self._safe_lsn = self._place.lsn
        """What is safe when the next batch is asked for. An open transaction of Kafka is not."""
        self._is_stored = stored is not None
        self._stored_at_s = time.monotonic()
        self._awaited_xid = self._catalogue.next_xid() if is_published_anew and not is_new else 0
        self._progress = self._stored_progress()
        self._lag = SlotLag(settings, self._catalogue, context)
        self._reading: TableReading | None = None
        self._stream: ChangeStream | None = None
        self._in_use_since_s: float | None = None
        self._to_read = self._tables_to_read()

    @property
    def is_streaming(self) -> bool:
        return self._stream is not None

    def close(self) -> None:
        for part in (self._stream, self._reading, self._connection):
            if part is not None:
                part.close()

    def poll(self, spark: SparkSession) -> Polled | None:
        """Raise psycopg.Error, ConnectionError or TerminalError."""
        self._lag.look()
        if self._stream is not None:
            self._stream.confirm(self._safe_lsn)
        if self._to_read or self._reading is not None:
            found = self._read_tables(spark)
            if found is not None or self._to_read:
                return found
        try:
            return self._next_changes(spark)
        except StreamEnded as error:
            if any(text in str(error) for text in _REMOVED):
                raise lost_slot(self._settings, f"can't be read: {error}", self._place) from error
            raise ConnectionError(f"PostgreSQL at {self._settings.login.name}: {error}") from error
        except UnusableValue as error:
            raise TerminalError(str(error)) from error

    # ---- positions

    def _stored_place(self) -> Place | None:
        partition = server_partition(self._settings.prefix)
        try:
            return place_of(self._context.source_offset(partition))
        except ValueError as error:
            raise TerminalError(f"the offset of {partition} can't be used: {error}. Reset or alter it.") from None

    def _stored_progress(self) -> dict[str, TableProgress]:
        found: dict[str, TableProgress] = {}
        for name in self._catalogue.published(self._settings.publication):
            if not self._settings.includes(name):
                continue
            partition = table_partition(self._settings.prefix, name)
            try:
                progress = TableProgress.of(self._context.source_offset(partition))
            except ValueError as error:
                raise TerminalError(f"the offset of {partition} can't be used: {error}. Reset or alter it.") from None
            if progress is not None:
                found[name] = progress
        return found

    def _place_offset(self) -> SourceOffset:
        self._is_stored, self._stored_at_s = True, time.monotonic()
        return SourceOffset(server_partition(self._settings.prefix), place_offset(self._place))

    def _progress_offset(self, name: str) -> SourceOffset:
        return SourceOffset(table_partition(self._settings.prefix, name), self._progress[name].offset())

    # ---- tables

    def _tables_to_read(self) -> list[str]:
        if not self._settings.reads_tables:
            return []
        published = [
            name for name in self._catalogue.published(self._settings.publication) if self._settings.includes(name)
        ]
        return [name for name in published if name not in self._progress or not self._progress[name].is_done]

    def _read_tables(self, spark: SparkSession) -> Polled | None:
        """Return the next parts; None if there are none, or if transactions must end first."""
        if self._awaited_xid:
            if self._catalogue.oldest_xid() < self._awaited_xid:
                return None
            self._awaited_xid = 0
        if self._reading is None:
            self._reading = TableReading(self._settings, self._to_read, self._progress)
        found = self._reading.next(spark)
        if found is None:
            self._reading = None
            log.info("task %s-%s has read all tables", self._context.connector, self._context.task)
            return None
        self._end_transaction()
        if self._is_stored:
            return found
        return Polled(found.records, [self._place_offset(), *found.offsets], topics=found.topics)

    # ---- the stream

    def _next_changes(self, spark: SparkSession) -> Polled | None:
        if self._stream is None and not self._begin_stream():
            return None
        assert self._stream is not None
        events = uncovered(self._stream.take(), self._progress, self._are_after)
        place, changed = self._stream.place, self._changed_progress(events, self._stream.place)
        is_due = time.monotonic() - self._stored_at_s >= self._settings.heartbeat_s
        if not events and not (is_due and place != self._place):
            return None
        self._place = place
        groups = _by_table(events)
        frames, topics = self._frames(spark, groups)
        offsets = [self._place_offset(), *(self._progress_offset(name) for name in changed)]
        if self._stream.is_between_transactions or self._context.transactions is None:
            self._end_transaction()
        return Polled(frames, offsets, [len(group) for group in groups], topics)

    def _end_transaction(self) -> None:
        """Have the batch that is returned next committed, also with ``transaction.boundary=connector``."""
        self._safe_lsn = self._place.lsn
        if self._context.transactions is not None:
            self._context.transactions.commit_transaction()

    def _begin_stream(self) -> bool:
        try:
            self._stream = ChangeStream(self._settings, self._catalogue, self._place)
        except SlotInUse as error:
            return self._wait_for_slot(error)
        self._in_use_since_s = None
        return True

    def _wait_for_slot(self, error: SlotInUse) -> bool:
        """Wait for the end of another connection: the one of a worker that died ends when the server notices."""
        now_s = time.monotonic()
        if self._in_use_since_s is None:
            self._in_use_since_s = now_s
            log.warning("task %s-%s waits: %s", self._context.connector, self._context.task, error)
        if now_s - self._in_use_since_s > _IN_USE_S:
            raise ConnectionError(
                f"{error}, for {_IN_USE_S} s. Every connector needs a slot of its own: set another slot.name, or end "
                "the other client"
            )
        return False

    def _changed_progress(self, events: Sequence[Event], place: Place) -> list[str]:
        """Note tables that appeared, and forget runs that the stream has passed. Return the changed ones."""
        changed = {
            event.table.full_name: TableProgress(is_done=True)
            for event in events
            if event.table.full_name not in self._progress
        }
        for name, progress in self._progress.items():
            if progress.passed(place.lsn) is not progress:
                changed[name] = progress.passed(place.lsn)
        self._progress.update(changed)
        return [*changed]

    def _are_after(self, table: str, columns: tuple[str, ...], until: Key, asked: list[Key]) -> list[bool]:
        found = self._catalogue.table(self._settings.publication, table)
        if found is None or {key.name for key in found.keys} != {*columns}:
            raise TerminalError(
                f"the key of {table} was changed while the table was read. Stop the connector, delete its offsets "
                "(DELETE /connectors/NAME/offsets), and resume it: the tables are read again"
            )
        places = [columns.index(key.name) for key in found.keys]
        ordered = [tuple([key[at] for at in places]) for key in asked]
        return compared_keys(self._connection, found.keys, until, ordered)

    def _frames(self, spark: SparkSession, groups: Sequence[list[Event]]) -> tuple[list[DataFrame], frozenset[str]]:
        """Return a frame for each table, and the topics."""
        settings, types = self._settings, {} if self._stream is None else self._stream.types
        source = EventSource(settings.prefix, settings.login.database)
        planned = [(group, event_plan(settings.prefix, group[0].table, types, settings.modes)) for group in groups]
        frames = [event_frame(spark, group, plan, source) for group, plan in planned]
        return frames, frozenset(plan.topic for _, plan in planned)


def _by_table(events: Sequence[Event]) -> list[list[Event]]:
    """Group events, in their order. A table with other columns than before is another group."""
    groups: dict[int, list[Event]] = {}
    for event in events:
        groups.setdefault(id(event.table), []).append(event)
    return [*groups.values()]
