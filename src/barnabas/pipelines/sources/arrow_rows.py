"""Rows of a data source in Arrow batches of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

__all__ = ["ArrowRows"]

_BYTES_MAX: Final = 8 * 1024 * 1024


class ArrowRows:
    """Collects rows, whose times are milliseconds."""

    def __init__(self, schema: StructType, *, rows_max: int) -> None:
        """A batch ends with ``rows_max`` rows or 8 MiB; one row may be larger."""
        self._schema = to_arrow_schema(schema)
        self._rows_max = rows_max
        self._rows: list[Sequence[Any]] = []
        self._bytes = 0

    def add(self, row: Sequence[Any], size: int) -> Iterator[pa.RecordBatch]:
        """Add a row of about ``size`` bytes; yield what is full."""
        self.add_small(row)
        self._bytes += size
        if len(self._rows) >= self._rows_max or self._bytes >= _BYTES_MAX:
            yield from self.rest()

    def add_small(self, row: Sequence[Any]) -> None:
        """Add a row that is left for later, as that of a problem."""
        self._rows.append(row)

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that are left, if any."""
        rows, self._rows, self._bytes = self._rows, [], 0
        if rows:
            columns = zip(zip(*rows, strict=True), self._schema, strict=True)
            arrays = [_column(values, field.type) for values, field in columns]
            yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _column(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array:
    """Convert values. Times beyond Arrow's range, which only a damaged clock writes, become null."""
    if not pa.types.is_timestamp(arrow_type):
        return pa.array(values, type=arrow_type)
    limit = 2**63 // 1000 - 1
    micros = [None if value is None or abs(value) > limit else value * 1000 for value in values]
    return pa.array(micros, type=pa.int64()).cast(arrow_type)
