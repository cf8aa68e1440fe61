"""All routes of the REST API in one table. Each module in ``resources`` has its own routes, beside their handlers.

The application serves the table, and the OpenAPI document is generated from it, so the two can't differ. Internal
routes accept only the session's signature and are not documented. Queries need READ. Operations on existing connectors
need OPERATE, as do the log and dead letters, which quote data. Changes of configurations, offsets or loggers need
ADMIN; so does validating a configuration, because a plugin may then connect to the configured address.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from barnabas.connect.rest.resources import (
    connectors,
    dead_letters,
    history,
    internal,
    loggers,
    offsets,
    plugins,
    states,
    worker,
)
from barnabas.connect.rest.route import Route
from barnabas.connect.rest.url_paths import path_parameters

__all__ = ["ROUTES", "matching"]

ROUTES: tuple[Route, ...] = (
    *worker.ROUTES,
    *connectors.ROUTES,
    *states.ROUTES,
    *offsets.ROUTES,
    *dead_letters.ROUTES,
    *history.ROUTES,
    *internal.ROUTES,
    *plugins.ROUTES,
    *loggers.ROUTES,
)


def matching(segments: Sequence[str], routes: Sequence[Route] = ROUTES) -> Iterator[tuple[Route, dict[str, str]]]:
    """Return the routes of this path, for every method, each with the variable parts."""
    for route in routes:
        parameters = path_parameters(route.path, segments)
        if parameters is not None:
            yield route, parameters
