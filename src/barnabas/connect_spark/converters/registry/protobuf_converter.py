"""Confluent's ProtobufConverter: Protocol Buffers in the frame of a schema registry.

Behind the id the frame has the indexes of the message in its file. Messages are read and written by the ``protobuf``
package in UDFs, as ``ProtobufConverter`` does: Spark's own Protobuf package is not available for this version.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

from pyspark.sql import functions as F

from barnabas.clients.schema_registry.registry_client import RegisteredSchema
from barnabas.clients.schema_registry.wire_format import framed, read_indexes, write_indexes
from barnabas.common.config_value import ConfigException
from barnabas.connect_spark.converters.connect_schema import ConnectSchema, DataException
from barnabas.connect_spark.converters.converter import Encoded
from barnabas.connect_spark.converters.json_decoding import no_error
from barnabas.connect_spark.converters.protobuf_converter import ProtobufConverter
from barnabas.connect_spark.converters.record_batch import Datum
from barnabas.connect_spark.converters.registry.latest_schema import fitted, misfits
from barnabas.connect_spark.converters.registry.registry_converter import RegistryConverter
from barnabas.connect_spark.converters.registry.registry_reader import FRAME_LENGTH
from barnabas.connect_spark.converters.registry.schema_reading import SchemaReader
from barnabas.connect_spark.converters.registry.schema_writing import SchemaWriter
from barnabas.connect_spark.converters.spark_types import connect_schema, spark_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column

__all__ = ["ConfluentProtobufConverter"]

_FIRST = b"\0"
"""The indexes of a file's first message."""
_DEPTH_MAX = 8
_VARINT = "(?:[89A-F][0-9A-F])*[0-7][0-9A-F]"
_INDEXES = "^(?:" + "|".join(f"{2 * count:02X}(?:{_VARINT}){{{count}}}" for count in range(1, _DEPTH_MAX + 1)) + ")"
"""The number of indexes, and the indexes, as hexadecimal digits. All are zigzag varints."""
_LONGEST = 1 + _DEPTH_MAX * 5


class ConfluentProtobufConverter(RegistryConverter):
    java_class: ClassVar[str] = "io.confluent.connect.protobuf.ProtobufConverter"
    kind: ClassVar[str] = "PROTOBUF"

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Self:
        try:
            from google.protobuf import descriptor_pb2  # noqa: F401
        except ImportError:
            raise ConfigException(
                "schema.registry.url",
                settings.get("schema.registry.url"),
                "the package protobuf is not installed: pip install 'barnabas[protobuf]'",
            ) from None
        return super().of(settings)

    def frame(self, data: Column) -> Column:
        is_first = F.substring(data, FRAME_LENGTH + 1, 1) == F.lit(_FIRST)
        indexes = F.regexp_extract(F.hex(F.substring(data, FRAME_LENGTH + 1, _LONGEST)), _INDEXES, 0)
        length = (F.length(indexes) / 2).cast("int")
        long = F.when(length > 0, F.substr(data, F.lit(1), F.lit(FRAME_LENGTH) + length))
        framed_data = F.when(is_first, F.substring(data, 1, FRAME_LENGTH + 1)).otherwise(long)
        return F.when(F.substring(data, 1, 1) == F.lit(b"\0"), framed_data)

    def _first_frame(self, schema_id: int) -> bytes:
        return framed(schema_id, _FIRST)

    def _schema_reader(self, frame: bytes, schema: RegisteredSchema) -> SchemaReader:
        return _ProtobufReader(self._messages(schema, read_indexes(frame[FRAME_LENGTH:])[0]))

    def _messages(self, schema: RegisteredSchema, indexes: Sequence[int]) -> ProtobufConverter:
        """Return the converter of the messages with these indexes."""
        from google.protobuf.descriptor_pb2 import FileDescriptorSet

        from barnabas.clients.schema_registry.protobuf_files import message_at, protobuf_files

        files = protobuf_files(schema.text, self._references(schema))
        converter = ProtobufConverter(FileDescriptorSet(file=files).SerializeToString(), message_at(files[-1], indexes))
        try:
            spark_type(connect_schema(converter.type))
        except ValueError as error:
            raise DataException(str(error)) from None
        return converter

    def _schema_writer(self, schema: ConnectSchema, topic: str) -> SchemaWriter:

        from barnabas.connect_spark.converters.registry.protobuf_schemas import protobuf_of

        file = protobuf_of(schema)
        name = ".".join(filter(None, (file.package, file.message_type[0].name)))
        found = self._registered(topic, b64encode(file.SerializeToString()).decode(), name)
        latest = self._messages(found, [0])
        if self.options.uses_latest and not self.options.registers:
            problems = misfits(spark_type(schema), latest.type, {}, is_strict=self.options.is_strict)
            if problems:
                raise DataException(
                    f"the records don't fit schema {found.schema_id}, the latest of their subject: "
                    f"{'; '.join(problems)}"
                )
        return _ProtobufWriter(found.schema_id, latest)


@dataclass(frozen=True)
class _ProtobufReader:
    messages: ProtobufConverter

    @property
    def schema(self) -> ConnectSchema | None:
        found = connect_schema(self.messages.type)
        return None if found is None else replace(found, name=self.messages.message)

    def prepare(self, payload: Column) -> Column:
        decoded = self.messages.to_connect(payload, None)
        error = no_error() if decoded.error is None else decoded.error
        return F.struct(decoded.column.alias("value"), error.alias("error"))

    def value(self, payload: Column, prepared: Column) -> Column:
        return prepared["value"]

    def error(self, payload: Column, prepared: Column) -> Column:
        return prepared["error"]


@dataclass(frozen=True)
class _ProtobufWriter:
    schema_id: int
    messages: ProtobufConverter

    @property
    def frame(self) -> bytes:
        return framed(self.schema_id, write_indexes([0]))

    def write(self, datum: Datum) -> Encoded:
        column = fitted(datum.column, spark_type(datum.schema), self.messages.type, {})
        return self.messages.from_connect(Datum(connect_schema(self.messages.type), column))
