"""Column types that the databases have in common, and their names in each dialect. Nothing here accesses a database.

A field with parts (object, list, map, VARIANT) is stored as JSON text. Times are in UTC, without a zone.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["ColumnType", "Kind", "TableColumn"]


class Kind(Enum):
    BOOLEAN = "boolean"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    DECIMAL = "decimal"
    TEXT = "text"
    BYTES = "bytes"
    DATE = "date"
    TIMESTAMP = "timestamp"


WHOLE_NUMBERS = frozenset({Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64})


@dataclass(frozen=True, slots=True)
class ColumnType:
    kind: Kind
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of an existing table."""

    name: str
    type_name: str
    is_nullable: bool
    type: ColumnType
