"""Schemas by their ids."""

from __future__ import annotations

from typing import Any

from barnabas.registry.decide.errors import schema_not_found
from barnabas.registry.decide.schema import SCHEMA_TYPES
from barnabas.registry.decide.subjects import DEFAULT_CONTEXT, QualifiedSubject
from barnabas.registry.decide.topic_records import StoredVersion
from barnabas.registry.rest.api_request import ApiRequest, Reply, Route, Services, page_of
from barnabas.registry.rest.resources.subjects import has_prefix

__all__ = ["ROUTES"]


def _found(services: Services, request: ApiRequest) -> StoredVersion:
    """Return a version with the id that the caller may read. One that it may not read is not found, either.

    ``subject`` says in which context to look first. Raise RegistryError.
    """
    schema_id = _id(request)
    subject = request.subject_of(request.text("subject"))
    context = QualifiedSubject.parse(subject).context
    for place in dict.fromkeys((context, *(services.state.contexts() if context == DEFAULT_CONTEXT else ()))):
        if services.state.has_id(place, schema_id):
            stored = services.state.by_id(place, schema_id, subject=subject)
            if request.access.may_read(stored.subject):
                return stored
            found = request.access.readable(services.state.places_of(place, schema_id, deleted=True))
            if found:
                return found[0]
    raise schema_not_found(schema_id)


def _id(request: ApiRequest) -> int:
    text = request.parameters["id"]
    if not text.isascii() or not text.isdigit() or len(text) > 10:
        raise schema_not_found()
    return int(text)


async def _by_id(services: Services, request: ApiRequest) -> dict[str, Any]:
    stored = _found(services, request)
    found = (await services.schemas.formatted(stored, request.text("format"))).as_json()
    if request.truth("fetchMaxId"):
        found["maxId"] = services.state.id_max(QualifiedSubject.parse(stored.subject).context)
    return found


async def _schema_by_id(services: Services, request: ApiRequest) -> Reply:
    stored = _found(services, request)
    return Reply((await services.schemas.formatted(stored, request.text("format"))).text.encode(), "")


def _places(services: Services, request: ApiRequest) -> list[StoredVersion]:
    stored = _found(services, request)
    context = QualifiedSubject.parse(stored.subject).context
    found = services.state.places_of(context, stored.schema_id, deleted=request.truth("deleted"))
    return request.access.readable(found)


async def _subjects(services: Services, request: ApiRequest) -> list[str]:
    return page_of(request).of(list(dict.fromkeys(stored.subject for stored in _places(services, request))))


async def _versions(services: Services, request: ApiRequest) -> list[dict[str, Any]]:
    places = page_of(request).of(_places(services, request))
    return [{"subject": stored.subject, "version": stored.version} for stored in places]


async def _list(services: Services, request: ApiRequest) -> list[dict[str, Any]]:
    state, prefix, deleted = services.state, request.text("subjectPrefix") or ":*:", request.truth("deleted")
    found: list[StoredVersion] = []
    for subject in state.subjects(deleted=deleted):
        if has_prefix(subject, prefix, request.context) and request.access.may_read(subject):
            versions = state.versions(subject, deleted=deleted)
            found += versions[-1:] if request.truth("latestOnly") else versions
    return [stored.as_json() for stored in page_of(request).of(found)]


async def _types(services: Services, request: ApiRequest) -> list[str]:
    return list(SCHEMA_TYPES)


ROUTES = (
    Route("GET", "/schemas", _list, "List schemas: subjectPrefix, deleted, latestOnly, offset, limit."),
    Route("GET", "/schemas/types", _types, "List the types of schemas."),
    Route("GET", "/schemas/ids/{id}", _by_id, "Read a schema: subject, format, fetchMaxId."),
    Route("GET", "/schemas/ids/{id}/schema", _schema_by_id, "Read only the schema: subject, format."),
    Route("GET", "/schemas/ids/{id}/subjects", _subjects, "List the subjects with an id: subject, deleted."),
    Route("GET", "/schemas/ids/{id}/versions", _versions, "List the versions with an id: subject, deleted."),
)
