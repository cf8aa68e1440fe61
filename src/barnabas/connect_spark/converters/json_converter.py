"""JsonConverter: JSON with Connect's envelope of schema and payload, or without.

With ``schemas.enable`` every record includes its schema, so one batch may have several: the text of the schema is
the record's variety. Without it data is VARIANT, which keeps every field, and the difference between null and absent.
The setting ``barnabas.schema`` is ours: it types schemaless JSON, in Spark's DDL.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Self

from pyspark.sql import functions as F
from pyspark.sql import types as t

from barnabas.common.config_validators import ValidString
from barnabas.common.config_value import ConfigException, ConfigType
from barnabas.connect.settings.plugin_config_def import ConfigDef, ConfigKey
from barnabas.connect_spark.converters.connect_schema import ConnectSchema, DataException
from barnabas.connect_spark.converters.converter import Converter, Decoded, DecodedHeader, Encoded
from barnabas.connect_spark.converters.json_decoding import JsonDecoding, default_literal, member, no_error
from barnabas.connect_spark.converters.json_encoding import JsonEncoding
from barnabas.connect_spark.converters.plain_json import PlainJson, plain_json
from barnabas.connect_spark.converters.spark_types import connect_schema, spark_type
from barnabas.connect_spark.converters.unknown_fields import unknown_fields

if TYPE_CHECKING:
    from pyspark.sql import Column

    from barnabas.connect_spark.converters.record_batch import Datum

__all__ = ["JsonConverter"]

_SCHEMAS = "schemas.enable"
_CONTENT = "schema.content"
_DECIMALS = "decimal.format"
_DEFAULTS = "replace.null.with.default"
_DDL = "barnabas.schema"
_UNKNOWN = "barnabas.schema.unknown.fields"

_DEFINITION = ConfigDef(
    [
        ConfigKey(_SCHEMAS, ConfigType.BOOLEAN, "true"),
        ConfigKey(_CONTENT, ConfigType.STRING, None),
        ConfigKey(_DECIMALS, ConfigType.STRING, "BASE64"),
        ConfigKey(_DEFAULTS, ConfigType.BOOLEAN, "true"),
        ConfigKey(_DDL, ConfigType.STRING, None),
        ConfigKey(_UNKNOWN, ConfigType.STRING, "error", validator=ValidString(("error", "ignore"))),
    ]
)

# Connect's texts.
_NO_JSON = "Converting byte[] to Kafka Connect data failed due to serialization error: it is not JSON"
_NO_ENVELOPE = (
    'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain additional fields. '
    "If you are trying to deserialize plain JSON data, set schemas.enable=false in your converter configuration."
)
_SCHEMALESS = "null"
"""The variety of an envelope whose schema is null. It includes records without an envelope, and tombstones."""


@dataclass(frozen=True)
class JsonConverter(Converter):
    schemas: bool = True
    content: ConnectSchema | None = None
    """The schema of all records, which then have no envelope."""
    decimals_as_numbers: bool = False
    replace_null_with_default: bool = True
    given: ConnectSchema | None = None
    """The type that a setting defines for JSON without a schema."""
    refuses_unknown: bool = True

    java_class: ClassVar[str] = "org.apache.kafka.connect.json.JsonConverter"

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Self:
        values = _DEFINITION.parse(settings)
        decimals = str(values[_DECIMALS]).upper()
        if decimals not in ("BASE64", "NUMERIC"):
            raise ConfigException(
                _DECIMALS, values[_DECIMALS], "String must be one of (case insensitive): BASE64, NUMERIC"
            )
        schemas, given = bool(values[_SCHEMAS]), values[_DDL]
        if given and schemas:
            raise ConfigException(_DDL, given, f"it applies to JSON without a schema: set {_SCHEMAS}=false, or omit it")
        content = values[_CONTENT]
        return cls(
            schemas,
            _content(str(content)) if content and schemas else None,
            decimals == "NUMERIC",
            bool(values[_DEFAULTS]),
            _ddl(str(given)) if given else None,
            values[_UNKNOWN] == "error",
        )

    @property
    def _plain(self) -> PlainJson | None:
        return None if self.schemas else plain_json(self.given, refuses_unknown=self.refuses_unknown)

    def prepare(self, data: Column) -> Column:
        plain = self._plain
        if plain is not None:
            return F.struct(data.alias("data"), plain.parse(data.cast("string")).alias("plain"))
        return F.struct(data.alias("data"), F.try_parse_json(data.cast("string")).alias("parsed"))

    def variety(self, prepared: Column) -> Column | None:
        if not self.schemas or self.content is not None:
            return None
        parsed = prepared["parsed"]
        schema = member(parsed, "schema")
        # Rows without an envelope join the schemaless ones, where each of them gets its error.
        return F.when(_is_envelope(parsed) & ~F.is_variant_null(schema), F.to_json(schema)).otherwise(_SCHEMALESS)

    def to_connect(self, prepared: Column, variety: str | None) -> Decoded:
        plain = self._plain
        if plain is not None:
            return self._read_plain(plain, prepared["data"], prepared["plain"])
        data, parsed = prepared["data"], prepared["parsed"]
        # Without an envelope an empty value is a tombstone as well, as in Connect.
        present = data.isNotNull() if self.schemas and self.content is None else F.octet_length(data) > 0
        broken = F.when(present & parsed.isNull(), F.lit(_NO_JSON))
        if not self.schemas or self.content is not None:
            schema = self.content if self.schemas else self.given
            return self._typed(schema, present, parsed, broken)
        broken = F.coalesce(broken, F.when(present & ~_is_envelope(parsed), F.lit(_NO_ENVELOPE)))
        schema = None if variety in (None, _SCHEMALESS) else _schema(str(variety))
        return self._typed(schema, present, member(parsed, "payload"), broken)

    def _read_plain(self, plain: PlainJson, data: Column, parsed: Column) -> Decoded:
        """Read records that are not plain through VARIANT. The generated code of a lambda function is small, while
        that of the whole decoding can exceed what Java allows for a method."""
        schema, text, present = plain.schema, data.cast("string"), F.octet_length(data) > 0

        def decoded(variant: Column) -> Column:
            broken = F.when(variant.isNull(), F.lit(_NO_JSON))
            read = self._typed(schema, F.lit(True), variant, broken)
            error = no_error() if read.error is None else read.error
            return F.struct(read.column.cast(spark_type(schema)).alias("value"), error.alias("error"))

        is_plain = plain.is_plain(text, parsed)
        other = F.get(F.transform(F.array(F.try_parse_json(text)), decoded), F.lit(0))
        value = F.when(is_plain, plain.value(parsed)).when(present, other["value"])
        return Decoded(schema, value, F.when(present & ~is_plain, other["error"]))

    def _typed(self, schema: ConnectSchema | None, present: Column, variant: Column, broken: Column) -> Decoded:
        if schema is None:
            # JSON's null is Connect's null: a tombstone.
            return Decoded(None, F.when(present & ~F.is_variant_null(variant), variant), broken)
        spark_type(schema)
        decoding = JsonDecoding(self.replace_null_with_default, text_of_time=self.given is not None)
        read = decoding.read(schema, variant)
        error = read.error
        if self.given is not None and self.refuses_unknown:
            error = F.coalesce(error, unknown_fields(schema, variant))
        return Decoded(schema, F.when(present, read.value), F.coalesce(broken, F.when(present, error)))

    def from_connect(self, datum: Datum) -> Encoded:
        encoding = JsonEncoding(self.replace_null_with_default, self.decimals_as_numbers)
        schema, column = datum.schema, datum.column
        if schema is not None and schema.default is not None and self.replace_null_with_default:
            column = F.coalesce(column, default_literal(schema))
        payload = encoding.text(schema, column)
        error = F.when(column.isNotNull(), encoding.error(schema, column))
        if self.schemas:
            text = "null" if schema is None else json.dumps(schema.to_json(), separators=(",", ":"), ensure_ascii=False)
            payload = F.concat(F.lit(f'{{"schema":{text},"payload":'), payload, F.lit("}"))
        return Encoded(F.when(column.isNotNull(), payload).cast("binary"), error)

    def header_to_connect(self, data: Column) -> DecodedHeader:
        parsed = F.try_parse_json(data.cast("string"))
        broken = F.when(data.isNotNull() & parsed.isNull(), F.lit(_NO_JSON))
        if not self.schemas:
            return DecodedHeader(parsed, F.lit(None).cast("string"), broken)
        envelope = F.coalesce(broken, F.when(data.isNotNull() & ~_is_envelope(parsed), F.lit(_NO_ENVELOPE)))
        schema = member(parsed, "schema")
        text = F.when(~F.is_variant_null(schema), F.to_json(schema))
        return DecodedHeader(member(parsed, "payload"), text, envelope)

    def header_from_connect(self, value: Column, schema: Column) -> Encoded:
        payload = F.coalesce(F.to_json(value), F.lit("null"))
        if not self.schemas:
            return Encoded(F.when(value.isNotNull(), payload).cast("binary"), None)
        schema_column = F.coalesce(schema, F.lit("null"))
        envelope = F.concat(F.lit('{"schema":'), schema_column, F.lit(',"payload":'), payload, F.lit("}"))
        return Encoded(F.when(value.isNotNull() | schema.isNotNull(), envelope).cast("binary"), None)


def _is_envelope(parsed: Column) -> Column:
    names = F.map_keys(parsed.try_cast("map<string,variant>"))
    return F.coalesce(
        (F.size(names) == 2) & F.array_contains(names, "schema") & F.array_contains(names, "payload"), F.lit(False)
    )


@lru_cache(maxsize=1000)
def _schema(text: str) -> ConnectSchema:
    return ConnectSchema.from_json(json.loads(text))


def _content(text: str) -> ConnectSchema:
    try:
        schema = ConnectSchema.from_json(json.loads(text))
        spark_type(schema)
    except (ValueError, DataException) as error:
        raise ConfigException(_CONTENT, text, f"it must be a Connect schema in JSON: {error}") from None
    return schema


def _ddl(text: str) -> ConnectSchema:
    """Return the schema for Spark's DDL, such as ``id BIGINT, name STRING``, or for a single type."""
    try:
        schema = connect_schema(t.DataType.fromDDL(text))
    except DataException as error:
        raise ConfigException(_DDL, text, str(error)) from None
    except Exception as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigException(
            _DDL, text, f"write it as in CREATE TABLE, for example: id BIGINT, name STRING. Spark says: {reason}"
        ) from None
    if schema is None:
        raise ConfigException(_DDL, text, "schemaless JSON is VARIANT without this setting: omit it")
    return schema
