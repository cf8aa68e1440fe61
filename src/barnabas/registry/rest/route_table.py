"""All routes of the REST API. A path may begin with ``/contexts/{context}``, which then applies to its subjects."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.connect.rest.url_paths import path_parameters
from barnabas.registry.decide.errors import RegistryError
from barnabas.registry.decide.subjects import DEFAULT_CONTEXT
from barnabas.registry.rest.api_request import Route
from barnabas.registry.rest.resources import compatibility, schemas, server, settings, subjects

__all__ = ["ROUTES", "matching", "without_context"]

ROUTES: tuple[Route, ...] = (
    *server.ROUTES,
    *subjects.ROUTES,
    *schemas.ROUTES,
    *compatibility.ROUTES,
    *settings.ROUTES,
)
_CONTEXTS = "contexts"


def without_context(segments: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return the context of a path, and the rest of it. Raise RegistryError."""
    if len(segments) < 3 or segments[0] != _CONTEXTS:
        return DEFAULT_CONTEXT, segments
    context = segments[1].removeprefix(":").removesuffix(":")
    if not context.startswith(".") or ":" in context:
        raise RegistryError(404, 404, f"HTTP 404 Not Found: the name of a context begins with a dot, as in .{context}")
    return context, segments[2:]


def matching(segments: Sequence[str]) -> dict[str, tuple[Route, dict[str, str]]]:
    """Return the routes of a path by their methods, each with the variable parts."""
    found = {}
    for route in ROUTES:
        parameters = path_parameters(route.path, segments)
        if parameters is not None:
            found[route.method] = (route, parameters)
    return found
