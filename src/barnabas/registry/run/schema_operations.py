"""Operations that parse schemas: registration, look-up, compatibility, and the forms in which schemas are returned.

Parsing is slow, so it runs on threads; the state is used only on the event loop, before and after.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from barnabas.registry.decide.changes import Change, Changes, Registration
from barnabas.registry.decide.errors import IncompatibleSchema, RegistryError, schema_not_found
from barnabas.registry.decide.formats.parsing import Parsing, SchemaSource
from barnabas.registry.decide.formats.protobuf_format import ParsedProtobuf
from barnabas.registry.decide.levels import (
    Level,
    level_in_scope,
    normalizes_in_scope,
    problems_with,
    versions_to_check,
)
from barnabas.registry.decide.references import source_of
from barnabas.registry.decide.registry_state import RegistryState
from barnabas.registry.decide.schema import PROTOBUF, Schema
from barnabas.registry.decide.topic_records import StoredVersion
from barnabas.registry.run.schema_store import SchemaStore

__all__ = ["SchemaOperations"]

T = TypeVar("T")

_THREADS = 2


class SchemaOperations:
    def __init__(self, store: SchemaStore, changes: Changes, parsing: Parsing) -> None:
        self.registered_count = 0
        self.refused_count = 0
        """Schemas that were not compatible."""
        self._store = store
        self._changes = changes
        self._parsing = parsing
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="schemas")

    @property
    def state(self) -> RegistryState:
        return self._store.state

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    # ---- registration

    async def register(self, wanted: Registration, *, normalize: bool) -> StoredVersion:
        """Register a schema on the leader, or return the version that has it. Raise RegistryError."""
        wanted = await self._canonical(wanted, normalize)
        change = await self._store.change(lambda: self._registration(wanted))
        self.registered_count += bool(change.records)
        stored: StoredVersion = change.answer
        return stored

    async def already_registered(self, wanted: Registration, *, normalize: bool) -> StoredVersion | None:
        """Return the version of a schema whose registration changes nothing; any registry can answer it."""
        if wanted.schema_id is not None:
            return None
        return await self._find(await self._canonical(wanted, normalize))

    async def _registration(self, wanted: Registration) -> Change:
        known = self._changes.registered(wanted) or await self._find(wanted)
        if known is not None:
            return Change(known)
        if self._changes.is_checked(wanted.subject):
            level = level_in_scope(self.state, wanted.subject, self._changes.rules.default_level)
            versions = versions_to_check(level, self.state.versions(wanted.subject))
            problems = await self._problems(level, wanted.subject, wanted.schema, versions)
            if problems:
                self.refused_count += 1
                raise IncompatibleSchema(wanted.subject, problems)
        return self._changes.register(wanted)

    async def _canonical(self, wanted: Registration, normalize: bool) -> Registration:
        normalize = normalize or normalizes_in_scope(self.state, wanted.subject)
        source = source_of(self.state, wanted.subject, wanted.schema)
        schema = await self._on_thread(lambda: self._parsing.canonical(source, normalize=normalize))
        return Registration(wanted.subject, schema, wanted.schema_id, wanted.version)

    # ---- look-up

    async def look_up(self, subject: str, schema: Schema, *, normalize: bool, deleted: bool) -> StoredVersion:
        """Return the latest version of the subject that has the schema. Raise RegistryError."""
        self.state.known_versions(subject, deleted=deleted)
        wanted = await self._canonical(Registration(subject, schema), normalize)
        found = await self._find(wanted, deleted=deleted)
        if found is None:
            raise schema_not_found()
        return found

    async def _find(self, wanted: Registration, *, deleted: bool = False) -> StoredVersion | None:
        """Return the version with this schema: by its text, or by what another registry's text means."""
        versions = list(reversed(self.state.versions(wanted.subject, deleted=deleted)))
        same = [stored for stored in versions if _is_like(stored.schema, wanted)]
        for stored in same:
            if stored.schema.text == wanted.schema.text:
                return stored
        if wanted.schema_id is not None:
            return None
        sources = [self._source(stored) for stored in same]
        texts = await self._on_thread(lambda: [self._canonical_text(source) for source in sources])
        return next((stored for stored, text in zip(same, texts, strict=True) if text == wanted.schema.text), None)

    def _canonical_text(self, source: SchemaSource | None) -> str | None:
        try:
            return None if source is None else self._parsing.parsed(source).canonical
        except RegistryError:
            return None  # Another registry's schema, which this one can't read.

    def _source(self, stored: StoredVersion) -> SchemaSource | None:
        try:
            return source_of(self.state, stored.subject, stored.schema)
        except RegistryError:
            return None

    # ---- compatibility

    async def problems(
        self, subject: str, schema: Schema, versions: Sequence[StoredVersion], *, normalize: bool
    ) -> list[str]:
        """Return why a schema does not fit these versions, by the level of the subject. Raise RegistryError."""
        wanted = await self._canonical(Registration(subject, schema), normalize)
        level = level_in_scope(self.state, subject, self._changes.rules.default_level)
        return await self._problems(level, subject, wanted.schema, versions if level is not Level.NONE else ())

    async def problems_with_subject(self, subject: str, schema: Schema, *, normalize: bool) -> list[str]:
        """Return why a schema could not be registered."""
        level = level_in_scope(self.state, subject, self._changes.rules.default_level)
        versions = versions_to_check(level, self.state.versions(subject))
        return await self.problems(subject, schema, versions, normalize=normalize)

    async def _problems(
        self, level: Level, subject: str, schema: Schema, versions: Sequence[StoredVersion]
    ) -> list[str]:
        new = source_of(self.state, subject, schema)
        earlier = [(stored, source_of(self.state, subject, stored.schema)) for stored in versions]

        def compare() -> list[str]:
            parsed = self._parsing.parsed(new)
            for stored, source in earlier:
                found = problems_with(level, parsed, stored, self._parsing.parsed(source))
                if found:
                    return found
            return []

        return await self._on_thread(compare)

    # ---- forms

    async def formatted(self, stored: StoredVersion, form: str) -> Schema:
        """Return the schema in a form: ``serialized`` is the compiled file of a Protobuf schema, in base64.

        Any other form is the stored text, as in Confluent's registry.
        """
        if form != "serialized" or stored.schema.type != PROTOBUF:
            return stored.schema
        source = source_of(self.state, stored.subject, stored.schema)
        parsed = await self._on_thread(lambda: self._parsing.parsed(source))
        return stored.schema.with_text(parsed.serialized) if isinstance(parsed, ParsedProtobuf) else stored.schema

    async def _on_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def _is_like(schema: Schema, wanted: Registration) -> bool:
    other = wanted.schema
    return (schema.type, schema.references, schema.metadata, schema.rule_set) == (
        *(other.type, other.references),
        *(other.metadata, other.rule_set),
    )
