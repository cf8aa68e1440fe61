"""Whether a schema is compatible with versions of a subject, without registering it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from barnabas.registry.decide.errors import version_not_found
from barnabas.registry.decide.registry_state import LATEST
from barnabas.registry.decide.schema import read_schema
from barnabas.registry.rest.api_request import ApiRequest, Route, Services

__all__ = ["ROUTES"]


async def _with_version(services: Services, request: ApiRequest) -> dict[str, Any]:
    """A subject without versions accepts any schema as its latest one."""
    subject, number = request.subject, request.version
    request.access.check_read(subject)
    versions = services.state.versions(subject)
    wanted = versions[-1:] if number == LATEST else [stored for stored in versions if stored.version == number]
    if not wanted and number != LATEST:
        raise version_not_found(number)
    schema = read_schema(request.json())
    found = await services.schemas.problems(subject, schema, wanted, normalize=request.truth("normalize"))
    return _answer(request, found)


async def _with_subject(services: Services, request: ApiRequest) -> dict[str, Any]:
    request.access.check_read(request.subject)
    schema = read_schema(request.json())
    found = await services.schemas.problems_with_subject(request.subject, schema, normalize=request.truth("normalize"))
    return _answer(request, found)


def _answer(request: ApiRequest, problems: Sequence[str]) -> dict[str, Any]:
    answer: dict[str, Any] = {"is_compatible": not problems}
    if request.truth("verbose"):
        answer["messages"] = list(problems)
    return answer


ROUTES = (
    Route(
        "POST",
        "/compatibility/subjects/{subject}/versions/{version}",
        _with_version,
        "Compare a schema with a version: verbose, normalize.",
    ),
    Route(
        "POST",
        "/compatibility/subjects/{subject}/versions",
        _with_subject,
        "Check a schema as its registration would: verbose, normalize.",
    ),
)
