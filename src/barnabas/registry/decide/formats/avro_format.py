"""Avro, by Apache's library: it parses schemas, and decides whether a reader's schema can read a writer's data.

The stored text is what Java's ``Schema.toString`` prints, because clients in Java look their schemas up by it.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from typing import Any

from avro.compatibility import (
    ReaderWriterCompatibilityChecker,
    SchemaCompatibilityType,
    SchemaIncompatibilityType,
)
from avro.errors import AvroException
from avro.name import Names
from avro.schema import Schema as AvroSchema
from avro.schema import make_avsc_object

from barnabas.registry.decide.formats.avro_text import avro_text
from barnabas.registry.decide.formats.parsed_schema import ReferencedText, UnreadableSchema, check_depth

__all__ = ["AvroFormat", "ParsedAvro"]


class ParsedAvro:
    def __init__(self, schema: AvroSchema, canonical: str) -> None:
        self.canonical = canonical
        self.schema = schema

    def problems_reading(self, writer: ParsedAvro) -> list[str]:
        checker = ReaderWriterCompatibilityChecker()  # type: ignore[no-untyped-call]
        found = checker.get_compatibility(self.schema, writer.schema)
        if found.compatibility is not SchemaCompatibilityType.incompatible:
            return []
        where = ", ".join(sorted(found.locations - {"/"}) or ["/"])
        names = sorted({kind.name.upper() for kind in found.incompatibilities})
        return [
            f"{{errorType:'{', '.join(names)}', description:'{_meaning(names, message)}', additionalInfo:'{where}'}}"
            for message in sorted(found.messages) or ["the schemas differ"]
        ]


def _meaning(kinds: Sequence[str], message: str) -> str:
    """Return the library's message in a sentence, where it is only a name."""
    if kinds == [SchemaIncompatibilityType.reader_field_missing_default_value.name.upper()]:
        return f"the reader needs the field {message}, which the writer lacks, and which has no default"
    return message


class AvroFormat:
    """A Format."""

    def parse(self, text: str, references: Sequence[ReferencedText], *, normalize: bool = False) -> ParsedAvro:
        names = Names()
        for reference in references:
            _parsed(_document(reference.text), names, f"the reference {reference.name}")
        document = _document(text)
        schema = _parsed(document, names, "the schema")
        return ParsedAvro(schema, avro_text(document, normalize=normalize))


def _document(text: str) -> Any:
    try:
        document = json.loads(text)
    except ValueError:
        return text.strip()  # The name of a type needs no quotes.
    except RecursionError:
        raise UnreadableSchema("it is nested too deeply") from None
    check_depth(document)
    if document is None:
        return "null"  # A type, too.
    return document


def _parsed(document: Any, names: Names, what: str) -> AvroSchema:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # About logical types that the library does not know: they are stored.
            return make_avsc_object(document, names)
    except (AvroException, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UnreadableSchema(f"{what} is not a valid Avro schema: {error}") from None
