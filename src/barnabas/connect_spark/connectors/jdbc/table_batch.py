"""Prepare a batch of records for tables: its columns, and files that the database can load.

Spark writes one folder of Parquet files for each topic. Columns are named by their place, so that names which differ
only in case do not clash. Our own columns follow the fields: partition, offset, whether the record deletes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from barnabas.connect.plugins.api import TerminalError
from barnabas.connect_spark.connectors.jdbc.column_types import ColumnType, Kind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

__all__ = ["Fields", "TopicFiles", "fields_of", "topic_files", "write_files"]

_TOPIC = "__barnabas_topic"
_TEXT_DIALECTS = ("postgresql", "mysql", "sqlserver")
"""Databases whose clients take every value as text."""


@dataclass(frozen=True, slots=True)
class Fields:
    """The columns to write: keys first, in the order of ``pk.fields``."""

    columns: Mapping[str, tuple[Column, ColumnType]]
    keys: tuple[str, ...]
    value_is_object: bool


def fields_of(df: DataFrame, settings: Mapping[str, Any]) -> Fields:
    """Return the fields. Raise TerminalError for keys or values that have no columns."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import NullType, StringType, StructType

    value_type, key_type = df.schema["value"].dataType, df.schema["key"].dataType
    wanted = [str(field) for field in settings["pk.fields"] or ()]
    only = {str(field) for field in settings["fields.whitelist"] or ()}
    values = _members(F.col("value"), value_type)
    mode = str(settings["pk.mode"])
    keys: dict[str, tuple[Column, DataType]] = {}
    if mode == "kafka":
        names = wanted or ["__connect_topic", "__connect_partition", "__connect_offset"]
        keys = {
            name: (F.col(place), df.schema[place].dataType)
            for name, place in zip(names, ("topic", "partition", "offset"), strict=True)
        }
    elif mode == "record_key":
        keys = _key_columns(key_type, wanted)
    elif mode == "record_value" and isinstance(value_type, StructType):
        keys = {name: _named(values, name, "value") for name in wanted or values}
    if not isinstance(value_type, StructType | StringType | NullType):
        raise TerminalError(_no_object(value_type.simpleString()))
    chosen = {name: column for name, column in values.items() if name not in keys and (not only or name in only)}
    columns = {name: _column(column, kind) for name, (column, kind) in {**keys, **chosen}.items()}
    return Fields(columns, tuple(keys), isinstance(value_type, StructType))


def _no_object(found: str) -> str:
    return (
        f"values of type {found} have no fields for columns. Use a converter that produces objects, such as "
        "JsonConverter, or the transform HoistField$Value"
    )


def _members(column: Column, kind: DataType) -> dict[str, tuple[Column, DataType]]:
    from pyspark.sql.types import StructType

    if not isinstance(kind, StructType):
        return {}
    return {field.name: (column.getField(field.name), field.dataType) for field in kind.fields}


def _named(found: Mapping[str, tuple[Column, DataType]], name: str, what: str) -> tuple[Column, DataType]:
    if name not in found:
        raise TerminalError(f"pk.fields has {name}, but the record's {what} has {', '.join(found) or 'no fields'}.")
    return found[name]


def _key_columns(kind: DataType, wanted: list[str]) -> dict[str, tuple[Column, DataType]]:
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    if isinstance(kind, StructType):
        found = _members(F.col("key"), kind)
        return {name: _named(found, name, "key") for name in wanted or found}
    if len(wanted) != 1:
        raise TerminalError(
            f"keys of type {kind.simpleString()} are one column: pk.fields must contain its name, "
            f"but has {', '.join(wanted) or 'none'}."
        )
    return {wanted[0]: (F.col("key"), kind)}


