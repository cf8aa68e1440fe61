"""JSON Schema: checked by ``jsonschema``, compared by the rules in ``json_compatibility``.

A schema without ``$schema`` is of draft 7. Nothing is read from the network: what a schema uses must be registered.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urljoin

from jsonschema import Draft7Validator
from jsonschema import SchemaError as InvalidJsonSchema
from jsonschema.validators import validator_for
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT7, DRAFT202012

from barnabas.registry.decide.formats.json_compatibility import problems
from barnabas.registry.decide.formats.parsed_schema import ReferencedText, UnreadableSchema, check_depth

__all__ = ["JsonFormat", "ParsedJsonSchema"]

_DATA = ("enum", "const", "default", "examples")
"""Keywords whose values are data, not schemas."""


class ParsedJsonSchema:
    def __init__(self, document: Any, registry: Registry[Any], canonical: str) -> None:
        self.canonical = canonical
        self._document = document
        self._registry = registry

    def problems_reading(self, writer: ParsedJsonSchema) -> list[str]:
        return problems(writer.root, self.root)

    @property
    def root(self) -> tuple[Any, Any]:
        """The schema, and the resolver of its references."""
        resource = _resource(self._document)
        uri = resource.id() or ""
        return self._document, self._registry.with_resource(uri, resource).resolver(uri)


class JsonFormat:
    """A Format."""

    def parse(self, text: str, references: Sequence[ReferencedText], *, normalize: bool = False) -> ParsedJsonSchema:
        document = _checked(text, "the schema")
        registry: Registry[Any] = Registry()
        base = _resource(document).id() or ""
        for reference in references:
            used = _resource(_checked(reference.text, f"the reference {reference.name}"))
            names = {reference.name, urljoin(base, reference.name), used.id() or reference.name}
            registry = registry.with_resources([(name, used) for name in names])
        parsed = ParsedJsonSchema(
            document, registry, json.dumps(document, ensure_ascii=False, separators=(",", ":"), sort_keys=normalize)
        )
        _check_references(document, parsed.root[1])
        return parsed


def _checked(text: str, what: str) -> Any:
    try:
        document = json.loads(text)
        if not isinstance(document, (dict, bool)):
            raise UnreadableSchema(f"{what} is neither a JSON object nor true or false")
        check_depth(document)
        validator_for(document, default=Draft7Validator).check_schema(document)
    except InvalidJsonSchema as error:
        raise UnreadableSchema(f"{what} is not a valid JSON Schema: {error.message} at {error.json_path}") from None
    except (ValueError, RecursionError) as error:
        raise UnreadableSchema(str(error) if isinstance(error, UnreadableSchema) else f"{what}: {error}") from None
    return document


def _resource(document: Any) -> Resource[Any]:
    is_new = isinstance(document, dict) and "2020-12" in str(document.get("$schema", ""))
    return Resource.from_contents(document, default_specification=DRAFT202012 if is_new else DRAFT7)


def _check_references(document: Any, resolver: Any) -> None:
    for reference, base in _references(document, resolver):
        try:
            base.lookup(reference)
        except (Unresolvable, ValueError):
            raise UnreadableSchema(
                f"the schema uses {reference}, which it does not contain: register it, and name it in references"
            ) from None


def _references(document: Any, resolver: Any) -> list[tuple[str, Any]]:
    """Return the references, each with the resolver of its place."""
    found: list[tuple[str, Any]] = []
    rest = [(document, resolver)]
    while rest:
        part, base = rest.pop()
        if isinstance(part, Mapping):
            if isinstance(part.get("$id"), str) and part is not document:
                base = base.in_subresource(_resource(part))
            if isinstance(part.get("$ref"), str):
                found.append((part["$ref"], base))
            rest += [(value, base) for name, value in part.items() if name not in _DATA]
        elif isinstance(part, list):
            rest += [(value, base) for value in part]
    return found
