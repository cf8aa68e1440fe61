"""Compatibility levels, modes, and which of them applies to a subject.

The settings of the subject come first, then those of its context, then the global ones, then the defaults of the
registry. The mode READONLY_OVERRIDE of a context, or the global one, applies to all subjects below it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, TypeVar

from barnabas.registry.decide.errors import invalid_level, invalid_mode
from barnabas.registry.decide.formats.parsed_schema import ParsedSchema
from barnabas.registry.decide.registry_state import RegistryState
from barnabas.registry.decide.subjects import QualifiedSubject
from barnabas.registry.decide.topic_records import StoredVersion

__all__ = [
    "Level",
    "Mode",
    "level_in_scope",
    "level_named",
    "mode_in_scope",
    "mode_named",
    "normalizes_in_scope",
    "problems_with",
    "versions_to_check",
]

T = TypeVar("T")


class Level(Enum):
    """What a new schema must be able to do. Backward: read older data. Forward: be read by older readers."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_backward(self) -> bool:
        return self.value.startswith(("BACKWARD", "FULL"))

    @property
    def is_forward(self) -> bool:
        return self.value.startswith(("FORWARD", "FULL"))

    @property
    def is_transitive(self) -> bool:
        """Whether all versions count, and not only the latest one."""
        return self.value.endswith("_TRANSITIVE")


class Mode(Enum):
    READWRITE = "READWRITE"
    READONLY = "READONLY"
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    IMPORT = "IMPORT"

    @property
    def is_writable(self) -> bool:
        return self in (Mode.READWRITE, Mode.IMPORT)


def level_named(text: object) -> Level:
    """Return the level of a name in any case. Raise RegistryError."""
    try:
        return Level(str(text).upper())
    except ValueError:
        raise invalid_level(text) from None


def mode_named(text: object) -> Mode:
    """Return the mode of a name in any case. Raise RegistryError."""
    try:
        return Mode(str(text).upper())
    except ValueError:
        raise invalid_mode(text) from None


def level_in_scope(state: RegistryState, subject: str | None, default: Level) -> Level:
    found = _first(state.configs, subject, lambda config: config.get("compatibilityLevel"))
    try:
        return default if found is None else Level(found)
    except ValueError:
        return default  # A newer registry's level.


def normalizes_in_scope(state: RegistryState, subject: str) -> bool:
    return _first(state.configs, subject, lambda config: config.get("normalize")) is True


def mode_in_scope(state: RegistryState, subject: str | None) -> Mode:
    scope = _scope(subject)
    for place in scope[1:]:
        if state.modes.get(place) == Mode.READONLY_OVERRIDE.value:
            return Mode.READONLY_OVERRIDE
    found = next((state.modes[place] for place in scope if place in state.modes), Mode.READWRITE.value)
    try:
        return Mode(found)
    except ValueError:
        return Mode.READONLY  # A newer registry's mode; a write could be wrong.


def _first(table: Mapping[str | None, Any], subject: str | None, read: Callable[[Any], T | None]) -> T | None:
    values = (read(table[place]) for place in _scope(subject) if place in table)
    return next((value for value in values if value is not None), None)


def _scope(subject: str | None) -> list[str | None]:
    """Return the places where a setting of the subject may be, the nearest first."""
    if subject is None:
        return [None]
    parent = QualifiedSubject.parse(subject).parent
    return [subject, *([] if parent in (None, subject) else [parent]), None]


def versions_to_check(level: Level, versions: Sequence[StoredVersion]) -> list[StoredVersion]:
    """Return the versions that a new schema must fit, the latest first."""
    if level is Level.NONE:
        return []
    return list(reversed(versions if level.is_transitive else versions[-1:]))


def problems_with(level: Level, new: ParsedSchema, version: StoredVersion, earlier: ParsedSchema) -> list[str]:
    """Return why a new schema does not fit an earlier version, with the version; an empty list if it does."""
    if type(new) is not type(earlier):
        found = ["{errorType:'SCHEMA_TYPE_CHANGED', description:'the schema has another type than the earlier one'}"]
    else:
        found = [*(new.problems_reading(earlier) if level.is_backward else [])]
        found += earlier.problems_reading(new) if level.is_forward else []
    if not found:
        return []
    return [
        *dict.fromkeys(found),
        f"{{oldSchemaVersion: {version.version}}}",
        f"{{oldSchema: '{version.schema.text}'}}",
        f"{{compatibility: '{level.value}'}}",
    ]
