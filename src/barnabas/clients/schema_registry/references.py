"""The schemas that another schema uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from barnabas.clients.schema_registry.errors import SchemaError
from barnabas.clients.schema_registry.registry_client import Reference, RegisteredSchema

__all__ = ["SchemaSource", "referenced_texts"]

_DEPTH_MAX = 16


class SchemaSource(Protocol):
    def referenced(self, reference: Reference, *, is_protobuf: bool) -> RegisteredSchema: ...


def referenced_texts(registry: SchemaSource, schema: RegisteredSchema, depth: int = 0) -> Mapping[str, str]:
    """Return the texts of the schemas that this one uses, also indirectly, each before those that use it.

    Raise SchemaError.
    """
    if depth > _DEPTH_MAX:
        raise SchemaError(f"schema {schema.schema_id} has references more than {_DEPTH_MAX} levels deep")
    found: dict[str, str] = {}
    for reference in schema.references:
        used = registry.referenced(reference, is_protobuf=schema.kind == "PROTOBUF")
        for name, text in referenced_texts(registry, used, depth + 1).items():
            found.setdefault(name, text)
        found.setdefault(reference.name, used.text)
    return found
