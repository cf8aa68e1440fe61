"""Convert a typed column to JSON text, by a Connect schema and by the rules of JsonConverter.

``JsonEncoding.form`` converts values without a JSON form to Connect's form (Base64, days, milliseconds, pairs of a map
whose keys aren't strings), and leaves other values unchanged; Spark's ``to_json`` does the rest.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from barnabas.connect_spark.converters.connect_schema import (
    DATE,
    DECIMAL,
    TIMESTAMP,
    ConnectSchema,
    SchemaType,
)
from barnabas.connect_spark.converters.decimals import bytes_of_decimal
from barnabas.connect_spark.converters.json_decoding import JSON_TEXT, default_literal, first_error, no_error
from barnabas.connect_spark.converters.spark_types import decimal_type

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["JsonEncoding", "base64_text", "json_text"]

_KEEP_NULLS = {"ignoreNullFields": "false"}


def base64_text(content: Column) -> Column:
    """Encode in one line; Spark's own function breaks it every 76 characters."""
    return F.translate(F.base64(content), "\r\n", "")


def json_text(column: Column, schema: ConnectSchema | None = None) -> Column:
    """Return the JSON of any column; null stays null."""
    if schema is None or not schema.type.is_primitive:
        return F.to_json(column, _KEEP_NULLS)
    wrapped = F.to_json(F.array(column))  # to_json takes no scalars.
    return F.when(column.isNotNull(), F.substr(wrapped, F.lit(2), F.length(wrapped) - 2))


@dataclass(frozen=True)
class JsonEncoding:
    replace_null_with_default: bool = True
    decimals_as_numbers: bool = False

    def text(self, schema: ConnectSchema | None, column: Column) -> Column:
        """Return JSON; null for null."""
        if schema is None:
            return json_text(column)
        formed = self.form(schema, column)
        if schema.type is SchemaType.MAP and not self._is_object(schema):
            return F.to_json(formed, _KEEP_NULLS)
        return json_text(formed, schema)

    def form(self, schema: ConnectSchema, column: Column) -> Column:
        if schema.default is not None and self.replace_null_with_default:
            column = F.coalesce(column, default_literal(schema))
        if not self._changes(schema):
            return column
        if schema.logical == DECIMAL:
            return column if self.decimals_as_numbers else base64_text(bytes_of_decimal(column, decimal_type(schema)))
        if schema.logical == DATE:
            return F.unix_date(column)
        if schema.logical == TIMESTAMP:
            return F.unix_millis(column)
        if schema.name == JSON_TEXT:
            return F.try_parse_json(column)
        if schema.type is SchemaType.BYTES:
            return base64_text(column)
        if schema.type is SchemaType.ARRAY:
            return F.transform(column, lambda item: self.form(schema.item, item))
        if schema.type is SchemaType.MAP:
            return self._map(schema, column)
        fields = [self.form(field.schema, column.getField(field.name)).alias(field.name) for field in schema.fields]
        return F.when(column.isNotNull(), F.struct(*fields))

    def _map(self, schema: ConnectSchema, column: Column) -> Column:
        if self._is_object(schema):
            return F.transform_values(column, lambda _, item: self.form(schema.item, item))
        return F.transform(
            F.map_entries(column),
            lambda entry: F.array(self._variant(schema.key, entry["key"]), self._variant(schema.item, entry["value"])),
        )

    def _variant(self, schema: ConnectSchema, column: Column) -> Column:
        return F.coalesce(F.try_parse_json(self.text(schema, column)), F.parse_json(F.lit("null")))

    @staticmethod
    def _is_object(schema: ConnectSchema) -> bool:
        return schema.key.type is SchemaType.STRING

    def _changes(self, schema: ConnectSchema) -> bool:
        """Return whether any part is written in another form than Spark's."""
        if schema.logical in (DECIMAL, DATE, TIMESTAMP):
            return schema.logical != DECIMAL or not self.decimals_as_numbers
        if schema.type is SchemaType.BYTES or schema.name == JSON_TEXT:
            return True
        if schema.type is SchemaType.MAP:
            return not self._is_object(schema) or self._alters(schema.item)
        if schema.type is SchemaType.ARRAY:
            return self._alters(schema.item)
        return any(self._alters(field.schema) for field in schema.fields)

    def _alters(self, schema: ConnectSchema) -> bool:
        return self._changes(schema) or (schema.default is not None and self.replace_null_with_default)

    def error(self, schema: ConnectSchema | None, column: Column) -> Column:
        """Return the error of a row: a null value that is neither optional nor has a default."""
        found = None if schema is None else self._missing(schema, column)
        return no_error() if found is None else found

    def _missing(self, schema: ConnectSchema, column: Column) -> Column | None:
        errors = []
        if not schema.optional and (schema.default is None or not self.replace_null_with_default):
            message = "Conversion error: null value for field that is required and has no default value"
            errors.append(F.when(column.isNull(), F.lit(message)))
        if schema.type is SchemaType.STRUCT:
            for field in schema.fields:
                inner = self._missing(field.schema, column.getField(field.name))
                if inner is not None:
                    named = F.concat(F.lit(f"{json.dumps(field.name, ensure_ascii=False)}: "), inner)
                    errors.append(F.when(column.isNotNull() & inner.isNotNull(), named))
        elif schema.type is SchemaType.ARRAY:
            errors += self._missing_among(schema.item, lambda: column)
        elif schema.type is SchemaType.MAP:
            errors += self._missing_among(schema.item, lambda: F.map_values(column))
        return first_error(errors) if errors else None

    def _missing_among(self, schema: ConnectSchema, items: Callable[[], Column]) -> list[Column]:
        if self._missing(schema, F.lit(None)) is None:
            return []

        def missing(item: Column) -> Column:
            found = self._missing(schema, item)
            return no_error() if found is None else found

        return [F.get(F.filter(F.transform(items(), missing), lambda message: message.isNotNull()), F.lit(0))]
