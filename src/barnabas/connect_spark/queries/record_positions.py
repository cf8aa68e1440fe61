"""Positions and ends of transactions that are columns of a source's records, as they are fields of Connect's records.

A batch is divided after each record with a mark. The order of rows is that of ``collect``: by Spark partition, then by
place. Each part is read and written on its own, so a batch with marks is kept in Spark's memory, or on its disks, while
its parts are written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from barnabas.connect.decide.tasks.transaction_requests import TransactionEnd
from barnabas.connect.plugins.api import TerminalError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from barnabas.connect_spark.queries.source_delivery import Offsets

__all__ = ["POSITION_COLUMNS", "TRANSACTION", "Part", "check_positions", "has_positions", "parts_of"]

POSITION_COLUMNS = ("source_partition", "source_offset")
TRANSACTION = "transaction"

_NUMBER = "barnabas_number"
_ENDS = {"commit": TransactionEnd.COMMIT, "abort": TransactionEnd.ABORT}


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive records of a batch, without the columns of this module."""

    records: DataFrame
    offsets: Offsets
    end: TransactionEnd


def has_positions(frame: DataFrame) -> bool:
    return bool(set(frame.columns) & {*POSITION_COLUMNS, TRANSACTION})


def check_positions(frame: DataFrame) -> None:
    """Raise TerminalError for columns of positions that can't be used."""
    from pyspark.sql.types import MapType, StringType, StructType

    if not has_positions(frame):
        return
    for name in POSITION_COLUMNS:
        if name not in frame.columns or not isinstance(frame.schema[name].dataType, StructType | MapType):
            raise TerminalError(
                f"SourceTask.read returned the columns {', '.join(frame.columns)}. Records with positions have "
                "source_partition and source_offset, both structs or maps; transaction needs them"
            )
    if TRANSACTION in frame.columns and not isinstance(frame.schema[TRANSACTION].dataType, StringType):
        raise TerminalError("the column transaction of SourceTask.read must be a string: commit, abort or null")


@contextmanager
def parts_of(batch: DataFrame, *, has_boundaries: bool) -> Iterator[list[Part]]:
    """Divide a batch after its marks, if the task defines boundaries. An empty batch has one part.

    Raise TerminalError for an unknown mark.
    """
    from pyspark.sql import functions as F

    numbered = batch.withColumn(_NUMBER, F.monotonically_increasing_id()).persist()
    try:
        marks = _marks(numbered) if has_boundaries and TRANSACTION in batch.columns else []
        yield [*_parts(numbered, marks)]
    finally:
        numbered.unpersist()


def _marks(numbered: DataFrame) -> list[tuple[int, TransactionEnd]]:
    marked = numbered.filter(numbered[TRANSACTION].isNotNull()).select(_NUMBER, TRANSACTION)
    rows = [(row[_NUMBER], row[TRANSACTION]) for row in marked.orderBy(_NUMBER).collect()]
    unknown = [mark for _, mark in rows if mark not in _ENDS]
    if unknown:
        raise TerminalError(f"the column transaction of a record is {unknown[0]!r}. It must be commit, abort or null")
    return [(number, _ENDS[mark]) for number, mark in rows]


def _parts(numbered: DataFrame, marks: list[tuple[int, TransactionEnd]]) -> Iterator[Part]:
    from pyspark.sql import functions as F

    number, after = numbered[_NUMBER], -1
    for last, end in marks:
        yield _part(numbered.filter((number > after) & (number <= last)), end)
        after = last
    greatest = numbered.agg(F.max(_NUMBER)).collect()[0][0] if marks else None
    if greatest != after:
        yield _part(numbered.filter(number > after), TransactionEnd.NONE)


def _part(numbered: DataFrame, end: TransactionEnd) -> Part:
    records = numbered.drop(*POSITION_COLUMNS, TRANSACTION, _NUMBER)
    return Part(records, _last_offsets(numbered), end)


def _last_offsets(numbered: DataFrame) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return the offset of the last record of each source partition. Records without a position have none."""
    from pyspark.sql import functions as F

    partition, offset = (F.to_json(name) for name in POSITION_COLUMNS)
    known = numbered.filter(partition.isNotNull() & offset.isNotNull())
    last = known.groupBy(partition.alias("partition")).agg(F.max_by(offset, F.col(_NUMBER)).alias("offset"))
    return [(json.loads(row["partition"]), json.loads(row["offset"])) for row in last.collect()]
