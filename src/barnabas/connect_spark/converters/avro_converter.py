"""AvroConverter: plain Avro with a schema from a setting, through Spark's own Avro package.

Records in the framing of a schema registry (a zero byte, four bytes of schema id, the data) are recognized and rejected
with a message that says so: another converter reads them, with the registry (``registry``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from pyspark.sql import functions as F
from pyspark.sql import types as t

from barnabas.common.config_value import ConfigException
from barnabas.connect.plugins.api import TerminalError
from barnabas.connect_spark.converters.avro_data import AvroData
from barnabas.connect_spark.converters.converter import Converter, Decoded, Encoded
from barnabas.connect_spark.converters.json_decoding import no_error
from barnabas.connect_spark.converters.schema_merging import moved
from barnabas.connect_spark.converters.spark_types import connect_schema, spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column

    from barnabas.connect_spark.converters.record_batch import Datum

__all__ = ["AvroConverter"]

_SCHEMA = "barnabas.avro.schema"
_FILE = "barnabas.avro.schema.file"
_NO_AVRO = "the bytes are not Avro of the configured schema"
_FRAMED = (
    "the bytes begin as a schema registry's framing does (0x00 and a schema id), and this converter uses no registry: "
    "use io.confluent.connect.avro.AvroConverter with schema.registry.url, or write plain Avro"
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
                _SCHEMA,
                text,
                f"set either it, to an Avro schema in JSON, or {_FILE}, to the path of one; for schemas of a registry "
                "use io.confluent.connect.avro.AvroConverter",
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

    @property
    def _data(self) -> AvroData:
        return AvroData(self.schema)

    @cached_property
    def type(self) -> t.DataType:
        """Return Spark's type of the schema. Raise TerminalError, which no tolerance of bad records covers."""
        try:
            return self._data.type
        except ValueError as error:
            raise TerminalError(f"{_SCHEMA} can't be used: {error}") from None

    def to_connect(self, prepared: Column, variety: str | None) -> Decoded:
        schema = connect_schema(self.type)
        read = self._data.read(prepared)
        unread = prepared.isNotNull() & read.isNull()
        if self._data.takes_null:
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
        is_plain = F.coalesce(self._data.write(read) == data, F.lit(False))
        return ~is_plain & F.coalesce(self._data.write(self._data.read(inner)) == inner, F.lit(False))

    def from_connect(self, datum: Datum) -> Encoded:
        return Encoded(self._data.write(moved(datum.column, spark_type(datum.schema), self.type)), no_error())

    def header_from_connect(self, value: Column, schema: Column) -> Encoded:
        return Encoded(self._data.write(value.try_cast(self.type)), no_error())
