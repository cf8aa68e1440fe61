"""StringConverter: text in an encoding. Other values are written as Connect's literals, and structures as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from pyspark.sql import functions as F

from barnabas.common.config_value import ConfigException
from barnabas.connect_spark.converters.connect_schema import DECIMAL, TIMESTAMP, ConnectSchema, SchemaType
from barnabas.connect_spark.converters.converter import Converter, Decoded, Encoded
from barnabas.connect_spark.converters.json_encoding import JsonEncoding
from barnabas.connect_spark.converters.variants import iso_timestamp, text_of

if TYPE_CHECKING:
    from pyspark.sql import Column

    from barnabas.connect_spark.converters.record_batch import Datum

__all__ = ["StringConverter"]

_ENCODING = "converter.encoding"
# Java's names and aliases.
_NAMES = {
    "UTF-8": ("utf-8", "utf8"),
    "ISO-8859-1": ("iso-8859-1", "iso8859_1", "iso8859-1", "latin1", "l1"),
    "US-ASCII": ("us-ascii", "ascii"),
    "UTF-16BE": ("utf-16be", "utf_16be"),
    "UTF-16LE": ("utf-16le", "utf_16le"),
}
_ENCODINGS = {alias: name for name, aliases in _NAMES.items() for alias in aliases}
# UTF-16 code units in hexadecimal: no surrogate, or a valid pair. Spark's decoder raises for any other.
_UTF16 = {
    "UTF-16BE": "(?:(?!D[89A-F])[0-9A-F]{4}|D[89AB][0-9A-F]{2}D[C-F][0-9A-F]{2})*",
    "UTF-16LE": "(?:(?!..D[89A-F])[0-9A-F]{4}|[0-9A-F]{2}D[89AB][0-9A-F]{2}D[C-F])*",
}
_REPLACEMENT = "\ufffd"


@dataclass(frozen=True)
class StringConverter(Converter):
    encoding: str = "UTF-8"

    java_class: ClassVar[str] = "org.apache.kafka.connect.storage.StringConverter"

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Self:
        name = settings.get(_ENCODING, "UTF-8")
        encoding = _ENCODINGS.get(name.lower())
        if encoding is None:
            raise ConfigException(_ENCODING, name, f"it must be one of {', '.join(_NAMES)}")
        return cls(encoding)

    def to_connect(self, prepared: Column, variety: str | None) -> Decoded:
        text, error = self._text(prepared)
        return Decoded(ConnectSchema(SchemaType.STRING, optional=True), text, error)

    def _text(self, data: Column) -> tuple[Column, Column | None]:
        if self.encoding == "UTF-8":
            # Java's own decoder, which replaces invalid UTF-8 (see the settings of the session), as Connect's does.
            # It takes a quarter of the time of make_valid_utf8.
            return F.decode(data, "UTF-8"), None
        if self.encoding in _UTF16:
            whole = F.hex(data).rlike(f"^{_UTF16[self.encoding]}$")
            message = F.lit(f"the bytes are not valid {self.encoding}: check {_ENCODING}")
            return F.when(whole, F.decode(data, self.encoding)), F.when(~whole, message)
        text = F.decode(data, "ISO-8859-1")
        if self.encoding == "US-ASCII":
            text = F.regexp_replace(text, "[^\\x00-\\x7F]", _REPLACEMENT)
        return text, None

    def from_connect(self, datum: Datum) -> Encoded:
        return Encoded(self._bytes(_literal(datum.schema, datum.column)), None)

    def header_from_connect(self, value: Column, schema: Column) -> Encoded:
        return Encoded(self._bytes(text_of(value, schema)), None)

    def _bytes(self, text: Column) -> Column:
        if self.encoding == "UTF-8":
            return text.cast("binary")
        if self.encoding not in _UTF16:
            beyond = "[^\\x00-\\x7F]" if self.encoding == "US-ASCII" else "[^\\x00-\\xFF]"
            text = F.regexp_replace(text, beyond, "?")  # As Java does for characters that the encoding lacks.
        return F.encode(text, self.encoding)


def _literal(schema: ConnectSchema | None, column: Column) -> Column:
    if schema is None:
        return text_of(column)
    if schema.type is SchemaType.STRING:
        return column
    if schema.logical == TIMESTAMP:
        return iso_timestamp(column)
    if schema.logical == DECIMAL:
        return column.cast("string")
    if schema.type.is_primitive and schema.type is not SchemaType.BYTES:
        return column.cast("string")
    return JsonEncoding(replace_null_with_default=False, decimals_as_numbers=True).text(schema, column)
