"""MaskField: replace fields by the null value of their type, or by one text for all of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, ClassVar, Self

from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType

from barnabas.connect_spark.converters.connect_schema import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    ConnectSchema,
    DataException,
    SchemaType,
)
from barnabas.connect_spark.converters.json_decoding import first_error
from barnabas.connect_spark.converters.spark_types import spark_type
from barnabas.connect_spark.transforms.record_expressions import (
    Operand,
    Outcome,
    Record,
    Side,
    absent_as_null,
    members_of,
    require_struct,
)
from barnabas.connect_spark.transforms.struct_fields import replaces_null, with_default
from barnabas.connect_spark.transforms.transform import SidedTransform, names

if TYPE_CHECKING:
    from pyspark.sql import Column

    from barnabas.connect_spark.transforms.transform import Settings

__all__ = ["MaskField"]

_FLOATING = (SchemaType.FLOAT32, SchemaType.FLOAT64)
_REPLACEABLE = {
    SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64, *_FLOATING, SchemaType.STRING,
}  # fmt: skip
_BOUNDS = {SchemaType.INT8: 2**7, SchemaType.INT16: 2**15, SchemaType.INT32: 2**31, SchemaType.INT64: 2**63}
_WHOLE = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?")
_JAVA_NAMES = {DATE: "java.util.Date", TIME: "java.util.Date", TIMESTAMP: "java.util.Date"}
_REFUSED = {
    SchemaType.BOOLEAN: "java.lang.Boolean",
    SchemaType.BYTES: "[B",
    SchemaType.ARRAY: "java.util.ArrayList",
    SchemaType.MAP: "java.util.HashMap",
}


@dataclass(frozen=True)
class MaskField(SidedTransform):
    fields: frozenset[str]
    replacement: str | None
    replaces: bool
    side: Side = Side.VALUE

    name: ClassVar[str] = "MaskField"

    @classmethod
    def of(cls, settings: Settings) -> Self:
        replacement = settings["replacement"]
        return cls(
            frozenset(names(settings["fields"])),
            None if replacement is None else str(replacement),
            replaces_null(settings),
        )

    def apply(self, record: Record) -> Outcome:
        operand = record.operand(self.side)
        if operand.schema is None:
            return self._schemaless(record, operand)
        schema, columns, wrong = require_struct(operand, "field replacement")
        values, errors = {}, [wrong]
        for field in schema.fields:
            column = with_default(field.schema, columns[field.name], self.replaces)
            values[field.name] = column
            if field.name in self.fields:
                try:
                    masked = self._masked(field.schema)
                except DataException as error:
                    # A null is masked by null, whatever its type.
                    errors.append(F.when(column.isNotNull(), F.lit(str(error))))
                else:
                    values[field.name] = F.when(column.isNotNull(), masked)
        changed = Operand.of_fields(schema, operand.present, values)
        return Outcome(record.with_operand(self.side, changed), first_error(errors))

    def _masked(self, schema: ConnectSchema) -> Column:
        """Return the mask, which is the same for all rows. Raise DataException."""
        kind = spark_type(schema)
        if self.replacement is None:
            return _zero(schema).cast(kind)
        if schema.logical != DECIMAL and (schema.logical or schema.type not in _REPLACEABLE):
            java_class = _JAVA_NAMES.get(
                str(schema.logical), _REFUSED.get(schema.type, "org.apache.kafka.connect.data.Struct")
            )
            raise DataException(f"Cannot mask value of type class {java_class} with custom replacement.")
        if schema.type is SchemaType.STRING:
            return F.lit(self.replacement)
        if not _fits(self.replacement, schema):
            raise DataException(f"Unable to convert {self.replacement} to a number of type {schema.type}")
        return F.lit(self.replacement).try_cast(kind)

    def _schemaless(self, record: Record, operand: Operand) -> Outcome:
        members, wrong = members_of(operand, "field replacement")
        chosen = F.map_filter(members, lambda name, _: name.isin(*sorted(self.fields)))
        refused = F.filter(F.map_values(chosen), lambda value: self._variant(value).isNull())
        message = F.concat(
            F.lit("Cannot mask value of type "),
            F.schema_of_variant(F.get(refused, F.lit(0))),
            F.lit("" if self.replacement is None else f" with custom replacement {self.replacement}"),
        )
        masked = F.transform_values(
            members,
            lambda name, value: F.when(name.isin(*sorted(self.fields)), self._variant(value)).otherwise(value),
        )
        # A missing field is null afterwards, as in Connect.
        changed = Operand.of_members(
            operand.present, F.map_concat(masked, absent_as_null(members, sorted(self.fields)))
        )
        error = F.coalesce(wrong, F.when(F.size(refused) > 0, message))
        return Outcome(record.with_operand(self.side, changed), error)

    def _variant(self, value: Column) -> Column:
        """Return the mask; null for values that can't be masked."""
        kind = F.schema_of_variant(value)
        floating = kind.isin("FLOAT", "DOUBLE") | kind.startswith("DECIMAL")
        absent = F.when(F.is_variant_null(value), value)
        if self.replacement is None:
            return (
                absent.when(kind == "STRING", F.lit("").cast("variant"))
                .when(kind == "BOOLEAN", F.lit(False).cast("variant"))
                .when(kind == "BIGINT", F.lit(0).cast("bigint").cast("variant"))
                .when(floating, F.lit(0.0).cast("variant"))
                .when(kind.startswith("ARRAY"), F.parse_json(F.lit("[]")))
                .when(kind.startswith("OBJECT"), F.parse_json(F.lit("{}")))
            )
        text = F.lit(self.replacement)
        return (
            absent.when(kind == "STRING", text.cast("variant"))
            .when(kind == "BIGINT", text.try_cast("bigint").cast("variant"))
            .when(floating, text.try_cast("double").cast("variant"))
        )


def _fits(replacement: str, schema: ConnectSchema) -> bool:
    if schema.type in _FLOATING or schema.logical == DECIMAL:
        return _NUMBER.fullmatch(replacement) is not None and (schema.logical is None or _is_exact(replacement, schema))
    bound = _BOUNDS[schema.type]
    return _WHOLE.fullmatch(replacement) is not None and -bound <= int(replacement) < bound


def _is_exact(number: str, schema: ConnectSchema) -> bool:
    """Return whether a Decimal keeps all of its digits."""
    kind = spark_type(schema)
    assert isinstance(kind, DecimalType)
    exact = Decimal(number).normalize()
    places = -int(exact.as_tuple().exponent)
    return places <= kind.scale and exact.adjusted() < kind.precision - kind.scale


def _zero(schema: ConnectSchema) -> Column:
    """Return Connect's null value of the type, if it has one."""
    if schema.logical == TIMESTAMP:
        return F.timestamp_millis(F.lit(0).cast("bigint"))
    if schema.logical == DATE:
        return F.date_from_unix_date(F.lit(0))
    if schema.type is SchemaType.STRING:
        return F.lit("")
    if schema.type is SchemaType.BOOLEAN:
        return F.lit(False)
    if schema.type is SchemaType.ARRAY:
        return F.array()
    if schema.type is SchemaType.MAP:
        return F.create_map()
    if schema.logical == DECIMAL or schema.type in _REPLACEABLE:
        return F.lit(0)
    java_class = _REFUSED.get(schema.type, "org.apache.kafka.connect.data.Struct")
    raise DataException(f"Cannot mask value of type: class {java_class}")
