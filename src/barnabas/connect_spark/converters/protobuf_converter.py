"""ProtobufConverter: Protocol Buffers messages, by a descriptor file and the name of a message.

Spark's own Protobuf package is not available for this version, so the ``protobuf`` package reads messages in a UDF on
Arrow batches, and writes them in a UDF on rows. No other kind of converter runs Python for each record.

Fields have the names of the .proto file. Enums are represented by their names, Timestamp is a timestamp, wrappers are
nullable values, uint64 is decimal(20,0). An absent field without presence has its default, as in Protocol Buffers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pyspark.sql import functions as F
from pyspark.sql import types as t

from barnabas.common.config_value import ConfigException
from barnabas.connect_spark.converters.connect_schema import DataException
from barnabas.connect_spark.converters.converter import Converter, Decoded, Encoded
from barnabas.connect_spark.converters.schema_merging import moved
from barnabas.connect_spark.converters.spark_types import connect_schema, spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column

    from barnabas.connect_spark.converters.protobuf_messages import MessageCodec
    from barnabas.connect_spark.converters.record_batch import Datum

__all__ = ["ProtobufConverter"]

_FILE = "barnabas.protobuf.descriptor.file"
_MESSAGE = "barnabas.protobuf.message"


@dataclass(frozen=True)
class ProtobufConverter(Converter):
    descriptors: bytes
    """A FileDescriptorSet, as ``protoc --include_imports --descriptor_set_out`` writes it."""
    message: str

    java_class: ClassVar[str] = "barnabas.connect.converters.ProtobufConverter"

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Self:
        file, message = settings.get(_FILE), settings.get(_MESSAGE)
        if not file:
            raise ConfigException(
                _FILE, file, "name a file that `protoc --include_imports --descriptor_set_out=FILE` has written"
            )
        if not message:
            raise ConfigException(_MESSAGE, message, "give the full name of the message, such as shop.v1.Order")
        try:
            content = Path(file).read_bytes()
        except OSError as error:
            raise ConfigException(_FILE, file, f"it can't be read: {error.strerror or error}") from None
        try:
            from barnabas.connect_spark.converters.protobuf_messages import MessageCodec, MessageUnknown
        except ImportError:
            raise ConfigException(
                _MESSAGE, message, "the package protobuf is not installed: pip install 'barnabas[protobuf]'"
            ) from None
        try:
            MessageCodec(content, message)
        except MessageUnknown as error:
            raise ConfigException(_MESSAGE, message, str(error)) from None
        except ValueError as error:
            raise ConfigException(_FILE, file, str(error)) from None
        return cls(content, message)

    @cached_property
    def type(self) -> t.StructType:
        return _codec(self.descriptors, self.message).spark_type

    def to_connect(self, prepared: Column, variety: str | None) -> Decoded:
        descriptors, message, kind = self.descriptors, self.message, self.type
        answer = t.StructType([t.StructField("value", kind), t.StructField("error", t.StringType())])
        codec: list[MessageCodec] = []

        def read(data: bytes | None) -> tuple[object, str | None]:
            if not codec:  # Once in each Spark worker process; a codec itself can't be pickled.
                codec.append(_codec(descriptors, message))
            if data is None:
                return None, None
            try:
                return codec[0].decode(bytes(data)), None
            except ValueError as error:
                return None, f"the bytes are not a {message}: {error}"

        answered = F.udf(read, answer, useArrow=True)(prepared)
        return Decoded(connect_schema(kind), answered["value"], answered["error"])

    def from_connect(self, datum: Datum) -> Encoded:
        self._refuse_unknown(spark_type(datum.schema))
        return self._written(moved(datum.column, spark_type(datum.schema), self.type))

    def header_from_connect(self, value: Column, schema: Column) -> Encoded:
        return self._written(value.try_cast(self.type))

    def _refuse_unknown(self, given: t.DataType) -> None:
        if isinstance(given, t.StructType):
            unknown = [name for name in given.names if name not in self.type.names]
            if unknown:
                raise DataException(
                    f"{self.message} has no field {', '.join(unknown)}: remove it with ReplaceField, or add it there"
                )
        elif not isinstance(given, t.VariantType):
            raise DataException(f"{self.message} is written from a struct, not from {given.simpleString()}")

    def _written(self, column: Column) -> Encoded:
        descriptors, message = self.descriptors, self.message
        answer = t.StructType([t.StructField("data", t.BinaryType()), t.StructField("error", t.StringType())])
        codec: list[MessageCodec] = []

        def write(row: Any) -> tuple[bytes | None, str | None]:
            if not codec:
                codec.append(_codec(descriptors, message))
            if row is None:
                return None, None
            try:
                return codec[0].encode(row.asDict(recursive=True)), None
            except (ValueError, TypeError) as error:
                return None, f"it is not a {message}: {error}"

        # Through Arrow a null in a column would turn its whole numbers into floating-point ones.
        answered = F.udf(write, answer, useArrow=False)(column)
        return Encoded(answered["data"], answered["error"])


def _codec(descriptors: bytes, message: str) -> MessageCodec:
    from barnabas.connect_spark.converters.protobuf_messages import MessageCodec

    return MessageCodec(descriptors, message)
