"""The text of an Avro schema, as Java's ``Schema.toString`` prints it.

Fields have Java's order, a type without properties is its name, and a namespace is written where it changes. A named
type that occurs again is its name. With ``normalize`` properties are sorted, too, and names are written in full where
they are used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

__all__ = ["avro_text"]

_RESERVED_TYPE = frozenset(
    ("type", "name", "namespace", "doc", "fields", "items", "values", "symbols", "size", "aliases", "default")
)
_RESERVED_FIELD = frozenset(("name", "type", "doc", "default", "order", "aliases"))
_PRIMITIVE = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))


def avro_text(document: Any, *, normalize: bool = False) -> str:
    """Return the text of a schema that the library has parsed."""
    printed = _Printer(normalize).schema(document, None)
    return json.dumps(printed, ensure_ascii=False, separators=(",", ":"))


class _Printer:
    def __init__(self, normalize: bool) -> None:
        self._normalize = normalize

    def schema(self, schema: Any, space: str | None) -> Any:
        """``space`` is the enclosing namespace."""
        if isinstance(schema, list):
            return [self.schema(branch, space) for branch in schema]
        if isinstance(schema, str):
            return self._name_of_use(schema, space)
        kind = schema["type"]
        if kind in ("record", "error", "enum", "fixed"):
            return self._named(kind, schema, space)
        if kind == "array":
            return {"type": kind, "items": self.schema(schema["items"], space), **self._properties(schema)}
        if kind == "map":
            return {"type": kind, "values": self.schema(schema["values"], space), **self._properties(schema)}
        properties = self._properties(schema)
        name = self._name_of_use(kind, space)
        return {"type": name, **properties} if properties else name

    def _named(self, kind: str, schema: Mapping[str, Any], space: str | None) -> dict[str, Any]:
        own_space, name = _full_name(schema, space)
        printed: dict[str, Any] = {"type": kind, "name": name}
        if own_space != (space or ""):
            printed["namespace"] = own_space
        if "doc" in schema:
            printed["doc"] = schema["doc"]
        aliases = {"aliases": schema["aliases"]} if schema.get("aliases") else {}
        properties = self._properties(schema)
        if kind in ("record", "error"):
            printed["fields"] = [self._field(field, own_space) for field in schema["fields"]]
        elif kind == "enum":
            printed["symbols"] = schema["symbols"]
            if "default" in schema:
                printed["default"] = schema["default"]
        else:
            printed["size"] = schema["size"]
        return {**printed, **properties, **aliases}

    def _field(self, field: Mapping[str, Any], space: str) -> dict[str, Any]:
        printed = {"name": field["name"], "type": self.schema(field["type"], space)}
        for part in ("doc", "default"):
            if part in field:
                printed[part] = field[part]
        if field.get("order", "ascending") != "ascending":
            printed["order"] = field["order"]
        if field.get("aliases"):
            printed["aliases"] = field["aliases"]
        return {**printed, **self._properties(field, _RESERVED_FIELD)}

    def _properties(self, schema: Mapping[str, Any], reserved: frozenset[str] = _RESERVED_TYPE) -> dict[str, Any]:
        found = {name: value for name, value in schema.items() if name not in reserved}
        return dict(sorted(found.items())) if self._normalize else found

    def _name_of_use(self, name: str, space: str | None) -> str:
        """Return the name as Java prints it: without the namespace that applies there anyway."""
        if name in _PRIMITIVE:
            return name
        before, dot, simple = name.rpartition(".")
        if self._normalize:
            return name if dot or not space else f"{space}.{name}"
        return simple if dot and before == (space or "") else name


def _full_name(schema: Mapping[str, Any], space: str | None) -> tuple[str, str]:
    """Return namespace and simple name of a definition."""
    before, dot, simple = str(schema["name"]).rpartition(".")
    if dot:
        return before, simple
    return str(schema.get("namespace", space) or ""), simple
