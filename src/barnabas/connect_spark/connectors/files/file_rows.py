"""Convert records to rows of files: find the columns of a batch, and fit its values to the columns of all files.

Data with a schema arrives as typed columns, data without one as VARIANT. For the latter, one pass over the batch finds
its columns. If these are the columns that the files already have, as in most batches, a single cast converts all of
them. Columns whose type differs in the batch are checked value by value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as t

from barnabas.connect.plugins.api import TerminalError
from barnabas.connect_spark.connectors.columns.column_fitting import Fitted, fitted
from barnabas.connect_spark.connectors.columns.variant_fitting import fitted_variant, is_object, members
from barnabas.connect_spark.connectors.files.file_schema import FileSchema, Growth, grown, settled, settled_fields
from barnabas.connect_spark.converters.connect_schema import DataException
from barnabas.connect_spark.converters.schema_merging import inferred_type
from barnabas.connect_spark.converters.spark_types import connect_schema
from barnabas.connect_spark.converters.variants import variant_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["FileRows", "FoundColumns", "find_columns"]

_VALUE = "value"
_QUICK = "__barnabas_quick"
_SHOWN_LENGTH_MAX = 100


@dataclass(frozen=True, slots=True)
class FoundColumns:
    """The columns of a batch. ``value`` is None if no record has a value; ``extra`` are the columns of the record."""

    value: t.DataType | None
    is_schemaless: bool
    extra: Mapping[str, t.DataType]
    schemaless_extra: frozenset[str]
    is_mixed: bool = False
    """Whether some values are objects and others are not."""

    def of(self, is_object: bool) -> t.StructType:
        """Return the columns for values that are objects, or that are not."""
        if self.value is None:
            values = t.StructType()
        elif is_object and isinstance(self.value, t.StructType):
            values = settled_fields(self.value, is_schemaless=self.is_schemaless)
        elif is_object:
            values = t.StructType()  # None of the values fits.
        else:
            kind = settled(self.value, is_schemaless=self.is_schemaless)
            values = t.StructType([] if kind is None else [t.StructField(_VALUE, kind)])
        extra = [
            t.StructField(name, settled(kind, is_schemaless=name in self.schemaless_extra) or t.StringType())
            if name in self.schemaless_extra
            else t.StructField(name, kind)
            for name, kind in self.extra.items()
        ]
        return t.StructType([*values.fields, *extra])

    def grow(self, known: FileSchema) -> tuple[FileSchema, Growth]:
        """Extend the columns of files from now on."""
        is_object = known.is_object
        if is_object is None and self.value is not None:
            is_object = isinstance(self.value, t.StructType) or self.is_mixed
        growth = grown(known.columns, self.of(bool(is_object)))
        return FileSchema(growth.columns, is_object), growth


def find_columns(df: DataFrame, extra: Sequence[str]) -> FoundColumns:
    """Find the columns. Read the batch once if its values have no schema, and again if only some are objects."""
    good = df.filter("failure IS NULL") if "failure" in df.columns else df
    found: dict[str, t.DataType] = {}
    schemaless: set[str] = set()
    for name in extra:
        kind = df.schema[name].dataType
        if isinstance(kind, t.VariantType):
            schemaless.add(f"_{name}")
            kind = inferred_type(good, F.col(name), keeps_void=True)
        found[f"_{name}"] = kind
    kind = df.schema[_VALUE].dataType
    if not isinstance(kind, t.VariantType):
        return FoundColumns(None if isinstance(kind, t.NullType) else kind, False, found, frozenset(schemaless))
    value = F.col(_VALUE)
    kind = inferred_type(good, value, keeps_void=True)
    is_mixed = False
    if isinstance(kind, t.VariantType):
        objects = inferred_type(good, F.when(is_object(value), value), keeps_void=True)
        is_mixed = isinstance(objects, t.StructType)
        kind = objects if is_mixed else kind
    is_void = isinstance(kind, t.NullType)
    return FoundColumns(None if is_void else kind, True, found, frozenset(schemaless), is_mixed)


class FileRows:
    """The rows of one batch, in the columns of ``schema``."""

    def __init__(
        self, found: FoundColumns, schema: FileSchema, growth: Growth, target: str, *, is_typed: bool = True
    ) -> None:
        """``target`` is how the files are called in messages. Without ``is_typed`` a column may have another type in
        each batch, as in CSV. Raises TerminalError for names that can't be columns."""
        if growth.clashing and not found.is_schemaless:
            raise TerminalError(
                f"the fields {', '.join(growth.clashing)} differ from columns of {target} in upper and lower case "
                "alone, which readers don't distinguish. Rename them with the transform ReplaceField."
            )
        self._found = found
        self._target = target
        self._is_object = bool(schema.is_object)
        self._clashing = growth.clashing
        self._has = {field.name: field.dataType for field in found.of(self._is_object)}
        columns = schema.columns
        if not is_typed:
            columns = t.StructType(
                [t.StructField(column.name, self._has.get(column.name, t.StringType())) for column in columns]
            )
        self.columns = columns
        self._quick = [column for column in columns if self._is_quick(column)]

    def refusal(self) -> Column | None:
        """Return why a record does not fit, null if it does; None if all records fit."""
        reasons = [self._value_refusal(), self._clash()]
        for column in self.columns:
            misfit = self._column(column).misfit
            if misfit is not None:
                kind = column.dataType.simpleString().upper()
                rest = f", which does not fit the type {kind} that the column has in all files of {self._target}"
                text = F.concat(F.lit(f"{column.name} is "), self._shown(column.name), F.lit(rest))
                reasons.append(F.when(misfit, text))
        found = [reason for reason in reasons if reason is not None]
        return F.coalesce(*found) if found else None

    def rows(self, df: DataFrame, folders: Sequence[Column]) -> DataFrame:
        if self._quick:  # A separate step, so that the value is cast once and not for each field.
            df = df.withColumn(_QUICK, F.col(_VALUE).try_cast(t.StructType(self._quick)))
        columns = [self._column(column).column.cast(column.dataType).alias(column.name) for column in self.columns]
        return df.select(*columns, *folders)

    # ---- one column

    def _column(self, wanted: t.StructField) -> Fitted:
        if wanted in self._quick:
            return Fitted(F.col(_QUICK).getField(wanted.name), None)
        kind = self._raw_type(wanted.name)
        if kind is None or isinstance(kind, t.NullType):
            return Fitted(F.lit(None).cast(wanted.dataType), None)
        column = self._source(wanted.name)
        if self._is_schemaless(wanted.name):
            if self._has.get(wanted.name) == wanted.dataType:
                return Fitted(fitted_variant(column, wanted.dataType)[0], None)
            return Fitted(*fitted_variant(column, wanted.dataType))
        if isinstance(wanted.dataType, t.VariantType):
            return Fitted(_as_variant(column, kind), None)
        return fitted(column, kind, wanted.dataType)

    def _is_quick(self, wanted: t.StructField) -> bool:
        """Return whether a plain cast of schemaless data produces the column, with nothing lost."""
        return (
            self._found.is_schemaless
            and self._is_object
            and wanted.name not in self._found.extra
            and self._has.get(wanted.name) == wanted.dataType
        )

    def _source(self, name: str) -> Column:
        if name in self._found.extra:
            return F.col(name.removeprefix("_"))
        if not self._is_object:
            return F.col(_VALUE)
        if self._found.is_schemaless:
            return members(F.col(_VALUE), [name]).getField(name)
        return F.col(_VALUE).getField(name)

    def _is_schemaless(self, name: str) -> bool:
        if name in self._found.extra:
            return name in self._found.schemaless_extra
        return self._found.is_schemaless

    def _raw_type(self, name: str) -> t.DataType | None:
        """Return the type found in the batch, before it was settled; None for none."""
        if name in self._found.extra:
            return self._found.extra[name]
        value = self._found.value
        if not self._is_object:
            return value if name == _VALUE else None
        return value[name].dataType if isinstance(value, t.StructType) and name in value.fieldNames() else None

    # ---- whole values

    def _value_refusal(self) -> Column | None:
        """The error of values that are not objects, where fields are columns."""
        value = self._found.value
        if not self._is_object or value is None or (isinstance(value, t.StructType) and not self._found.is_mixed):
            return None
        column = F.col(_VALUE)
        is_other = column.isNotNull()
        if self._found.is_schemaless:
            is_other = is_other & ~F.is_variant_null(column) & ~is_object(column)
        rest = f", and the files of {self._target} have columns of objects"
        return F.when(is_other, F.concat(F.lit("the value is "), self._shown(_VALUE), F.lit(rest)))

    def _clash(self) -> Column | None:
        """Return the fields that can't be columns because another name differs only in case."""
        if not self._clashing:
            return None
        found = [F.when(_has_at(F.col(_VALUE), path.split(".")), F.lit(path)) for path in self._clashing]
        names = F.concat_ws(", ", *found)
        rest = f" differ from columns of {self._target} in upper and lower case alone, which readers don't distinguish"
        return F.when(F.length(names) > 0, F.concat(F.lit("the fields "), names, F.lit(rest)))

    def _shown(self, name: str) -> Column:
        column = F.col(_VALUE) if name == _VALUE else self._source(name)
        text = F.to_json(column) if self._is_schemaless(name) else column.try_cast("string")
        return F.coalesce(F.substring(text, 1, _SHOWN_LENGTH_MAX), F.lit("another value"))


def _has_at(value: Column, path: Sequence[str]) -> Column:
    """Return whether an object has a value at the path. In a list any item counts."""
    name, rest = path[0], path[1:]

    def is_in(item: Column) -> Column:
        found = members(item, [name]).getField(name)
        return _has_at(found, rest) if rest else F.coalesce(found.isNotNull(), F.lit(False))

    items = F.coalesce(F.exists(value.try_cast("array<variant>"), is_in), F.lit(False))
    return reduce(or_, (is_in(value), items))


def _as_variant(column: Column, kind: t.DataType) -> Column:
    try:
        return variant_of(connect_schema(kind), column)
    except DataException:
        return F.parse_json(F.to_json(column))
