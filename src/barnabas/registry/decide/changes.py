"""Turn requests for changes into records, or into the error that the caller receives. Nothing changes here.

The leader writes the records, and its state changes when it reads them back. It decides about one request after the
other, so the state here has all records that were written before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from barnabas.registry.decide.errors import (
    RegistryError,
    config_not_set,
    invalid_level,
    mode_not_set,
    not_permitted,
    references_exist,
    subject_is_deleted,
    subject_not_soft_deleted,
    version_is_deleted,
    version_not_soft_deleted,
)
from barnabas.registry.decide.levels import Level, Mode, level_named, mode_in_scope, mode_named
from barnabas.registry.decide.registry_state import LATEST, RegistryState
from barnabas.registry.decide.schema import Schema
from barnabas.registry.decide.subjects import QualifiedSubject
from barnabas.registry.decide.topic_records import (
    StoredVersion,
    TopicRecord,
    config_record,
    delete_subject_record,
    mode_record,
    schema_record,
)

__all__ = ["Change", "ChangeRules", "Changes", "Registration"]

_CONFIG_FIELDS = frozenset(("compatibility", "normalize"))


@dataclass(frozen=True, slots=True)
class Change:
    """``answer`` is sent when the records are in the topic."""

    answer: Any
    records: tuple[TopicRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class Registration:
    """A schema to register. Only a registry in the mode IMPORT accepts an id and a version."""

    subject: str
    schema: Schema
    schema_id: int | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True)
class ChangeRules:
    default_level: Level = Level.BACKWARD
    may_modes_change: bool = True


@dataclass(slots=True)
class Changes:
    state: RegistryState
    rules: ChangeRules = field(default_factory=ChangeRules)

    # ---- schemas

    def registered(self, wanted: Registration) -> StoredVersion | None:
        """Return the version that already has the schema, if any. Raise RegistryError if it can't be registered."""
        mode = self._writable(wanted.subject)
        if mode is not Mode.IMPORT and wanted.schema_id is not None:
            raise not_permitted(f"Subject {wanted.subject} is not in import mode")
        for stored in reversed(self.state.versions(wanted.subject)):
            if stored.schema.identity == wanted.schema.identity and wanted.schema_id in (None, stored.schema_id):
                return stored
        return None

    def is_checked(self, subject: str) -> bool:
        """Whether a new version must be compatible: not where versions are copied from another registry."""
        return mode_in_scope(self.state, subject) is not Mode.IMPORT

    def register(self, wanted: Registration) -> Change:
        """Add the schema as a new version, after ``registered`` and the check of its compatibility."""
        subject = wanted.subject
        number = self._new_version(wanted)
        schema_id = self._new_id(QualifiedSubject.parse(subject).context, wanted)
        stored = StoredVersion(subject, number, schema_id, wanted.schema)
        return Change(stored, (schema_record(subject, number, stored),))

    def _new_version(self, wanted: Registration) -> int:
        next_number = self.state.last_version_number(wanted.subject) + 1
        if wanted.version in (None, 0, LATEST, next_number):
            return next_number
        if mode_in_scope(self.state, wanted.subject) is not Mode.IMPORT:
            raise RegistryError(422, 42202, f"Version is not {next_number}, the next one of {wanted.subject}")
        assert wanted.version is not None
        return wanted.version

    def _new_id(self, context: str, wanted: Registration) -> int:
        state = self.state
        if wanted.schema_id is not None:
            if state.has_id(context, wanted.schema_id):
                known = state.by_id(context, wanted.schema_id)
                if known.schema.identity != wanted.schema.identity:
                    raise not_permitted(f"Overwrite new schema with id {wanted.schema_id} is not permitted.")
            return wanted.schema_id
        known_id = state.id_of(context, wanted.schema.identity)
        return state.id_max(context) + 1 if known_id is None else known_id

    # ---- deletion

    def delete_subject(self, subject: str, *, permanent: bool) -> Change:
        """Delete all versions. The answer is the list of their numbers."""
        self._writable(subject)
        stored = self.state.known_versions(subject, deleted=True)
        active = [version for version in stored if not version.is_deleted]
        if permanent and active:
            raise subject_not_soft_deleted(subject)
        if not permanent and not active:
            raise subject_is_deleted(subject)
        gone = stored if permanent else active
        self._check_users(gone)
        numbers = [version.version for version in gone]
        if permanent:
            tombstones = [schema_record(subject, number, None) for number in numbers]
            return Change(numbers, (*tombstones, delete_subject_record(subject, None)))
        return Change(numbers, (delete_subject_record(subject, numbers[-1]), *self._forget_settings(subject)))

    def delete_version(self, subject: str, number: int, *, permanent: bool) -> Change:
        """Delete one version. The answer is its number."""
        self._writable(subject)
        stored = self.state.version(subject, number, deleted=permanent or number != LATEST)
        if permanent and not stored.is_deleted:
            raise version_not_soft_deleted(subject, stored.version)
        if not permanent and stored.is_deleted:
            raise version_is_deleted(subject, stored.version)
        self._check_users([stored])
        if permanent:
            return Change(stored.version, (schema_record(subject, stored.version, None),))
        gone = StoredVersion(subject, stored.version, stored.schema_id, stored.schema, True)
        is_last = len(self.state.versions(subject)) == 1
        settings = self._forget_settings(subject) if is_last else []
        return Change(stored.version, (schema_record(subject, stored.version, gone), *settings))

    def _check_users(self, versions: Sequence[StoredVersion]) -> None:
        for stored in versions:
            if self.state.users_of(stored.subject, stored.version):
                raise references_exist(stored.subject, stored.version)

    def _forget_settings(self, subject: str) -> list[TopicRecord]:
        """A subject without versions has no settings either, as in Confluent's registry."""
        return [
            *([mode_record(subject, None)] if subject in self.state.modes else []),
            *([config_record(subject, None)] if subject in self.state.configs else []),
        ]

    # ---- settings

    def set_config(self, subject: str | None, body: Mapping[str, Any]) -> Change:
        """Set the level. What the body lacks stays as it is."""
        self._writable(subject)
        unknown = sorted(name for name in body if name not in _CONFIG_FIELDS and body[name] is not None)
        if unknown:
            raise RegistryError(
                422, 42203, f"The settings {', '.join(unknown)} are not supported; compatibility and normalize are"
            )
        changed: dict[str, Any] = {}
        if body.get("compatibility") is not None:
            changed["compatibilityLevel"] = level_named(body["compatibility"]).value
        if body.get("normalize") is not None:
            if not isinstance(body["normalize"], bool):
                raise RegistryError(422, 42203, f"normalize is {body['normalize']!r}; it must be true or false")
            changed["normalize"] = body["normalize"]
        if not changed:
            raise invalid_level(None)
        answer = {name: value for name, value in body.items() if value is not None}
        return Change(answer, (config_record(subject, {**self.state.configs.get(subject, {}), **changed}),))

    def delete_config(self, subject: str | None) -> Change:
        """Return to the settings above. The answer is the deleted setting."""
        self._writable(subject)
        if subject is not None and subject not in self.state.configs:
            raise config_not_set(subject)
        deleted = self.state.configs.get(subject, {"compatibilityLevel": self.rules.default_level.value})
        return Change(dict(deleted), (config_record(subject, None),))

    def set_mode(self, subject: str | None, text: object, *, force: bool) -> Change:
        self._check_modes_may_change()
        mode = mode_named(text)
        if mode is Mode.IMPORT and not force and self._has_versions(subject):
            raise not_permitted("Cannot import since found existing subjects")
        return Change({"mode": mode.value}, (mode_record(subject, mode.value),))

    def delete_mode(self, subject: str | None) -> Change:
        self._check_modes_may_change()
        if subject is not None and subject not in self.state.modes:
            raise mode_not_set(subject)
        deleted = self.state.modes.get(subject, Mode.READWRITE.value)
        return Change({"mode": deleted}, (mode_record(subject, None),))

    def _has_versions(self, subject: str | None) -> bool:
        if subject is None:
            return any(self.state.subjects())
        wanted = QualifiedSubject.parse(subject)
        if wanted.name:
            return bool(self.state.versions(subject))
        return any(QualifiedSubject.parse(name).context == wanted.context for name in self.state.subjects())

    def _check_modes_may_change(self) -> None:
        if not self.rules.may_modes_change:
            raise not_permitted("Mode changes are not allowed: this registry has mode.mutability=false")

    def _writable(self, subject: str | None) -> Mode:
        mode = mode_in_scope(self.state, subject)
        if not mode.is_writable:
            what = "The registry" if subject is None else f"Subject {subject}"
            raise not_permitted(f"{what} is in read-only mode")
        return mode
