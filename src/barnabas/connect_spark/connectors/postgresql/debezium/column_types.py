"""Map PostgreSQL's types to Connect's schemas by Debezium's defaults and its two most used settings. No I/O.

A type without a rule of its own is text, as the database writes it. ``decimal.handling.mode`` and
``time.precision.mode`` are in ``Modes``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from barnabas.connect_spark.connectors.postgresql.debezium import text_values
from barnabas.connect_spark.converters.connect_schema import (
    DATE,
    DECIMAL,
    SCALE,
    TIME,
    TIMESTAMP,
    ConnectSchema,
    Field,
    SchemaType,
)

__all__ = ["DECIMAL_MODES", "TIME_MODES", "Modes", "PostgresType", "ValuePlan", "value_plan"]

DECIMAL_MODES = ("precise", "double", "string")
TIME_MODES = ("adaptive", "adaptive_time_microseconds", "connect")
_PRECISION = "connect.decimal.precision"
_PRECISION_MAX = 38
_VARIABLE_SCALE = "io.debezium.data.VariableScaleDecimal"
_MICROS_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Modes:
    decimals: str = "precise"
    times: str = "adaptive"
    unavailable: str = "__debezium_unavailable_value"
    """Stands for a value that the log does not have."""


@dataclass(frozen=True, slots=True)
class PostgresType:
    """A row of the catalogue ``pg_type``."""

    name: str
    kind: str = "b"
    """``b``: base, ``e``: enumeration, ``d``: domain, and others."""
    element: int = 0
    """The type of an array's items, otherwise 0."""
    base: int = 0
    base_modifier: int = -1
    labels: tuple[str, ...] = ()
    delimiter: str = ","


@dataclass(frozen=True, slots=True)
class ValuePlan:
    schema: ConnectSchema
    convert: Callable[[str], Any]
    """Raises ValueError, or an ArithmeticError."""
    unavailable: Any = None
    """The value for one that the log does not have."""


def value_plan(oid: int, modifier: int, types: Mapping[int, PostgresType], modes: Modes) -> ValuePlan:
    """Return how values of a type are written. Unknown types are text."""
    kind = types.get(oid, PostgresType("text"))
    if kind.kind == "d":
        return value_plan(kind.base, kind.base_modifier, types, modes)
    if kind.element:
        return _array(value_plan(kind.element, modifier, types, modes), kind.delimiter, modes)
    if kind.kind == "e":
        schema = _logical(SchemaType.STRING, "io.debezium.data.Enum", allowed=",".join(kind.labels))
        return ValuePlan(schema, str, modes.unavailable)
    if kind.name == "numeric":
        return _numeric(modifier, modes)
    if kind.name in ("timestamp", "timestamptz", "time", "timetz", "date"):
        return _time(kind.name, modifier, modes)
    if kind.name in ("bit", "varbit"):
        return _bits(kind.name, modifier, modes)
    return _by_name(kind.name, modes)


def _logical(kind: SchemaType, name: str, version: int = 1, **parameters: str) -> ConnectSchema:
    return ConnectSchema(kind, True, name, version, parameters=tuple(parameters.items()))


def _plain(kind: SchemaType) -> ConnectSchema:
    return ConnectSchema(kind, True)


def _decimal(precision: int, scale: int) -> ConnectSchema:
    parameters = ((SCALE, str(scale)), (_PRECISION, str(precision)))
    return ConnectSchema(SchemaType.BYTES, True, DECIMAL, 1, parameters=parameters)


_NUMBERS: dict[str, tuple[SchemaType, Callable[[str], Any]]] = {
    "bool": (SchemaType.BOOLEAN, text_values.boolean),
    "int2": (SchemaType.INT16, int),
    "int4": (SchemaType.INT32, int),
    "int8": (SchemaType.INT64, int),
    "oid": (SchemaType.INT64, int),
    "float4": (SchemaType.FLOAT32, float),
    "float8": (SchemaType.FLOAT64, float),
}
_NAMED_TEXTS = {
    "json": "io.debezium.data.Json",
    "jsonb": "io.debezium.data.Json",
    "uuid": "io.debezium.data.Uuid",
    "xml": "io.debezium.data.Xml",
    "ltree": "io.debezium.data.Ltree",
}
_POINT = ConnectSchema(
    SchemaType.STRUCT,
    True,
    "io.debezium.data.geometry.Point",
    1,
    fields=(
        Field("x", ConnectSchema(SchemaType.FLOAT64)),
        Field("y", ConnectSchema(SchemaType.FLOAT64)),
        Field("wkb", _plain(SchemaType.BYTES)),
        Field("srid", _plain(SchemaType.INT32)),
    ),
)
_VARIABLE_DECIMAL = ConnectSchema(
    SchemaType.STRUCT,
    True,
    _VARIABLE_SCALE,
    1,
    fields=(Field("scale", ConnectSchema(SchemaType.INT32)), Field("value", ConnectSchema(SchemaType.BYTES))),
)


