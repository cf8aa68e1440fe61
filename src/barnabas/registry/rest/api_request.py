"""A request to a handler, and what handlers use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from barnabas.registry.decide.access import SubjectAccess
from barnabas.registry.decide.changes import Change, Changes
from barnabas.registry.decide.errors import RegistryError, invalid_version
from barnabas.registry.decide.registry_state import LATEST, RegistryState
from barnabas.registry.decide.subjects import DEFAULT_CONTEXT, QualifiedSubject, in_context
from barnabas.registry.run.schema_operations import SchemaOperations
from barnabas.registry.run.schema_store import SchemaStore

__all__ = ["ApiRequest", "Handler", "Page", "Reply", "Route", "Services", "page_of"]

_VERSION_MAX = 2**31 - 1


class Leader(Protocol):
    """What handlers see of the group."""

    is_leader: bool


@dataclass(frozen=True, slots=True)
class Services:
    """The parts of a running registry."""

    store: SchemaStore
    changes: Changes
    schemas: SchemaOperations
    cluster_id: str
    group_id: str
    version: str
    metrics_page: Callable[[], tuple[bytes, str]]

    @property
    def state(self) -> RegistryState:
        return self.store.state

    async def change(self, decide: Callable[[], Change]) -> Any:
        """Carry out a change on the leader, and return its answer."""

        async def decided() -> Change:
            return decide()

        return (await self.store.change(decided)).answer


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer that is not JSON of the API."""

    body: bytes
    media_type: str


@dataclass(frozen=True, slots=True)
class Page:
    offset: int
    limit: int | None

    def of(self, items: Sequence[Any]) -> list[Any]:
        end = None if self.limit is None else self.offset + self.limit
        return list(items[self.offset : end])


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """``context`` is that of a path below ``/contexts``, else the default one."""

    parameters: Mapping[str, str]
    query: Mapping[str, Sequence[str]]
    body: bytes
    context: str
    access: SubjectAccess

    @property
    def subject(self) -> str:
        """The subject of the path, with its context."""
        return self.subject_of(self.parameters["subject"])

    @property
    def optional_subject(self) -> str | None:
        """The subject of the path; without one, the context, or None for the default context."""
        if "subject" in self.parameters:
            subject = self.subject
            return subject or None
        return None if self.context == DEFAULT_CONTEXT else str(QualifiedSubject(self.context, ""))

    def subject_of(self, text: str) -> str:
        return str(QualifiedSubject.parse(in_context(self.context, text)))

    @property
    def version(self) -> int:
        """The version of the path. Raise RegistryError."""
        text = self.parameters["version"]
        if text in ("latest", "-1"):
            return LATEST
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 11 else 0
        if not 1 <= number <= _VERSION_MAX:
            raise invalid_version(text)
        return number

    def text(self, name: str) -> str:
        """The last value of a query parameter; an empty text without it."""
        return (self.query.get(name) or [""])[-1]

    def truth(self, name: str) -> bool:
        return self.text(name).lower() == "true"

    def number(self, name: str, default: int) -> int:
        text = self.text(name)
        if not text:
            return default
        if not text.lstrip("-").isdigit() or len(text) > 11:
            raise RegistryError(404, 404, f"HTTP 404 Not Found: {name} is {text[:20]}; it must be a number")
        return int(text)

    def json(self) -> Mapping[str, Any]:
        """The body. Raise RegistryError unless it is a JSON object."""
        try:
            found = msgspec.json.decode(self.body)
        except (msgspec.DecodeError, RecursionError) as error:
            raise RegistryError(400, 400, f"The body is not JSON: {error}") from None
        if not isinstance(found, dict):
            raise RegistryError(400, 400, "The body is not a JSON object")
        return found


def page_of(request: ApiRequest) -> Page:
    """Return the part of a listing that ``offset`` and ``limit`` select; a limit of -1 or less is none."""
    limit = request.number("limit", -1)
    return Page(max(request.number("offset", 0), 0), limit if limit >= 0 else None)


class Handler(Protocol):
    def __call__(self, services: Services, request: ApiRequest) -> Awaitable[Any]: ...


@dataclass(frozen=True, slots=True)
class Route:
    """``is_write``: only the leader answers, others forward the request. ``what`` describes the route."""

    method: str
    path: str
    handler: Handler
    what: str
    is_write: bool = False