def _column(column: Column, kind: DataType) -> tuple[Column, ColumnType]:
    from pyspark.sql import functions as F
    from pyspark.sql import types as t

    plain: dict[type[t.DataType], Kind] = {
        t.BooleanType: Kind.BOOLEAN,
        t.ByteType: Kind.INT8,
        t.ShortType: Kind.INT16,
        t.IntegerType: Kind.INT32,
        t.LongType: Kind.INT64,
        t.FloatType: Kind.FLOAT32,
        t.DoubleType: Kind.FLOAT64,
        t.StringType: Kind.TEXT,
        t.BinaryType: Kind.BYTES,
        t.DateType: Kind.DATE,
        t.TimestampType: Kind.TIMESTAMP,
        t.TimestampNTZType: Kind.TIMESTAMP,
    }
    if isinstance(kind, t.NullType):
        return column.cast("string"), ColumnType(Kind.TEXT)
    if isinstance(kind, t.DecimalType):
        return column, ColumnType(Kind.DECIMAL, kind.precision, kind.scale)
    if isinstance(kind, t.StructType | t.ArrayType | t.MapType | t.VariantType):
        return F.to_json(column), ColumnType(Kind.TEXT)
    return column, ColumnType(plain.get(type(kind), Kind.TEXT))


def write_files(df: DataFrame, fields: Fields, dialect: str, folder: Path) -> None:
    from pyspark.sql import functions as F

    deletes = F.col("value").isNull()
    if not fields.value_is_object:  # A batch that only deletes has no value type either.
        deletes = F.when(deletes, F.lit(True)).otherwise(F.raise_error(F.lit(_no_object("string"))).cast("boolean"))
    columns = [
        _stored(column, kind, dialect).alias(f"c{at}") for at, (column, kind) in enumerate(fields.columns.values())
    ]
    ours = [F.col("partition"), F.col("offset"), deletes if dialect == "duckdb" else deletes.cast("int")]
    if dialect in _TEXT_DIALECTS:
        ours = [own_column.cast("string") for own_column in ours]
    named = [column.alias(f"c{len(columns) + at}") for at, column in enumerate(ours)]
    rows = df.select(*columns, *named, F.col("topic").alias(_TOPIC))
    rows.write.partitionBy(_TOPIC).mode("overwrite").parquet(folder.as_uri())


def _stored(column: Column, kind: ColumnType, dialect: str) -> Column:
    """Convert values to the form of the database's client. Times are always text, without a time zone."""
    from pyspark.sql import functions as F

    if kind.kind is Kind.TIMESTAMP:
        return F.date_format(column, "yyyy-MM-dd HH:mm:ss.SSSSSS")
    if kind.kind is Kind.DATE:
        return F.date_format(column, "yyyy-MM-dd")
    if dialect == "duckdb":
        return column
    if kind.kind is Kind.BYTES and dialect in _TEXT_DIALECTS:
        return F.concat(F.lit("\\x"), F.hex(column)) if dialect == "postgresql" else F.hex(column)
    if kind.kind is Kind.BOOLEAN and dialect in ("mysql", "sqlserver"):
        return column.cast("int").cast("string")
    if dialect in _TEXT_DIALECTS:
        return column.cast("string")
    if kind.kind is Kind.DECIMAL:
        return column.cast("string")
    return column.cast("int") if kind.kind is Kind.BOOLEAN else column


@dataclass(frozen=True, slots=True)
class TopicFiles:
    topic: str
    files: list[Path]
    filled: frozenset[int]
    """The places of the columns that are not null in every row."""


def topic_files(folder: Path) -> list[TopicFiles]:
    """Return the files in the order of topics."""
    found = []
    for place in folder.glob(f"{_TOPIC}=*"):
        files = sorted(place.glob("*.parquet"))
        topic = unquote(place.name.partition("=")[2])
        found.append(TopicFiles(topic, files, _filled(files)))
    return sorted(found, key=lambda files_of_topic: files_of_topic.topic)


def _filled(files: list[Path]) -> frozenset[int]:
    import pyarrow.parquet as pq

    filled: set[int] = set()
    for file in files:
        metadata = pq.read_metadata(file)
        for group in range(metadata.num_row_groups):
            rows = metadata.row_group(group)
            for at in range(rows.num_columns):
                statistics = rows.column(at).statistics
                if statistics is None or not statistics.has_null_count or statistics.null_count < rows.num_rows:
                    filled.add(at)
    return frozenset(filled)
