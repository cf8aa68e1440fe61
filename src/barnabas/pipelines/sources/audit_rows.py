"""Rows of ``kafka-access-audit``."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import tzinfo
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import (
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from barnabas.pipelines.sources.arrow_rows import ArrowRows
from barnabas.pipelines.sources.audit_lines import AuditRow, Unreadable, parse_line

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["AUDIT_SCHEMA", "AuditRows"]

_ROWS_MAX: Final = 8_192

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
        self._rows = ArrowRows(AUDIT_SCHEMA, rows_max=_ROWS_MAX)

    def add(self, position: int, data: bytes) -> Iterator[pa.RecordBatch]:
        """Add a line, unless it is blank; yield what is full."""
        line = data.decode(errors="replace").rstrip("\r\n")
        if not line.strip():
            return
        try:
            row = parse_line(line, self._zone)
            if row.node_id is not None and row.node_id not in _INT32:
                raise Unreadable(f"node_id {row.node_id} does not fit 32 bits")
            columns: tuple[Any, ...] = (*row, None, None)
        except Unreadable as error:
            columns = (*_UNREADABLE, line, str(error))
        yield from self._rows.add((*columns, self._file, position), len(data))

    def add_problem(self, position: int, problem: str) -> None:
        self._rows.add_small((*_UNREADABLE, None, problem, self._file, position))

    def rest(self) -> Iterator[pa.RecordBatch]:
        return self._rows.rest()
