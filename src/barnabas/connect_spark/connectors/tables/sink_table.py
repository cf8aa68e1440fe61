"""The ports of a table that keeps the positions of its sinks: a kind of table implements them for ``TableSinkTask``.

A transaction reads the table as it was when it began. Its commit adds and removes files, and sets positions, all or
nothing. It raises TableConflict if another writer has changed meanwhile what the transaction has read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from barnabas.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

__all__ = ["SinkTable", "TableConflict", "TableTransaction"]


class TableConflict(Exception):
    """Another writer has committed data that this transaction has read, or a schema change. Retry the transaction."""


class TableTransaction(Protocol):
    """A transaction, whose commit is checked against its reads."""

    @property
    def exists(self) -> bool: ...

    @property
    def schema(self) -> StructType: ...

    @property
    def file_column(self) -> str:
        """The column of ``rows`` with the file of a row; it must be selected to be there."""

    def positions(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the positions that the table stores."""

    def rows(self) -> DataFrame:
        """Return all rows."""

    def add(
        self,
        rows: DataFrame,
        *,
        merges_schema: bool,
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Write files. They belong to the table only after the commit. The last two arguments apply to a new table."""

    def remove(self, files: Sequence[str]) -> None:
        """Remove files by their names in ``rows``. The commit then conflicts with every writer that adds files."""

    def commit(self, positions: Mapping[TopicPartition, int]) -> None:
        """Commit the added and removed files, and the positions. Raise TableConflict."""


class SinkTable(Protocol):
    def begin(self) -> TableTransaction:
        """Start a transaction on the present table; a table that does not exist has no columns."""

    def set_positions(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Set positions on request; None removes one. The data stay unchanged. Raise TableConflict."""
