"""Times of rows as times of UTC: PySpark returns them as those of this process, without a zone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC
from typing import Any

from pyspark.sql.types import ArrayType, DataType, MapType, StructType, TimestampType

__all__ = ["row_reader"]

Read = Callable[[Any], Any]


def row_reader(schema: StructType) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Return a function that gives the times in a row their zone. This process must run in UTC."""
    readers = [_reader(field.dataType) for field in schema.fields]
    if not any(readers):
        return lambda row: row
    return lambda row: [value if read is None else read(value) for read, value in zip(readers, row, strict=True)]


def _reader(data_type: DataType) -> Read | None:
    """Return None for types that have no times."""
    match data_type:
        case TimestampType():
            return lambda value: None if value is None else value.replace(tzinfo=UTC)
        case ArrayType(elementType=element):
            read = _reader(element)
            return None if read is None else _optional(lambda values: [read(value) for value in values])
        case MapType(keyType=key, valueType=value):
            of_key, of_value = _reader(key) or _same, _reader(value) or _same
            if of_key is _same and of_value is _same:
                return None
            return _optional(lambda values: {of_key(name): of_value(found) for name, found in values.items()})
        case StructType(fields=fields):
            readers = {field.name: _reader(field.dataType) for field in fields}
            if not any(readers.values()):
                return None
            return _optional(
                lambda row: {name: (read or _same)(row[index]) for index, (name, read) in enumerate(readers.items())}
            )
        case _:
            return None


def _optional(read: Read) -> Read:
    return lambda value: None if value is None else read(value)


def _same(value: Any) -> Any:
    return value
