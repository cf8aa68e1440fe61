"""Parse schemas of all formats, and remember the results: earlier versions are compared again and again.

The methods may be called on any thread, because parsing is slow: the Protobuf compiler needs a tenth of a second.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple

from barnabas.registry.decide.errors import invalid_schema
from barnabas.registry.decide.formats.parsed_schema import Format, ParsedSchema, ReferencedText, UnreadableSchema
from barnabas.registry.decide.schema import Schema

__all__ = ["Parsing", "SchemaSource"]

_REMEMBERED_MAX = 1000


class SchemaSource(NamedTuple):
    """A schema with the texts of all schemas that it uses."""

    schema: Schema
    references: tuple[ReferencedText, ...] = ()


class Parsing:
    """``formats`` are those that this registry has, by the names of types."""

    def __init__(self, formats: Mapping[str, Format]) -> None:
        self._formats = formats
        self._remembered: OrderedDict[object, ParsedSchema] = OrderedDict()

    def parsed(self, source: SchemaSource, *, normalize: bool = False) -> ParsedSchema:
        """Parse a schema. Raise RegistryError."""
        key = (source.schema.type, source.schema.text, source.references, normalize)
        found = self._remembered.get(key)
        if found is None:
            found = self._remembered[key] = self._parse(source, normalize)
            while len(self._remembered) > _REMEMBERED_MAX:
                self._remembered.popitem(last=False)
        return found

    def canonical(self, source: SchemaSource, *, normalize: bool = False) -> Schema:
        """Return the schema with the text that is stored. Raise RegistryError."""
        return source.schema.with_text(self.parsed(source, normalize=normalize).canonical)

    def _parse(self, source: SchemaSource, normalize: bool) -> ParsedSchema:
        found = self._formats.get(source.schema.type)
        if found is None:
            known = ", ".join(self._formats)
            raise invalid_schema(f"this registry can't read {source.schema.type} schemas, only {known}")
        try:
            return found.parse(source.schema.text, source.references, normalize=normalize)
        except UnreadableSchema as error:
            raise invalid_schema(str(error)) from None
