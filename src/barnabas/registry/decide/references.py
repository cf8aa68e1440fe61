"""Find the texts of the schemas that a schema uses."""

from __future__ import annotations

from barnabas.registry.decide.errors import RegistryError, invalid_schema
from barnabas.registry.decide.formats.parsed_schema import ReferencedText
from barnabas.registry.decide.formats.parsing import SchemaSource
from barnabas.registry.decide.registry_state import RegistryState, referenced_subject
from barnabas.registry.decide.schema import Schema

__all__ = ["source_of"]

_DEPTH_MAX = 32


def source_of(state: RegistryState, subject: str, schema: Schema) -> SchemaSource:
    """Return the schema with what it uses, each text after those that it needs itself. Raise RegistryError."""
    found: dict[str, str] = {}
    _collect(state, subject, schema, found, 0)
    return SchemaSource(schema, tuple(ReferencedText(name, text) for name, text in found.items()))


def _collect(state: RegistryState, subject: str, schema: Schema, found: dict[str, str], depth: int) -> None:
    if depth > _DEPTH_MAX:
        raise invalid_schema(f"its references are more than {_DEPTH_MAX} levels deep")
    for reference in schema.references:
        used_subject = referenced_subject(subject, reference)
        try:
            # A deleted version stays usable for those that use it, as its schema stays readable by id.
            used = state.version(used_subject, reference.version, deleted=True)
        except RegistryError as error:
            raise invalid_schema(
                f'No schema reference found for subject "{reference.subject}" and version {reference.version}: {error}'
            ) from None
        if reference.name not in found:
            _collect(state, used_subject, used.schema, found, depth + 1)
            found.setdefault(reference.name, used.schema.text)
