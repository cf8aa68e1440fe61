"""The state that the records of the schemas topic describe. ``replay`` is the only thing that changes it.

So every registry that reads the topic has the same state, and a change that never reaches the topic has no effect.
Contexts have their own ids. An id belongs to one schema: all versions with equal schemas in a context share it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from barnabas.registry.decide.errors import schema_not_found, subject_not_found, version_not_found
from barnabas.registry.decide.schema import Reference
from barnabas.registry.decide.subjects import QualifiedSubject
from barnabas.registry.decide.topic_records import (
    ClearSubject,
    ConfigChange,
    DeleteSubject,
    ModeChange,
    SchemaChange,
    StoredVersion,
    parse_record,
)

__all__ = ["LATEST", "RegistryState", "referenced_subject"]

LATEST = -1


class _Context:
    """The ids of a context."""

    def __init__(self) -> None:
        self.places: dict[int, dict[tuple[str, int], StoredVersion]] = {}
        self.id_by_identity: dict[bytes, int] = {}
        self.id_max = 0


class RegistryState:
    """``configs`` and ``modes`` are those of subjects, of contexts, and, under None, the global ones."""

    def __init__(self) -> None:
        self.configs: dict[str | None, Mapping[str, Any]] = {}
        self.modes: dict[str | None, str] = {}
        self._subjects: dict[str, dict[int, StoredVersion]] = {}
        self._contexts: dict[str, _Context] = {}
        self._users: dict[tuple[str, int], set[tuple[str, int]]] = {}
        """The versions that have a reference to a version."""

    # ---- changes

    def clear(self) -> None:
        """Forget everything: the topic is read from its beginning again."""
        for table in (self.configs, self.modes, self._subjects, self._contexts, self._users):
            table.clear()

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        """Apply a record of the topic. Raise MalformedRecord, after which the state is as before."""
        change = parse_record(key, value)
        if isinstance(change, SchemaChange):
            self._put(change)
        elif isinstance(change, DeleteSubject):
            self._delete_up_to(change)
        elif isinstance(change, ClearSubject):
            for version in list(self._subjects.get(change.subject, ())):
                self._put(SchemaChange(change.subject, version, None))
        elif isinstance(change, ConfigChange):
            _set(self.configs, change.subject, change.values)
        elif isinstance(change, ModeChange):
            _set(self.modes, change.subject, change.mode)

    def _put(self, change: SchemaChange) -> None:
        self._remove(change.subject, change.version)
        if change.stored is None:
            return
        versions = self._subjects.setdefault(change.subject, {})
        versions[change.version] = change.stored
        if list(versions)[-2:] != sorted(versions)[-2:]:
            self._subjects[change.subject] = dict(sorted(versions.items()))
        self._index(change.stored)

    def _index(self, stored: StoredVersion) -> None:
        context = self._contexts.setdefault(_context_of(stored.subject), _Context())
        place = (stored.subject, stored.version)
        context.places.setdefault(stored.schema_id, {})[place] = stored
        context.id_by_identity.setdefault(stored.schema.identity, stored.schema_id)
        context.id_max = max(context.id_max, stored.schema_id)
        for reference in stored.schema.references:
            self._users.setdefault(_place_of(stored.subject, reference), set()).add(place)

    def _remove(self, subject: str, version: int) -> None:
        versions = self._subjects.get(subject, {})
        stored = versions.pop(version, None)
        if stored is None:
            return
        if not versions:
            del self._subjects[subject]
        place = (subject, version)
        context = self._contexts[_context_of(subject)]
        places = context.places[stored.schema_id]
        del places[place]
        if not places:
            del context.places[stored.schema_id]
            if context.id_by_identity.get(stored.schema.identity) == stored.schema_id:
                del context.id_by_identity[stored.schema.identity]
        for reference in stored.schema.references:
            self._users.get(_place_of(subject, reference), set()).discard(place)

    def _delete_up_to(self, change: DeleteSubject) -> None:
        if change.version is None:
            return
        for stored in list(self._subjects.get(change.subject, {}).values()):
            if stored.version <= change.version and not stored.is_deleted:
                gone = StoredVersion(stored.subject, stored.version, stored.schema_id, stored.schema, True)
                self._put(SchemaChange(stored.subject, stored.version, gone))

    # ---- look-ups

    def subjects(self, *, deleted: bool = False) -> Iterator[str]:
        """The names of subjects with versions, sorted; with ``deleted`` also those whose versions are all deleted."""
        return (name for name in sorted(self._subjects) if deleted or self.versions(name))

    def versions(self, subject: str, *, deleted: bool = False) -> list[StoredVersion]:
        """The versions of a subject in order; an empty list if it is unknown."""
        stored = self._subjects.get(subject, {}).values()
        return [version for version in stored if deleted or not version.is_deleted]

    def known_versions(self, subject: str, *, deleted: bool = False) -> list[StoredVersion]:
        """Like ``versions``. Raise RegistryError if it has none."""
        found = self.versions(subject, deleted=deleted)
        if not found:
            raise subject_not_found(subject)
        return found

    def version(self, subject: str, number: int, *, deleted: bool = False) -> StoredVersion:
        """The version, or the latest one. Raise RegistryError."""
        found = self.known_versions(subject, deleted=deleted)
        if number == LATEST:
            return found[-1]
        for stored in found:
            if stored.version == number:
                return stored
        raise version_not_found(number)

    def last_version_number(self, subject: str) -> int:
        """The highest number that the subject has used, 0 for an unknown subject."""
        return max(self._subjects.get(subject, {0: None}))

    def by_id(self, context: str, schema_id: int, *, subject: str = "") -> StoredVersion:
        """A version with the id; that of the subject, if it has one. Raise RegistryError."""
        places = self._places(context, schema_id)
        return next((stored for (name, _), stored in places.items() if name == subject), next(iter(places.values())))

    def places_of(self, context: str, schema_id: int, *, deleted: bool = False) -> list[StoredVersion]:
        """All versions with the id, sorted. Raise RegistryError for an unknown one."""
        found = sorted(self._places(context, schema_id).items())
        return [stored for _, stored in found if deleted or not stored.is_deleted]

    def has_id(self, context: str, schema_id: int) -> bool:
        return context in self._contexts and schema_id in self._contexts[context].places

    def id_of(self, context: str, identity: bytes) -> int | None:
        found = self._contexts.get(context)
        return None if found is None else found.id_by_identity.get(identity)

    def id_max(self, context: str) -> int:
        return self._contexts[context].id_max if context in self._contexts else 0

    def contexts(self) -> list[str]:
        """The contexts that have subjects, and the default one."""
        return sorted({".", *(_context_of(subject) for subject in self._subjects)})

    def users_of(self, subject: str, version: int) -> list[StoredVersion]:
        """The versions that have a reference to this one, and are not deleted."""
        users = (self._subjects.get(name, {}).get(number) for name, number in self._users.get((subject, version), ()))
        found = [stored for stored in users if stored is not None and not stored.is_deleted]
        return sorted(found, key=lambda stored: (stored.subject, stored.version))

    @property
    def version_count(self) -> int:
        return sum(map(len, self._subjects.values()))

    def _places(self, context: str, schema_id: int) -> Mapping[tuple[str, int], StoredVersion]:
        found = self._contexts.get(context)
        places = {} if found is None else found.places.get(schema_id, {})
        if not places:
            raise schema_not_found(schema_id)
        return places


def _set(table: dict[str | None, Any], key: str | None, value: Any) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value


def _context_of(subject: str) -> str:
    return QualifiedSubject.parse(subject).context


def _place_of(subject: str, reference: Reference) -> tuple[str, int]:
    return referenced_subject(subject, reference), reference.version


def referenced_subject(subject: str, reference: Reference) -> str:
    """The subject that a reference means: one without a context is in the context of the schema that uses it."""
    if reference.subject.startswith(":."):
        return str(QualifiedSubject.parse(reference.subject))
    return str(QualifiedSubject(_context_of(subject), reference.subject))
