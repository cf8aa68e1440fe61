"""Rows of Parquet files as INSERT statements with literals, for databases whose drivers load no files.

Every value is text: Spark has written numbers, times and booleans as text already, and bytes as hexadecimal digits. Of
a row all work is done by columns, in Arrow. A statement has a limited size, because a server limits the size of what it
receives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

__all__ = ["insert_statements"]

_ROWS_AT_A_TIME = 20_000
_STATEMENT_CHARACTERS = 1_000_000
"""MariaDB takes 16 MB by default, and a character has at most 4 bytes."""


def insert_statements(
    head: str,
    files: Sequence[Path],
    places: Sequence[int],
    byte_places: set[int],
    dialect: str,
    *,
    rows_max: int,
) -> Iterator[str]:
    """Yield statements that begin with ``head`` (``INSERT INTO t (a, b) VALUES``). ``byte_places`` are columns that
    hold hexadecimal digits."""
    for file in files:
        for batch in pq.ParquetFile(file).iter_batches(_ROWS_AT_A_TIME, columns=[f"c{at}" for at in places]):
            by_name = {name: batch.column(at) for at, name in enumerate(batch.schema.names)}
            columns = [_literals(by_name[f"c{at}"], at in byte_places, dialect) for at in places]
            rows = pc.binary_join_element_wise(*columns, pa.scalar(", ")).to_pylist()
            for part in _parts(rows, rows_max):
                yield f"{head} ({'), ('.join(part)})"


def _literals(column: pa.Array, is_bytes: bool, dialect: str) -> pa.Array:
    text = column.cast(pa.string())
    if is_bytes:
        before, after = ("X'", "'") if dialect == "mysql" else ("0x", "")
    else:
        text = pc.replace_substring(text, "'", "''")
        before, after = ("'", "'") if dialect == "mysql" else ("N'", "'")
        if dialect == "mysql":
            text = pc.replace_substring(text, "\\", "\\\\")
    quoted = pc.binary_join_element_wise(pa.scalar(before), text, pa.scalar(after), pa.scalar(""))
    return pc.coalesce(quoted, pa.scalar("NULL"))


def _parts(rows: Sequence[str], rows_max: int) -> Iterator[Sequence[str]]:
    first = size = 0
    for at, row in enumerate(rows):
        if at > first and (at - first == rows_max or size + len(row) > _STATEMENT_CHARACTERS):
            yield rows[first:at]
            first, size = at, 0
        size += len(row)
    if first < len(rows):
        yield rows[first:]
