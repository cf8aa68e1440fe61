"""TimestampConverter: converts between text, a number of a unit, Date, Time and Timestamp. All in UTC."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

from pyspark.sql import functions as F

from barnabas.common.config_value import ConfigException
from barnabas.connect_spark.converters.connect_schema import (
    DATE,
    TIME,
    TIMESTAMP,
    ConnectSchema,
    DataException,
    Field,
    SchemaType,
)
from barnabas.connect_spark.converters.json_decoding import MILLIS_OF_DAY, Read, no_error
from barnabas.connect_spark.transforms.date_patterns import spark_pattern
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
from barnabas.connect_spark.transforms.transform import SidedTransform

if TYPE_CHECKING:
    from pyspark.sql import Column

    from barnabas.connect_spark.transforms.transform import Settings

__all__ = ["TimestampConverter"]

_UNITS = {"nanoseconds": 1_000_000, "microseconds": 1000, "milliseconds": 1, "seconds": -1000}
"""How many units a millisecond has; a negative number: how many milliseconds a unit has."""
_MAX_MILLIS = (2**63 - 1) // 1000


@dataclass(frozen=True)
class TimestampConverter(SidedTransform):
    field: str
    target: str
    pattern: str
    unit: int
    replaces: bool
    side: Side = Side.VALUE

    name: ClassVar[str] = "TimestampConverter"

    @classmethod
    def of(cls, settings: Settings) -> Self:
        target, pattern = str(settings["target.type"]), str(settings["format"])
        if target == "string" and not pattern:
            raise ConfigException(
                "format",
                pattern,
                "TimestampConverter requires format option to be specified when using string timestamps",
            )
        return cls(
            str(settings["field"]),
            target,
            spark_pattern("format", pattern) if pattern else "",
            _UNITS[str(settings["unix.precision"])],
            replaces_null(settings),
        )

    def apply(self, record: Record) -> Outcome:
        operand = record.operand(self.side)
        if operand.schema is None:
            return self._schemaless(record, operand)
        if not self.field:
            millis = self._millis(operand.schema, operand.whole)
            value, schema = self._target(millis.value, operand.schema.optional)
            return Outcome(record.with_operand(self.side, Operand.of(schema, value)), millis.error)
        schema, columns, _ = require_struct(operand, "converting timestamp formats", null_allowed=True)
        fields, values, error = [], {}, no_error()
        for field in schema.fields:
            column = with_default(field.schema, columns[field.name], self.replaces)
            if field.name != self.field:
                fields.append(field)
                values[field.name] = column
                continue
            millis = self._millis(field.schema, column)
            value, kind = self._target(millis.value, field.schema.optional)
            fields.append(Field(field.name, kind))
            values[field.name], error = value, millis.error
        changed = Operand.of_fields(replace(schema, fields=tuple(fields)), operand.present, values)
        return Outcome(record.with_operand(self.side, changed), F.when(operand.present, error))

    def _schemaless(self, record: Record, operand: Operand) -> Outcome:
        if not self.field:
            millis = self._variant_millis(operand.whole)
            value = self._target(millis.value, True)[0].cast("variant")
            return Outcome(record.with_operand(self.side, Operand.of(None, value)), millis.error)
        members, wrong = members_of(operand, "converting timestamp formats", null_allowed=True)
        error = self._variant_millis(F.try_element_at(members, F.lit(self.field))).error

        def converted(name: Column, value: Column) -> Column:
            found = self._target(self._variant_millis(value).value, True)[0].cast("variant")
            return F.when((name == self.field) & ~F.is_variant_null(value), found).otherwise(value)

        # A missing field is null afterwards, as in Connect.
        changed = Operand.of_members(
            operand.present, F.map_concat(F.transform_values(members, converted), absent_as_null(members, [self.field]))
        )
        return Outcome(record.with_operand(self.side, changed), F.coalesce(wrong, error))

    # ---- To milliseconds ----

    def _millis(self, schema: ConnectSchema, column: Column) -> Read:
        if schema.logical == TIMESTAMP:
            return Read(F.unix_millis(column), no_error())
        if schema.logical == DATE:
            return Read(F.unix_date(column).cast("bigint") * MILLIS_OF_DAY, no_error())
        if schema.logical == TIME:
            return Read(column.cast("bigint"), no_error())
        if schema.type is SchemaType.STRING:
            return self._text_millis(column)
        if schema.type is SchemaType.INT64:
            return self._number_millis(column)
        raise DataException(f"Schema Schema{{{schema.type.name}}} does not correspond to a known timestamp type format")

    def _variant_millis(self, value: Column) -> Read:
        kind = F.schema_of_variant(value)
        text, number = self._text_millis(value.try_cast("string")), self._number_millis(value.try_cast("bigint"))
        absent = value.isNull() | F.is_variant_null(value)
        moment = kind.isin("TIMESTAMP", "DATE")
        millis = (
            F.when(moment, F.unix_millis(value.try_cast("timestamp")))
            .when(kind == "BIGINT", number.value)
            .when(kind == "STRING", text.value)
        )
        message = F.concat(F.lit("TimestampConverter does not support "), kind, F.lit(" objects as timestamps"))
        error = (
            F.when(absent | moment, no_error())
            .when(kind == "BIGINT", number.error)
            .when(kind == "STRING", text.error)
            .otherwise(message)
        )
        return Read(F.when(~absent, millis), error)

    def _text_millis(self, text: Column) -> Read:
        if not self.pattern:
            message = "TimestampConverter requires format option to be specified when using string timestamps"
            return Read(F.lit(None).cast("bigint"), F.when(text.isNotNull(), F.lit(message)))
        parsed = F.try_to_timestamp(text, F.lit(self.pattern))
        millis = F.unix_millis(F.from_utc_timestamp(parsed, F.current_timezone()))
        unread = F.concat(
            F.lit("Could not parse timestamp: value ("), text, F.lit(f") does not match pattern ({self.pattern})")
        )
        return Read(millis, F.when(text.isNotNull() & millis.isNull(), unread))

    def _number_millis(self, number: Column) -> Read:
        if self.unit < 0:
            millis = F.try_multiply(number, F.lit(-self.unit).cast("bigint"))
        else:
            millis = number if self.unit == 1 else F.call_function("div", number, F.lit(self.unit).cast("bigint"))
        good = F.when(millis.between(-_MAX_MILLIS, _MAX_MILLIS), millis)
        message = F.concat(F.lit("the timestamp is out of the range of Spark's: "), number.cast("string"))
        return Read(good, F.when(number.isNotNull() & good.isNull(), message))

    # ---- From milliseconds ----

    def _target(self, millis: Column, optional: bool) -> tuple[Column, ConnectSchema]:
        if self.target == "Timestamp":
            return F.timestamp_millis(millis), ConnectSchema(SchemaType.INT64, optional, TIMESTAMP, 1)
        if self.target == "Date":
            days = _divided(millis, MILLIS_OF_DAY).cast("int")
            return F.date_from_unix_date(days), ConnectSchema(SchemaType.INT32, optional, DATE, 1)
        if self.target == "Time":
            rest = F.pmod(millis, F.lit(MILLIS_OF_DAY).cast("bigint")).cast("int")
            return rest, ConnectSchema(SchemaType.INT32, optional, TIME, 1)
        if self.target == "unix":
            return self._number(millis), ConnectSchema(SchemaType.INT64, optional)
        moment = F.to_utc_timestamp(F.timestamp_millis(millis), F.current_timezone())
        return F.date_format(moment, self.pattern), ConnectSchema(SchemaType.STRING, optional)

    def _number(self, millis: Column) -> Column:
        if self.unit < 0:
            # Java's TimeUnit cuts off, towards zero.
            return F.call_function("div", millis, F.lit(-self.unit).cast("bigint"))
        return F.try_multiply(millis, F.lit(self.unit).cast("bigint"))


def _divided(number: Column, by: int) -> Column:
    """Divide, rounding down, exactly for all 64 bits."""
    divisor = F.lit(by).cast("bigint")
    quotient = F.call_function("div", number, divisor)
    return F.when(F.pmod(number, divisor) != number - quotient * divisor, quotient - 1).otherwise(quotient)
