"""SimpleHeaderConverter: headers as text, whose type is inferred when they are read.

Booleans, whole numbers (the smallest type that holds one), other numbers, dates, times and timestamps in Connect's
format, arrays and objects of JSON; everything else is text. The contents of an array or object stay schemaless.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from pyspark.sql import functions as F

from barnabas.connect_spark.converters.connect_schema import (
    DATE,
    DECIMAL,
    SCALE,
    TIME,
    TIMESTAMP,
    ConnectSchema,
    SchemaType,
)
from barnabas.connect_spark.converters.converter import Converter, Decoded, DecodedHeader, Encoded
from barnabas.connect_spark.converters.string_converter import StringConverter
from barnabas.connect_spark.converters.variants import variant_of

if TYPE_CHECKING:
    from pyspark.sql import Column

    from barnabas.connect_spark.converters.record_batch import Datum

__all__ = ["SimpleHeaderConverter", "schema_text"]

_NUMBER = r"^[+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{1,2})?$"
_DIGITS = r"^[+-]?[0-9]+(?:\.0*)?$"
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_TIME = r"^([0-9]{2}):([0-9]{2}):([0-9]{2})\.([0-9]{3})Z$"
_TIMESTAMP = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$"
_WHOLE_TYPES = (
    (SchemaType.INT8, 2**7),
    (SchemaType.INT16, 2**15),
    (SchemaType.INT32, 2**31),
    (SchemaType.INT64, 2**63),
)


def schema_text(schema: ConnectSchema) -> str:
    return json.dumps(schema.to_json(), separators=(",", ":"), ensure_ascii=False)


@dataclass(frozen=True)
class SimpleHeaderConverter(Converter):
    java_class: ClassVar[str] = "org.apache.kafka.connect.storage.SimpleHeaderConverter"

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Self:
        return cls()

    def to_connect(self, prepared: Column, variety: str | None) -> Decoded:
        header = self.header_to_connect(prepared)
        return Decoded(None, header.value, header.error)

    def from_connect(self, datum: Datum) -> Encoded:
        value = variant_of(datum.schema, datum.column)
        schema = F.lit(None if datum.schema is None else schema_text(datum.schema)).cast("string")
        return self.header_from_connect(value, schema)

    def header_to_connect(self, data: Column) -> DecodedHeader:
        text = StringConverter().to_connect(data, None).column
        cases: list[tuple[Column, Column, Column]] = []  # condition, value, schema
        trimmed = F.trim(text)
        cases.append((trimmed == "null", F.lit(None).cast("variant"), F.lit(None).cast("string")))
        is_truth = trimmed.isin("true", "false")
        cases.append((is_truth, trimmed.try_cast("boolean").cast("variant"), _told(SchemaType.BOOLEAN)))
        exact = F.when(trimmed.rlike(_NUMBER), trimmed).try_cast("decimal(38,18)")
        whole = F.when(exact == F.floor(exact), exact.try_cast("bigint"))
        for kind, bound in _WHOLE_TYPES:
            cases.append((whole.between(-bound, bound - 1), whole.cast("variant"), _told(kind)))
        large = F.when(trimmed.rlike(_DIGITS), F.regexp_replace(trimmed, "[.]0*$", "")).try_cast("decimal(38,0)")
        decimal = ConnectSchema(SchemaType.BYTES, name=DECIMAL, version=1, parameters=((SCALE, "0"),))
        cases.append((large.isNotNull(), large.cast("variant"), F.lit(schema_text(decimal))))
        number = F.when(trimmed.rlike(_NUMBER), trimmed.try_cast("double"))
        # A float, as in Connect, but only if it equals the number in the text.
        short = number.cast("float")
        cases.append(
            (short.cast("string").try_cast("double") == number, short.cast("variant"), _told(SchemaType.FLOAT32))
        )
        cases.append((number.isNotNull(), number.cast("variant"), _told(SchemaType.FLOAT64)))
        day = F.when(text.rlike(_DATE), text.try_cast("date"))
        cases.append((day.isNotNull(), day.cast("variant"), _logical(SchemaType.INT32, DATE)))
        moment = F.when(text.rlike(_TIMESTAMP), text.try_cast("timestamp"))
        cases.append((moment.isNotNull(), moment.cast("variant"), _logical(SchemaType.INT64, TIMESTAMP)))
        millis = _millis(text)
        cases.append((millis.isNotNull(), millis.cast("variant"), _logical(SchemaType.INT32, TIME)))
        structure = F.when(trimmed.rlike(r"(?s)^(?:\[.*\]|\{.*\})$"), F.try_parse_json(trimmed))
        cases.append((structure.isNotNull(), structure, F.lit(None).cast("string")))
        value, schema = cases[0][1], cases[0][2]
        chosen_value, chosen_schema = F.when(cases[0][0], value), F.when(cases[0][0], schema)
        for condition, value, schema in cases[1:]:
            chosen_value, chosen_schema = chosen_value.when(condition, value), chosen_schema.when(condition, schema)
        absent = text.isNull()
        return DecodedHeader(
            F.when(~absent, chosen_value.otherwise(text.cast("variant"))),
            F.when(~absent, chosen_schema.otherwise(_told(SchemaType.STRING))),
            None,
        )

    def header_from_connect(self, value: Column, schema: Column) -> Encoded:
        return StringConverter().header_from_connect(value, schema)


def _told(kind: SchemaType) -> Column:
    return F.lit(schema_text(ConnectSchema(kind)))


def _logical(kind: SchemaType, name: str) -> Column:
    return F.lit(schema_text(ConnectSchema(kind, name=name, version=1)))


def _millis(text: Column) -> Column:
    hours, minutes, seconds, millis = (F.regexp_extract(text, _TIME, group).try_cast("int") for group in (1, 2, 3, 4))
    good = (hours < 24) & (minutes < 60) & (seconds < 60)
    return F.when(good, ((hours * 60 + minutes) * 60 + seconds) * 1000 + millis)
