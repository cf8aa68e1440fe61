"""AvroConverter: plain Avro with a schema from a setting, through Spark's own Avro package.

barnabas has no schema registry. Records in the registry's framing (a zero byte, four bytes of schema id, the data) are
recognized and rejected with a message that says so, because they can't be read without the registry.

From bytes that it can't read Spark produces a record whose fields are all null. A record of one field has the same
bytes as this field, so the converter reads a wrapper record: for unreadable bytes the wrapped record itself is null.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from py4j.java_gateway import JavaPackage
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as t

from barnabas.common.config_value import ConfigException
from barnabas.connect.plugins.api import TerminalError
from barnabas.connect_spark.converters.converter import Converter, Decoded, Encoded
from barnabas.connect_spark.converters.json_decoding import no_error
from barnabas.connect_spark.converters.schema_merging import moved
from barnabas.connect_spark.converters.spark_types import connect_schema, spark_type
from barnabas.connect_spark.sessions.session_kind import is_remote

if TYPE_CHECKING:
    from pyspark.sql import Column

    from barnabas.connect_spark.converters.record_batch import Datum

__all__ = ["AvroConverter"]

_SCHEMA = "barnabas.avro.schema"
_FILE = "barnabas.avro.schema.file"
_NO_AVRO = "the bytes are not Avro of the configured schema"
_FRAMED = (
    "the bytes begin as a schema registry's framing does (0x00 and a schema id), and this converter uses no registry: "
    "write plain Avro, or use another converter"
)


@dataclass(frozen=True)
class AvroConverter(Converter):
    schema: str
    """The schema as Avro's JSON."""

    java_class: ClassVar[str] = "barnabas.connect.converters.AvroConverter"

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Self:
        text, file = settings.get(_SCHEMA), settings.get(_FILE)
        if bool(text) == bool(file):
            raise ConfigException(
                _SCHEMA, text, f"set either it, to an Avro schema in JSON, or {_FILE}, to the path of one"
            )
        if file:
            try:
                text = Path(file).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigException(_FILE, file, f"it can't be read: {error}") from None
        name, value = (_FILE, file) if file else (_SCHEMA, text)
        try:
            parsed = json.loads(str(text))
        except ValueError as error:
            raise ConfigException(name, value, f"it is not JSON: {error}") from None
        if not isinstance(parsed, dict | str | list):
            raise ConfigException(name, value, "an Avro schema is an object, an array or the name of a type")
        return cls(json.dumps(parsed))

    @cached_property
    def type(self) -> t.DataType:
        """Return Spark's type of the schema. Raise TerminalError, which no tolerance of bad records covers."""
        spark = SparkSession.active()
        _require_package(spark)
        try:
            return spark.createDataFrame([], "data binary").select(self._read(F.col("data"))).schema[0].dataType
        except Exception as error:
            raise TerminalError(f"{_SCHEMA} can't be used: {_reason(error)}") from None

    @property
    def _takes_null(self) -> bool:
        parsed = json.loads(self.schema)
        return parsed == "null" or (isinstance(parsed, list) and "null" in parsed)

    def _read(self, data: Column) -> Column:
        """Return the record; null for bytes that are not Avro of the schema."""
        from pyspark.sql.avro.functions import from_avro

        around = {"type": "record", "name": "Around", "namespace": "barnabas.connect"}
        whole = json.dumps({**around, "fields": [{"name": "whole", "type": json.loads(self.schema)}]})
        return from_avro(data, whole, {"mode": "PERMISSIVE"})["whole"]

    def _write(self, column: Column) -> Column:
        from pyspark.sql.avro.functions import to_avro

        return F.when(column.isNotNull(), to_avro(column, self.schema))

    def to_connect(self, prepared: Column, variety: str | None) -> Decoded:
        schema = connect_schema(self.type)
        read = self._read(prepared)
        unread = prepared.isNotNull() & read.isNull()
        if self._takes_null:
            unread = unread & (F.octet_length(prepared) > 1)  # A null has at most one byte.
        begins_so = (F.octet_length(prepared) > 5) & (F.hex(F.substring(prepared, 1, 1)) == "00")
        framed = F.when(begins_so, unread | self._is_framed(prepared, read)).otherwise(F.lit(False))
        return Decoded(schema, read, F.when(framed, F.lit(_FRAMED)).when(unread, F.lit(_NO_AVRO)))

    def _is_framed(self, data: Column, read: Column) -> Column:
        """Return whether the bytes are framed.

        Such bytes may be readable unchanged. They count as framed if they are exactly a record only without the
        framing.
        """
        inner = F.substring(data, 6, 2**31 - 1)
        is_plain = F.coalesce(self._write(read) == data, F.lit(False))
        return ~is_plain & F.coalesce(self._write(self._read(inner)) == inner, F.lit(False))

    def from_connect(self, datum: Datum) -> Encoded:
        return Encoded(self._write(moved(datum.column, spark_type(datum.schema), self.type)), no_error())

    def header_from_connect(self, value: Column, schema: Column) -> Encoded:
        return Encoded(self._write(value.try_cast(self.type)), no_error())


def _require_package(spark: SparkSession) -> None:
    if is_remote(spark):
        return  # The server reports that itself.
    jvm: Any = spark.sparkContext._jvm
    if isinstance(jvm.org.apache.spark.sql.avro.functions, JavaPackage):
        raise TerminalError(
            "AvroConverter needs Spark's package for Avro, and this worker's session was started without it: set "
            "barnabas.connect.spark.avro=true in the worker's settings, and restart the worker"
        )


def _reason(error: Exception) -> str:
    return str(error).strip().splitlines()[-1][:300] if str(error).strip() else type(error).__name__