def _by_name(name: str, modes: Modes) -> ValuePlan:
    if name in _NUMBERS:
        kind, convert = _NUMBERS[name]
        return ValuePlan(_plain(kind), convert)
    if name == "bytea":
        return ValuePlan(_plain(SchemaType.BYTES), text_values.byte_string, modes.unavailable.encode())
    if name == "money":
        return _in_mode(_decimal(19, 2), text_values.money, modes, lambda text: float(text_values.money(text)))
    if name == "interval":
        schema = _logical(SchemaType.INT64, "io.debezium.time.MicroDuration")
        return ValuePlan(schema, text_values.duration_micros)
    if name == "point":
        return ValuePlan(_POINT, text_values.point)
    if name == "hstore":
        schema = _logical(SchemaType.STRING, "io.debezium.data.Json")
        return ValuePlan(schema, text_values.hstore_json, modes.unavailable)
    named = _NAMED_TEXTS.get(name)
    schema = _plain(SchemaType.STRING) if named is None else _logical(SchemaType.STRING, named)
    return ValuePlan(schema, str, modes.unavailable)


def _numeric(modifier: int, modes: Modes) -> ValuePlan:
    if modifier < 0:
        unavailable = {"scale": 0, "value": modes.unavailable.encode()}
        return _in_mode(_VARIABLE_DECIMAL, text_values.variable_decimal, modes, float, unavailable)
    precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
    scale = scale - 0x800 if scale & 0x400 else scale
    if precision > _PRECISION_MAX or not 0 <= scale <= precision:
        return _in_mode(_VARIABLE_DECIMAL, text_values.variable_decimal, modes, float)
    return _in_mode(_decimal(precision, scale), text_values.decimal, modes, float)


def _in_mode(
    precise: ConnectSchema,
    convert: Callable[[str], Any],
    modes: Modes,
    as_float: Callable[[str], float],
    unavailable: object = None,
) -> ValuePlan:
    if modes.decimals == "double":
        return ValuePlan(_plain(SchemaType.FLOAT64), as_float)
    if modes.decimals == "string":
        return ValuePlan(_plain(SchemaType.STRING), str, modes.unavailable)
    return ValuePlan(precise, convert, unavailable)


def _time(name: str, modifier: int, modes: Modes) -> ValuePlan:
    digits = modifier if 0 <= modifier <= _MICROS_DIGITS else _MICROS_DIGITS
    if name == "timestamptz":
        schema = _logical(SchemaType.STRING, "io.debezium.time.ZonedTimestamp")
        return ValuePlan(schema, partial(text_values.zoned_timestamp, digits=digits))
    if name == "timetz":
        return ValuePlan(_logical(SchemaType.STRING, "io.debezium.time.ZonedTime"), text_values.zoned_time)
    if modes.times == "connect":
        return _connect_time(name)
    if name == "date":
        return ValuePlan(_logical(SchemaType.INT32, "io.debezium.time.Date"), text_values.days)
    is_short = digits <= 3
    if name == "time":
        if is_short and modes.times == "adaptive":
            return ValuePlan(_logical(SchemaType.INT32, "io.debezium.time.Time"), _millis_of_day)
        return ValuePlan(_logical(SchemaType.INT64, "io.debezium.time.MicroTime"), text_values.micros_of_day)
    if is_short:
        return ValuePlan(_logical(SchemaType.INT64, "io.debezium.time.Timestamp"), _millis)
    return ValuePlan(_logical(SchemaType.INT64, "io.debezium.time.MicroTimestamp"), text_values.micros)


def _connect_time(name: str) -> ValuePlan:
    if name == "date":
        return ValuePlan(_logical(SchemaType.INT32, DATE), text_values.days)
    if name == "time":
        return ValuePlan(_logical(SchemaType.INT32, TIME), _millis_of_day)
    return ValuePlan(_logical(SchemaType.INT64, TIMESTAMP), text_values.micros)


def _millis(text: str) -> int:
    found = text_values.micros(text)
    return found if text.endswith("infinity") else found // 1000


def _millis_of_day(text: str) -> int:
    return text_values.micros_of_day(text) // 1000


def _bits(name: str, modifier: int, modes: Modes) -> ValuePlan:
    if name == "bit" and modifier in (1, -1):
        return ValuePlan(_plain(SchemaType.BOOLEAN), text_values.boolean)
    length = str(modifier) if modifier >= 0 else str((1 << 31) - 1)
    schema = _logical(SchemaType.BYTES, "io.debezium.data.Bits", length=length)
    return ValuePlan(schema, text_values.bits, modes.unavailable.encode())


def _array(item: ValuePlan, delimiter: str, modes: Modes) -> ValuePlan:
    def convert(text: str) -> list[Any]:
        found = text_values.array_items(text, delimiter)
        return [None if value is None else item.convert(value) for value in found]

    unavailable: Any = None if item.unavailable is None else [item.unavailable]
    if item.schema.type in (SchemaType.INT16, SchemaType.INT32, SchemaType.INT64):
        unavailable = [*modes.unavailable.encode()]
    schema = ConnectSchema(SchemaType.ARRAY, True, values=replace(item.schema, optional=True))
    return ValuePlan(schema, convert, unavailable)
