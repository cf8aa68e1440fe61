"""A sink's positions as rows of a table in its database: the next offset to write of each partition."""

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
        """Create the table if it does not exist. Of two concurrent creators one receives an error and retries."""
        if not database.columns(self._table):
            database.begin()
            database.execute(database.dialect.create_positions(self._table))
        database.commit()

    def read(self, database: Database, *, for_update: bool = False) -> dict[TopicPartition, int]:
        return {partition: offset for partition, (offset, _) in self._read(database, for_update=for_update).items()}

    def is_done(self, database: Database, batch: SinkBatch) -> bool:
        """Return whether the database has the batch. That happens if only the answer to its commit was lost.

        Raise TerminalError if another writer has written the first records of the batch.
        """
        noted = self._read(database, for_update=True)
        if batch.ranges and all(noted.get(partition) == (end, batch.id) for partition, end in batch.positions.items()):
            return True
        refuse_unless_next(
            {partition: offset for partition, (offset, _) in noted.items()}, batch.ranges, "the database"
        )
        return False

    def write(self, database: Database, batch: SinkBatch) -> None:
        statement = database.dialect.write_position(self._table)
        for (topic, partition), offset in sorted(batch.positions.items()):
            database.execute(statement, (self._connector, self._task, topic, partition, offset, batch.id))

    def set(self, database: Database, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Set positions on request; None removes one. The data stay unchanged."""
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
