"""Positions of a sink as rows of a table in its database: what of each partition is in the database already."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.connect.plugins.api import SinkBatch, TopicPartition
from barnabas.connect_spark.connectors.jdbc.database import Database
from barnabas.connect_spark.positions.sink_positions import refuse_unless_next

__all__ = ["Positions"]


class Positions:
    def __init__(self, connector: str, task: int, table: str) -> None:
        self._connector = connector
        self._task = task
        self._table = tuple(table.split(".", 1))

    def prepare(self, database: Database) -> None:
        """Make the table if it is not there; of two who do at once, one is told by the database and tries again."""
        if not database.columns(self._table):
            database.begin()
            database.execute(database.dialect.create_positions(self._table))
        database.commit()

    def read(self, database: Database, *, for_update: bool = False) -> dict[TopicPartition, int]:
        return {each: offset for each, (offset, _) in self._read(database, for_update=for_update).items()}

    def is_done(self, database: Database, batch: SinkBatch) -> bool:
        """Whether the batch is in the database, which happens if only the answer to its commit got lost.

        Raises TerminalError if somebody else has written what the batch begins with.
        """
        noted = self._read(database, for_update=True)
        if batch.ranges and all(noted.get(each) == (end, batch.id) for each, end in batch.positions.items()):
            return True
        refuse_unless_next({each: offset for each, (offset, _) in noted.items()}, batch.ranges, "the database")
        return False

    def write(self, database: Database, batch: SinkBatch) -> None:
        statement = database.dialect.write_position(self._table)
        for (topic, partition), offset in sorted(batch.positions.items()):
            database.execute(statement, (self._connector, self._task, topic, partition, offset, batch.id))

    def set(self, database: Database, offsets: Mapping[TopicPartition, int | None]) -> None:
        """By hand; None forgets one. The data stay as they are."""
        database.begin()
        for (topic, partition), offset in offsets.items():
            if offset is None:
                forget = database.dialect.forget_position(self._table)
                database.execute(forget, (self._connector, topic, partition))
            else:
                row = (self._connector, self._task, topic, partition, offset, -1)
                database.execute(database.dialect.write_position(self._table), row)
        database.commit()

    def _read(self, database: Database, *, for_update: bool) -> dict[TopicPartition, tuple[int, int]]:
        sql = database.dialect.read_positions(self._table, for_update=for_update)
        rows = database.rows(sql, (self._connector,))
        return {TopicPartition(str(row[0]), int(row[1])): (int(row[2]), int(row[3])) for row in rows}
