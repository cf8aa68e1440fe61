"""Confluent's AvroConverter: Avro in the frame of a schema registry, through Spark's own Avro package."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as t

from barnabas.clients.schema_registry.avro_references import complete_avro
from barnabas.clients.schema_registry.registry_client import RegisteredSchema
from barnabas.clients.schema_registry.wire_format import framed
from barnabas.connect_spark.converters.avro_data import AvroData, require_avro
from barnabas.connect_spark.converters.connect_schema import ConnectSchema, DataException
from barnabas.connect_spark.converters.converter import Encoded
from barnabas.connect_spark.converters.json_decoding import no_error
from barnabas.connect_spark.converters.json_encoding import JsonEncoding
from barnabas.connect_spark.converters.registry.avro_schemas import avro_of, named_by_avro, record_name, text_of
from barnabas.connect_spark.converters.registry.latest_schema import fitted, misfits
from barnabas.connect_spark.converters.registry.registry_converter import RegistryConverter
from barnabas.connect_spark.converters.registry.schema_reading import SchemaReader
from barnabas.connect_spark.converters.registry.schema_writing import SchemaWriter
from barnabas.connect_spark.converters.spark_types import connect_schema, spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column

    from barnabas.connect_spark.converters.record_batch import Datum

__all__ = ["ConfluentAvroConverter"]


class ConfluentAvroConverter(RegistryConverter):
    java_class: ClassVar[str] = "io.confluent.connect.avro.AvroConverter"
    kind: ClassVar[str] = "AVRO"

    def _schema_reader(self, frame: bytes, schema: RegisteredSchema) -> SchemaReader:
        return _AvroReader(self._complete(schema), schema.schema_id)

    def _complete(self, schema: RegisteredSchema) -> str:
        return text_of(complete_avro(schema.text, self._references(schema).values()))

    def _schema_writer(self, schema: ConnectSchema, topic: str) -> SchemaWriter:
        require_avro(SparkSession.active())
        avro = avro_of(schema)
        text = text_of(avro)
        found = self._registered(topic, text, record_name(avro))
        if not self.options.uses_latest or self.options.registers:
            return _AvroWriter(found.schema_id, text, ())
        complete = self._complete(found)
        target = _AvroReader(complete, found.schema_id)
        problems = misfits(
            spark_type(schema), target.data.strict_type, _defaults(complete), is_strict=self.options.is_strict
        )
        if problems:
            raise DataException(
                f"the records don't fit schema {found.schema_id}, the latest of their subject: {'; '.join(problems)}"
            )
        return _AvroWriter(found.schema_id, complete, tuple(_defaults(complete).items()))


@dataclass(frozen=True)
class _AvroReader:
    text: str
    schema_id: int

    @cached_property
    def data(self) -> AvroData:
        return AvroData(self.text, names_members=True)

    @cached_property
    def schema(self) -> ConnectSchema | None:
        try:
            kind = self.data.strict_type
        except ValueError as error:
            raise DataException(f"Spark can't read it: {error}") from None
        if isinstance(kind, t.NullType):
            raise DataException("it is the type null, of which a column has no values")
        found = connect_schema(kind)
        return None if found is None else named_by_avro(found, json.loads(self.text))

    def prepare(self, payload: Column) -> Column:
        return self.data.read(payload)

    def value(self, payload: Column, prepared: Column) -> Column:
        return prepared

    def error(self, payload: Column, prepared: Column) -> Column:
        unread = payload.isNotNull() & prepared.isNull()
        if self.data.takes_null:
            unread = unread & (F.octet_length(payload) > 1)  # A null has one byte, its branch.
        return F.when(unread, F.lit(f"the bytes are not Avro of schema {self.schema_id}"))


@dataclass(frozen=True)
class _AvroWriter:
    schema_id: int
    text: str
    defaults: tuple[tuple[str, str], ...]
    """JSON of the values that absent fields have, by field."""

    @property
    def frame(self) -> bytes:
        return framed(self.schema_id, b"")

    def write(self, datum: Datum) -> Encoded:
        data = AvroData(self.text, names_members=True)
        kind = data.strict_type
        column = fitted(datum.column, spark_type(datum.schema), kind, dict(self.defaults))
        schema = connect_schema(kind)
        if schema is None:
            return Encoded(data.write(column), no_error())
        missing = JsonEncoding(replace_null_with_default=False).error(schema, column)
        wrong = _unknown_symbols(json.loads(self.text), column)
        error = F.when(datum.column.isNotNull(), F.coalesce(missing, *wrong))
        return Encoded(F.when(error.isNull(), data.write(column)), error)


def _defaults(text: str) -> dict[str, str]:
    """Return the defaults of a record's fields as JSON, null ones excepted."""
    avro = json.loads(text)
    fields = avro.get("fields", ()) if isinstance(avro, dict) else ()
    return {field["name"]: json.dumps(field["default"]) for field in fields if field.get("default") is not None}


def _unknown_symbols(avro: Any, column: Column) -> list[Column]:
    """Return an error for each field of a record that is an enum and has another text."""
    errors = []
    for field in avro.get("fields", ()) if isinstance(avro, dict) else ():
        branches = field["type"] if isinstance(field["type"], list) else [field["type"]]
        for branch in branches:
            if isinstance(branch, dict) and branch.get("type") == "enum":
                value = column.getField(field["name"])
                message = F.concat(
                    F.lit(f"{json.dumps(field['name'])} is one of {', '.join(branch['symbols'])}, and not "), value
                )
                errors.append(F.when(~value.isin(*branch["symbols"]), message))
    return errors
