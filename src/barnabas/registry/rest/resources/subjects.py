"""Subjects and their versions: list, read, register, look up, delete."""

from __future__ import annotations

from typing import Any

from barnabas.registry.decide.changes import Registration
from barnabas.registry.decide.errors import RegistryError, subject_not_found
from barnabas.registry.decide.schema import read_schema
from barnabas.registry.decide.subjects import ALL_CONTEXTS, DEFAULT_CONTEXT, QualifiedSubject, checked_subject
from barnabas.registry.decide.topic_records import StoredVersion
from barnabas.registry.rest.api_request import ApiRequest, Reply, Route, Services, page_of

__all__ = ["ROUTES", "has_prefix", "registered_already"]


async def _list(services: Services, request: ApiRequest) -> list[str]:
    is_deleted_only = request.truth("deletedOnly")
    names = services.state.subjects(deleted=is_deleted_only or request.truth("deleted"))
    prefix = request.text("subjectPrefix")
    found = [name for name in names if has_prefix(name, prefix, request.context) and request.access.may_read(name)]
    if is_deleted_only:
        found = [name for name in found if not services.state.versions(name)]
    return page_of(request).of(found)


def has_prefix(name: str, prefix: str, context: str) -> bool:
    """Without a prefix, a listing has the default context; ``:*:`` before the prefix selects all contexts."""
    if prefix.startswith(ALL_CONTEXTS):
        return QualifiedSubject.parse(name).name.startswith(prefix.removeprefix(ALL_CONTEXTS))
    wanted = QualifiedSubject.parse(prefix)
    if wanted.context == DEFAULT_CONTEXT:
        wanted = QualifiedSubject(context, wanted.name)
    found = QualifiedSubject.parse(name)
    return found.context == wanted.context and found.name.startswith(wanted.name)


async def _versions(services: Services, request: ApiRequest) -> list[int]:
    request.access.check_read(request.subject)
    is_deleted_only = request.truth("deletedOnly")
    found = services.state.known_versions(request.subject, deleted=is_deleted_only or request.truth("deleted"))
    return page_of(request).of([stored.version for stored in found if stored.is_deleted or not is_deleted_only])


async def _version(services: Services, request: ApiRequest) -> dict[str, Any]:
    request.access.check_read(request.subject)
    stored = services.state.version(request.subject, request.version, deleted=request.truth("deleted"))
    schema = await services.schemas.formatted(stored, request.text("format"))
    found = {"subject": stored.subject, "version": stored.version, "id": stored.schema_id, **schema.as_json()}
    return {**found, "deleted": True} if stored.is_deleted else found


async def _version_schema(services: Services, request: ApiRequest) -> Reply:
    request.access.check_read(request.subject)
    stored = services.state.version(request.subject, request.version, deleted=request.truth("deleted"))
    return Reply((await services.schemas.formatted(stored, request.text("format"))).text.encode(), "")


async def _referenced_by(services: Services, request: ApiRequest) -> list[int]:
    request.access.check_read(request.subject)
    stored = services.state.version(request.subject, request.version)
    users = request.access.readable(services.state.users_of(stored.subject, stored.version))
    return sorted({user.schema_id for user in users})


async def _register(services: Services, request: ApiRequest) -> dict[str, Any]:
    wanted, normalize = _registration(request)
    return _registered(await services.schemas.register(wanted, normalize=normalize))


async def registered_already(services: Services, request: ApiRequest) -> dict[str, Any] | None:
    """Answer a registration that changes nothing, on any registry; None if only the leader can answer."""
    wanted, normalize = _registration(request)
    stored = await services.schemas.already_registered(wanted, normalize=normalize)
    return None if stored is None else _registered(stored)


def _registration(request: ApiRequest) -> tuple[Registration, bool]:
    checked_subject(request.subject)
    request.access.check_register(request.subject)
    body = request.json()
    schema = read_schema(body)
    for reference in schema.references:
        request.access.check_read(request.subject_of(reference.subject))
    schema_id, version = _optional_number(body, "id"), _optional_number(body, "version")
    is_automatic = schema_id is None or schema_id < 0
    return (
        Registration(request.subject, schema, None if is_automatic else schema_id, version),
        request.truth("normalize"),
    )


def _optional_number(body: Any, name: str) -> int | None:
    value = body.get(name)
    if value is not None and type(value) is not int:
        raise RegistryError(422, 422, f"{name} is {value!r}; it must be a whole number")
    return value


def _registered(stored: StoredVersion) -> dict[str, Any]:
    """Without the schema: clients remember it for the id, and need the form in which they sent it."""
    return {"id": stored.schema_id, "version": stored.version}


async def _look_up(services: Services, request: ApiRequest) -> dict[str, Any]:
    subject = request.subject
    request.access.check_read(subject)
    schema, deleted = read_schema(request.json()), request.truth("deleted")
    stored = await services.schemas.look_up(subject, schema, normalize=request.truth("normalize"), deleted=deleted)
    return stored.as_json()


async def _delete(services: Services, request: ApiRequest) -> Any:
    request.access.check_delete(request.subject)
    permanent = request.truth("permanent")
    return await services.change(lambda: services.changes.delete_subject(request.subject, permanent=permanent))


async def _delete_version(services: Services, request: ApiRequest) -> Any:
    subject, version, permanent = request.subject, request.version, request.truth("permanent")
    request.access.check_delete(subject)
    return await services.change(lambda: services.changes.delete_version(subject, version, permanent=permanent))


async def _metadata(services: Services, request: ApiRequest) -> dict[str, Any]:
    """The latest version whose metadata has all these properties (``key`` and ``value``, in pairs)."""
    request.access.check_read(request.subject)
    wanted = dict(zip(request.query.get("key", ()), request.query.get("value", ()), strict=False))
    versions = services.state.known_versions(request.subject, deleted=request.truth("deleted"))
    for stored in reversed(versions):
        properties = (stored.schema.metadata or {}).get("properties") or {}
        if wanted.items() <= properties.items():
            return stored.as_json()
    raise subject_not_found(request.subject)


ROUTES = (
    Route("GET", "/subjects", _list, "List subjects: subjectPrefix, deleted, deletedOnly, offset, limit."),
    Route("POST", "/subjects/{subject}", _look_up, "Look a schema up: normalize, deleted."),
    Route("DELETE", "/subjects/{subject}", _delete, "Delete a subject: permanent.", is_write=True),
    Route("GET", "/subjects/{subject}/versions", _versions, "List versions: deleted, deletedOnly, offset, limit."),
    Route("POST", "/subjects/{subject}/versions", _register, "Register a schema: normalize.", is_write=True),
    Route("GET", "/subjects/{subject}/versions/{version}", _version, "Read a version: deleted, format."),
    Route(
        "DELETE",
        "/subjects/{subject}/versions/{version}",
        _delete_version,
        "Delete a version: permanent.",
        is_write=True,
    ),
    Route(
        "GET",
        "/subjects/{subject}/versions/{version}/schema",
        _version_schema,
        "Read only the schema: deleted, format.",
    ),
    Route(
        "GET",
        "/subjects/{subject}/versions/{version}/referencedby",
        _referenced_by,
        "List the ids that refer to a version.",
    ),
    Route(
        "GET", "/subjects/{subject}/metadata", _metadata, "Find the latest version with metadata: key, value, deleted."
    ),
)
