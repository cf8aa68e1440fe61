"""Confluent's JsonSchemaConverter: JSON in the frame of a schema registry, typed by its JSON Schema.

The registered schema says the types; ``JsonConverter`` reads and writes the JSON, by the same expressions as with
``barnabas.schema``. The schema is not used to validate beyond types and required fields.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pyspark.sql import functions as F

from barnabas.clients.schema_registry.registry_client import RegisteredSchema
from barnabas.clients.schema_registry.wire_format import framed
from barnabas.connect_spark.converters.connect_schema import ConnectSchema, DataException
from barnabas.connect_spark.converters.converter import Encoded
from barnabas.connect_spark.converters.json_converter import JsonConverter
from barnabas.connect_spark.converters.json_decoding import no_error
from barnabas.connect_spark.converters.record_batch import Datum
from barnabas.connect_spark.converters.registry.json_schemas import connect_of_json_schema, json_schema_of
from barnabas.connect_spark.converters.registry.latest_schema import fitted, misfits
from barnabas.connect_spark.converters.registry.registry_converter import RegistryConverter
from barnabas.connect_spark.converters.registry.schema_reading import SchemaReader
from barnabas.connect_spark.converters.registry.schema_writing import SchemaWriter
from barnabas.connect_spark.converters.spark_types import spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["JsonSchemaConverter"]


class JsonSchemaConverter(RegistryConverter):
    java_class: ClassVar[str] = "io.confluent.connect.json.JsonSchemaConverter"
    kind: ClassVar[str] = "JSON"

    @property
    def _decimals_as_numbers(self) -> bool:
        return str(self.values["decimal.format"]).upper() == "NUMERIC"

    def _connect_schema(self, schema: RegisteredSchema) -> ConnectSchema | None:
        found = connect_of_json_schema(schema.text, self._references(schema))
        spark_type(found)  # Refuses what a column can't be.
        return found

    def _schema_reader(self, frame: bytes, schema: RegisteredSchema) -> SchemaReader:
        refuses = self.values["barnabas.schema.unknown.fields"] == "error"
        found = self._connect_schema(schema)
        return _JsonReader(found, JsonConverter(schemas=False, given=found, refuses_unknown=refuses))

    def _schema_writer(self, schema: ConnectSchema, topic: str) -> SchemaWriter:
        as_numbers = self._decimals_as_numbers
        written = json_schema_of(schema, decimals_as_numbers=as_numbers)
        text = json.dumps(written, separators=(",", ":"), ensure_ascii=False)
        found = self._registered(topic, text, schema.name)
        if not self.options.uses_latest or self.options.registers:
            return _JsonWriter(found.schema_id, schema, as_numbers)
        latest = self._connect_schema(found)
        if latest is None:
            return _JsonWriter(found.schema_id, schema, as_numbers)
        problems = misfits(spark_type(schema), spark_type(latest), {}, is_strict=self.options.is_strict)
        if problems:
            raise DataException(
                f"the records don't fit schema {found.schema_id}, the latest of their subject: {'; '.join(problems)}"
            )
        return _JsonWriter(found.schema_id, latest, as_numbers)


@dataclass(frozen=True)
class _JsonReader:
    schema: ConnectSchema | None
    converter: JsonConverter

    def prepare(self, payload: Column) -> Column:
        return self.converter.prepare(payload)

    def value(self, payload: Column, prepared: Column) -> Column:
        return self.converter.to_connect(prepared, None).column

    def error(self, payload: Column, prepared: Column) -> Column:
        error = self.converter.to_connect(prepared, None).error
        return no_error() if error is None else error


@dataclass(frozen=True)
class _JsonWriter:
    schema_id: int
    schema: ConnectSchema
    decimals_as_numbers: bool

    @property
    def frame(self) -> bytes:
        return framed(self.schema_id, b"")

    def write(self, datum: Datum) -> Encoded:
        column = fitted(datum.column, spark_type(datum.schema), spark_type(self.schema), {})
        converter = JsonConverter(schemas=False, decimals_as_numbers=self.decimals_as_numbers)
        return converter.from_connect(Datum(self.schema, F.when(datum.column.isNotNull(), column)))
