"""Rows of ``kafka-access-audit``, in Arrow batches of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import tzinfo
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from barnabas.pipelines.sources.audit_lines import AuditRow, Unreadable, parse_line

__all__ = ["AUDIT_SCHEMA", "AuditRows"]

_ROWS_MAX: Final = 8_192
_BYTES_MAX: Final = 8 * 1024 * 1024

AUDIT_SCHEMA = StructType(
    [
        StructField("kind", StringType()),
        StructField("format", StringType()),
        StructField("first_time", TimestampType()),
        StructField("last_time", TimestampType()),
        StructField("decisions", LongType()),
        StructField("references", LongType()),
        StructField("allowed", BooleanType()),
        StructField("principal", StringType()),
        StructField("host", StringType()),
        StructField("operation", StringType()),
        StructField("resource_type", StringType()),
        StructField("pattern_type", StringType()),
        StructField("resource_name", StringType()),
        StructField("api", StringType()),
        StructField("api_version", IntegerType()),
        StructField("client_id", StringType()),
        StructField("listener", StringType()),
        StructField("connection_id", StringType()),
        StructField("correlation_id", LongType()),
        StructField("forwarded_by", StringType()),
        StructField("rule", StringType()),
        StructField("rule_id", StringType()),
        StructField("rule_text", StringType()),
        StructField("node_id", IntegerType()),
        StructField("dropped", LongType()),
        StructField("line", StringType()),
        StructField("problem", StringType()),
        StructField("file", StringType()),
        StructField("position", LongType()),
    ]
)
"""The fields of ``AuditRow``, then the line and the problem if it can't be read, and where it is.

``position`` is in bytes of the (decompressed) file, or the offset in a segment of the topic.
"""

_INT32: Final = range(-(2**31), 2**31)
_UNREADABLE = (None,) * len(AuditRow._fields)


class AuditRows:
    """Collects the rows of one file."""

    def __init__(self, file: str, zone: tzinfo) -> None:
        self._file = file
        self._zone = zone
        self._schema = to_arrow_schema(AUDIT_SCHEMA)
        self._rows: list[tuple[Any, ...]] = []
        self._bytes = 0

    def add(self, position: int, data: bytes) -> Iterator[pa.RecordBatch]:
        """Add a line, unless it is blank; yield what is full."""
        line = data.decode(errors="replace").rstrip("\r\n")
        if not line.strip():
            return
        try:
            row = parse_line(line, self._zone)
            if row.node_id is not None and row.node_id not in _INT32:
                raise Unreadable(f"node_id {row.node_id} does not fit 32 bits")
            self._rows.append((*row, None, None, self._file, position))
        except Unreadable as error:
            self._rows.append((*_UNREADABLE, line, str(error), self._file, position))
        self._bytes += len(data)
        if len(self._rows) >= _ROWS_MAX or self._bytes >= _BYTES_MAX:
            yield from self.rest()

    def add_problem(self, position: int, problem: str) -> None:
        self._rows.append((*_UNREADABLE, None, problem, self._file, position))

    def rest(self) -> Iterator[pa.RecordBatch]:
        rows, self._rows, self._bytes = self._rows, [], 0
        if rows:
            arrays = [
                _column(column, field.type) for column, field in zip(zip(*rows, strict=True), self._schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _column(values: tuple[Any, ...], arrow_type: pa.DataType) -> pa.Array:
    if not pa.types.is_timestamp(arrow_type):
        return pa.array(values, type=arrow_type)
    limit = 2**63 // 1000 - 1
    micros = [None if value is None or abs(value) > limit else value * 1000 for value in values]
    return pa.array(micros, type=pa.int64()).cast(arrow_type)
