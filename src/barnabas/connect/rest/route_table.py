"""All routes of the REST API in one table. Each module in ``resources`` has its own routes, beside their handlers.

The application serves the table, and the OpenAPI document is generated from it, so the two can't differ. Internal
routes accept only the session's signature and are not documented. Queries need READ. Operations on existing connectors
need OPERATE, as do the log and dead letters, which quote data. Changes of configurations, offsets or loggers need
ADMIN; so does validating a configuration, because a plugin may then connect to the configured address.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import unquote

from barnabas.connect.rest.resources import (
    connectors,
    dead_letters,
    internal,
    loggers,
    offsets,
    plugins,
    states,
    worker,
)
from barnabas.connect.rest.route import Route

__all__ = ["ROUTES", "matching", "path_segments"]

ROUTES: tuple[Route, ...] = (
    *worker.ROUTES,
    *connectors.ROUTES,
    *states.ROUTES,
    *offsets.ROUTES,
    *dead_letters.ROUTES,
    *internal.ROUTES,
    *plugins.ROUTES,
    *loggers.ROUTES,
)


def path_segments(raw_path: str) -> list[str]:
    """Return the parts of a path, decoded one by one, so that a name may contain a slash. Raise ValueError."""
    trimmed = raw_path.removeprefix("/").removesuffix("/")
    return [unquote(segment, errors="strict") for segment in trimmed.split("/")] if trimmed else []


def matching(segments: Sequence[str], routes: Sequence[Route] = ROUTES) -> Iterator[tuple[Route, dict[str, str]]]:
    """Return the routes of this path, for every method, each with the variable parts."""
    for route in routes:
        parameters = _parameters(route.path.strip("/").split("/") if route.path != "/" else [], segments)
        if parameters is not None:
            yield route, parameters


def _parameters(template: Sequence[str], segments: Sequence[str]) -> dict[str, str] | None:
    if len(template) != len(segments):
        return None
    found: dict[str, str] = {}
    for part, segment in zip(template, segments, strict=True):
        if part.startswith("{"):
            if not segment:
                return None
            found[part[1:-1]] = segment
        elif part != segment:
            return None
    return found
