"""Put the Avro schemas that another one uses into it, so that it is complete in itself.

In Avro a named type (record, enum, fixed) is defined where it occurs first, and later occurs as its name. A schema with
references only has the name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from barnabas.clients.schema_registry.errors import SchemaError

__all__ = ["complete_avro"]

_NAMED = ("record", "error", "enum", "fixed")
_PRIMITIVE = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))


def complete_avro(text: str, references: Iterable[str]) -> Any:
    """Return the parsed schema with all types that it uses; every name is a full one. Raise SchemaError."""
    completion = _Completion()
    for used in references:
        completion.define(_parsed(used), "")
    return completion.completed(_parsed(text), "")


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise SchemaError(f"the Avro schema is not JSON: {error}") from None


class _Completion:
    def __init__(self) -> None:
        self._definitions: dict[str, Any] = {}
        """Definitions of referenced schemas by full name. Names in them are full ones."""
        self._written: set[str] = set()

    def define(self, schema: Any, namespace: str) -> None:
        """Keep the named types of a schema, which may use those of earlier ones."""
        if isinstance(schema, list):
            for branch in schema:
                self.define(branch, namespace)
        elif isinstance(schema, dict):
            inner = namespace
            if schema.get("type") in _NAMED:
                name = _full_name(schema, namespace)
                inner = name.rpartition(".")[0]
                self._definitions.setdefault(name, _with_full_names(schema, namespace))
            for field in schema.get("fields", ()):
                self.define(field.get("type"), inner)
            for part in ("type", "items", "values"):
                if isinstance(schema.get(part), dict | list):
                    self.define(schema[part], inner)

    def completed(self, schema: Any, namespace: str) -> Any:
        if isinstance(schema, list):
            return [self.completed(branch, namespace) for branch in schema]
        if isinstance(schema, str):
            return self._named(schema, namespace)
        if not isinstance(schema, dict) or "type" not in schema:
            raise SchemaError(f"the Avro schema has {json.dumps(schema)[:60]} in place of a type")
        if schema["type"] not in _NAMED:
            parts = {part: self.completed(schema[part], namespace) for part in ("items", "values") if part in schema}
            kind = schema["type"] if isinstance(schema["type"], str) and parts else self._kind(schema, namespace)
            return {**schema, "type": kind, **parts}
        name = _full_name(schema, namespace)
        if name in self._written:  # A referenced schema may define again what an earlier use has brought here.
            return name
        self._written.add(name)
        whole = {key: part for key, part in schema.items() if key != "namespace"} | {"name": name}
        inner = name.rpartition(".")[0]
        if "fields" in schema:
            whole["fields"] = [field | {"type": self.completed(field["type"], inner)} for field in schema["fields"]]
        return whole

    def _kind(self, schema: dict[str, Any], namespace: str) -> Any:
        kind = schema["type"]
        return kind if isinstance(kind, str) and kind in _PRIMITIVE else self.completed(kind, namespace)

    def _named(self, name: str, namespace: str) -> Any:
        if name in _PRIMITIVE:
            return name
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        for known in (full, name):
            if known in self._written:
                return known
            if known in self._definitions:
                return self.completed(self._definitions[known], "")
        raise SchemaError(f"the Avro schema uses {full}, which neither it nor one of its references defines")


def _full_name(schema: dict[str, Any], namespace: str) -> str:
    name = schema.get("name")
    if not isinstance(name, str) or not name:
        raise SchemaError(f"the Avro schema has a {schema['type']} without a name")
    if "." in name:
        return name
    own = schema.get("namespace", namespace)
    return f"{own}.{name}" if own else name


def _with_full_names(schema: dict[str, Any], namespace: str) -> dict[str, Any]:
    """Return the definition as it stands, with its namespace: names in it are relative to that."""
    name = _full_name(schema, namespace)
    return {key: part for key, part in schema.items() if key != "namespace"} | {"name": name}
