"""Convert records to rows of a table: columns of the value and of the record, fitted to the table's types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql import types as t

from barnabas.connect.plugins.api import TerminalError
from barnabas.connect_spark.connectors.columns.column_fitting import Widening, fitted, known_type, new_fields

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["DELETES", "OFFSET", "PARTITION", "TableColumns", "has_no_schema"]

PARTITION, OFFSET = "__barnabas_partition", "__barnabas_offset"
DELETES = "__barnabas_deletes"


@dataclass(frozen=True, slots=True)
class _Source:
    column: Column
    type: t.DataType


@dataclass(frozen=True, slots=True)
class TableColumns:
    """The columns of the records, independent of a table. ``keys`` identify the row that a record replaces."""

    sources: Mapping[str, _Source]
    keys: tuple[str, ...]

    @classmethod
    def of(cls, df: DataFrame, settings: Mapping[str, Any]) -> TableColumns:
        """Return the columns. Raise TerminalError for duplicate names and missing keys."""
        sources = _value_columns(df.schema["value"].dataType)
        keys = _key_columns(df, settings, sources)
        extra = {f"_{name}": _record_column(df, name) for name in settings["record.columns"] or ()}
        every = [*keys, *(name for name in sources if name not in keys), *extra]
        doubled = sorted({name for name in every if [other.lower() for other in every].count(name.lower()) > 1})
        if doubled:
            raise TerminalError(
                f"the record has more than one column {', '.join(doubled)}: a table's names are case-insensitive, and "
                "record.columns makes columns that begin with _. Rename fields with the transform ReplaceField."
            )
        return cls(
            {**keys, **{name: source for name, source in sources.items() if name not in keys}, **extra}, tuple(keys)
        )

    @property
    def type(self) -> t.StructType:
        """Return the type without the parts that no record determines. It always includes the keys."""
        known = [(name, known_type(source.type)) for name, source in self.sources.items()]
        return t.StructType([t.StructField(name, kind) for name, kind in known if kind is not None])

    def wanted(self, schema: t.StructType, *, evolves: bool, widens: Widening | None, what: str) -> t.StructType:
        """Return the table's columns, followed by new ones. Raise TerminalError if new ones are not allowed.

        A column that may change, too, has the type that ``widens`` returns for its own and that of the records.
        """
        merged, added = new_fields(schema, self.type, widens=widens if evolves else None)
        if added and not evolves:
            raise TerminalError(
                f"{what} has no column {', '.join(added)}, which records have: set auto.evolve=true to add it, "
                "or remove the field with the transform ReplaceField."
            )
        return merged

    def misfits(self, wanted: t.StructType, what: str) -> list[Column]:
        """Return a message for each column that a value does not fit, null where it does."""
        found = []
        for name, field in _by_name(self.sources, wanted):
            source = self.sources[name]
            made = fitted(source.column, source.type, field.dataType)
            if made.misfit is not None:
                text = f"{name} is not of type {field.dataType.simpleString()}, as the column of {what} is"
                found.append(F.when(made.misfit, F.lit(text)))
            if not field.nullable:
                text = f"{name} is null, but the column of {what} is NOT NULL"
                found.append(F.when(F.col("value").isNotNull() & made.column.isNull(), F.lit(text)))
        return found

    def rows(self, df: DataFrame, wanted: t.StructType, what: str) -> DataFrame:
        """Return one row for each record, with its partition, its offset, and whether it deletes.

        Columns that no record has are omitted: the table fills them with their generated or default value, or null.
        """
        columns = []
        for name, field in _by_name(self.sources, wanted):
            source = self.sources[name]
            made = fitted(source.column, source.type, field.dataType)
            column = made.column
            if made.misfit is not None:  # Such rows were removed earlier, unless the table has changed since.
                text = F.lit(f"{name} is not of type {field.dataType.simpleString()}, as the column of {what} is")
                column = F.when(made.misfit, F.raise_error(text).cast(field.dataType)).otherwise(column)
            if name in self.keys:
                failure = F.raise_error(F.lit(f"{name} is null, but it identifies the row")).cast(field.dataType)
                column = F.when(column.isNull(), failure).otherwise(column)
            columns.append(column.alias(field.name))
        ours = [
            F.col("partition").alias(PARTITION),
            F.col("offset").alias(OFFSET),
            F.col("value").isNull().alias(DELETES),
        ]
        return df.select(*columns, *ours)

    def named_keys(self, wanted: t.StructType) -> list[str]:
        """Return the keys under the names that the table uses."""
        return [field.name for name, field in _by_name(self.sources, wanted) if name in self.keys]


def has_no_schema(df: DataFrame) -> bool:
    """Return whether keys or values are still VARIANT, as converters without schemas produce them."""
    return any(isinstance(df.schema[name].dataType, t.VariantType) for name in ("key", "value") if name in df.columns)


def _by_name(sources: Mapping[str, _Source], wanted: t.StructType) -> list[tuple[str, t.StructField]]:
    known = {field.name.lower(): field for field in wanted}
    return [(name, known[name.lower()]) for name in sources if name.lower() in known]


def _value_columns(kind: t.DataType) -> dict[str, _Source]:
    if isinstance(kind, t.StructType):
        return {field.name: _Source(F.col("value").getField(field.name), field.dataType) for field in kind}
    return {} if isinstance(kind, t.NullType) else {"value": _Source(F.col("value"), kind)}


def _record_column(df: DataFrame, name: str) -> _Source:
    made = {"date": (F.to_date("timestamp"), t.DateType()), "hour": (F.hour("timestamp"), t.IntegerType())}
    if name in made:
        return _Source(*made[name])
    return _Source(F.col(name), df.schema[name].dataType)


def _key_columns(df: DataFrame, settings: Mapping[str, Any], values: Mapping[str, _Source]) -> dict[str, _Source]:
    mode, wanted = str(settings["pk.mode"]), [str(field) for field in settings["pk.fields"] or ()]
    if mode == "none":
        return {}
    if mode == "record_value":
        return _chosen(values, wanted, "value") if values else {}
    kind = df.schema["key"].dataType
    if isinstance(kind, t.StructType):
        found = {field.name: _Source(F.col("key").getField(field.name), field.dataType) for field in kind}
        return _chosen(found, wanted or list(found), "key")
    if len(wanted) != 1:
        raise TerminalError(
            f"keys of type {kind.simpleString()} are one column: pk.fields must contain its name, but has "
            f"{', '.join(wanted) or 'none'}."
        )
    return {wanted[0]: _Source(F.col("key"), kind)}


def _chosen(found: Mapping[str, _Source], wanted: Sequence[str], what: str) -> dict[str, _Source]:
    missing = [name for name in wanted if name not in found]
    if missing:
        raise TerminalError(
            f"pk.fields has {', '.join(missing)}, but the record's {what} has {', '.join(found) or 'no fields'}."
        )
    return {name: found[name] for name in wanted}
