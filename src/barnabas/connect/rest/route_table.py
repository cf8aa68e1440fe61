"""Every route of the REST API in one table. Each module in ``resources`` has its own, beside their handlers.

The application serves the table and the OpenAPI document is made from it, so the two can't differ. Internal routes are
let in by the session's signature alone and are not documented. What changes nothing needs READ, what acts on work that
is there OPERATE, as does the log, which may quote data; what changes configurations, offsets or loggers needs ADMIN; so
does validating a configuration, because a plugin may then go where it points to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import unquote

from barnabas.connect.rest.resources import connectors, internal, loggers, offsets, plugins, states, worker
from barnabas.connect.rest.route import Route

__all__ = ["ROUTES", "matching", "path_segments"]

ROUTES: tuple[Route, ...] = (
    *worker.ROUTES,
    *connectors.ROUTES,
    *states.ROUTES,
    *offsets.ROUTES,
    *internal.ROUTES,
    *plugins.ROUTES,
    *loggers.ROUTES,
)


def path_segments(raw_path: str) -> list[str]:
    """The parts of a path, decoded one by one, so that a name may have a slash in it. Raises ValueError."""
    trimmed = raw_path.removeprefix("/").removesuffix("/")
    return [unquote(segment, errors="strict") for segment in trimmed.split("/")] if trimmed else []


def matching(segments: Sequence[str], routes: Sequence[Route] = ROUTES) -> Iterator[tuple[Route, dict[str, str]]]:
    """The routes of this path, of every method, each with the variable parts."""
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
