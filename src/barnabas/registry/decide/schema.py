"""A schema as clients register it and the topic stores it, before it is parsed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from barnabas.registry.decide.errors import RegistryError, invalid_schema

__all__ = ["AVRO", "JSON", "PROTOBUF", "SCHEMA_TYPES", "Reference", "Schema", "read_schema"]

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
SCHEMA_TYPES = (JSON, PROTOBUF, AVRO)


@dataclass(frozen=True, slots=True)
class Reference:
    """The schema uses ``name``, which is this version of a subject."""

    name: str
    subject: str
    version: int

    def as_json(self) -> dict[str, object]:
        return {"name": self.name, "subject": self.subject, "version": self.version}


@dataclass(frozen=True, slots=True)
class Schema:
    """``metadata`` and ``rule_set`` belong to data contracts: they are stored and returned, and their rules run in
    clients."""

    type: str
    text: str
    references: tuple[Reference, ...] = ()
    metadata: Mapping[str, Any] | None = None
    rule_set: Mapping[str, Any] | None = None
    _identity: bytes = field(init=False, repr=False, compare=False, default=b"")

    @property
    def identity(self) -> bytes:
        """Equal for schemas that have the same id in a context."""
        if not self._identity:
            parts = (self.type, self.text, [reference.as_json() for reference in self.references])
            encoded = msgspec.json.encode((*parts, self.metadata or None, self.rule_set or None), order="deterministic")
            object.__setattr__(self, "_identity", encoded)
        return self._identity

    def with_text(self, text: str) -> Schema:
        return Schema(self.type, text, self.references, self.metadata, self.rule_set)

    def as_json(self) -> dict[str, Any]:
        """Return the parts that answers and records have. Avro is not named, because old clients know nothing else."""
        found: dict[str, Any] = {}
        if self.type != AVRO:
            found["schemaType"] = self.type
        if self.references:
            found["references"] = [reference.as_json() for reference in self.references]
        if self.metadata:
            found["metadata"] = self.metadata
        if self.rule_set:
            found["ruleSet"] = self.rule_set
        return {**found, "schema": self.text}


def read_schema(body: Mapping[str, Any]) -> Schema:
    """Read the schema of a request or a record. Raise RegistryError."""
    kind = body.get("schemaType") or AVRO
    text = body.get("schema")
    if kind not in SCHEMA_TYPES:
        raise invalid_schema(f"schemaType is {kind!r}; it must be one of {', '.join(SCHEMA_TYPES)}")
    if not isinstance(text, str) or not text:
        raise RegistryError(422, 42201, "Empty schema")
    references = body.get("references") or ()
    if not isinstance(references, Sequence) or isinstance(references, str):
        raise invalid_schema("references must be a list")
    return Schema(
        kind,
        text,
        tuple(map(_reference, references)),
        _mapping(body, "metadata"),
        _mapping(body, "ruleSet"),
    )


def _reference(found: object) -> Reference:
    if isinstance(found, Mapping):
        name, subject, version = found.get("name"), found.get("subject"), found.get("version")
        if isinstance(name, str) and isinstance(subject, str) and type(version) is int:
            return Reference(name, subject, version)
    raise invalid_schema("each reference needs name, subject and version")


def _mapping(body: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    value = body.get(name)
    if value is not None and not isinstance(value, Mapping):
        raise invalid_schema(f"{name} must be an object")
    return value
