"""Levels of loggers, of this worker or of all (KIP-495, KIP-976), and the last log lines of this worker."""

from __future__ import annotations

import msgspec

from barnabas.connect.entities import LoggerLevel, LogLine
from barnabas.connect.errors import BadRequest
from barnabas.connect.rest.api_request import ApiRequest, Reply, Services
from barnabas.connect.rest.json_bodies import read_level
from barnabas.connect.rest.logger_levels import level_named
from barnabas.connect.rest.query_parameters import number_to
from barnabas.connect.rest.recent_log import LINES_MAX
from barnabas.connect.rest.route import Access, Parameter, Route

__all__ = ["ROUTES", "get_logger", "get_logs", "list_loggers", "set_logger"]

_LINES = 100
"""How many lines are returned without ``lines``."""


async def list_loggers(services: Services, request: ApiRequest) -> Reply:
    return Reply(200, services.loggers.all())


async def get_logger(services: Services, request: ApiRequest) -> Reply:
    return Reply(200, services.loggers.level(request.parameters["logger"]))


async def set_logger(services: Services, request: ApiRequest) -> Reply:
    """Set the level. Any scope except ``cluster`` means this worker, as in Kafka."""
    namespace, level = request.parameters["logger"], await request.parsed(read_level)
    if level is None:
        raise BadRequest("Desired 'level' parameter was not specified in request.")
    name = level_named(level)
    if (request.last("scope") or "").lower() == "cluster":
        await services.forwarder.settled(lambda: services.herder.states.set_cluster_logger_level(namespace, name))
        return Reply(204)
    return Reply(200, services.loggers.set_level(namespace, name))


async def get_logs(services: Services, request: ApiRequest) -> Reply:
    count = number_to(LINES_MAX, "lines", request.last("lines"), _LINES)
    found = services.recent_log.lines(count, level=request.last("level"), connector=request.last("connector"))
    return Reply(200, found)


_SCOPE = Parameter("scope", "Only this worker, or all workers of the group.", ("worker", "cluster"))

_LOGS = (
    Parameter("lines", f"Maximum number of lines, 1 to {LINES_MAX}; the default is {_LINES}."),
    Parameter("level", "Only lines of this level or above.", ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")),
    Parameter("connector", "Only lines that name this connector or one of its tasks."),
)


class LevelRequest(msgspec.Struct, frozen=True):
    """The body of PUT /admin/loggers/{logger}, for the document."""

    level: str


ROUTES = (
    Route(
        "GET", "/admin/loggers", Access.READ, list_loggers, "Loggers and their levels", {200: dict[str, LoggerLevel]}
    ),
    Route("GET", "/admin/loggers/{logger}", Access.READ, get_logger, "The level of a logger", {200: LoggerLevel}),
    Route(
        "PUT",
        "/admin/loggers/{logger}",
        Access.ADMIN,
        set_logger,
        "Change the level of the loggers that begin with this name",
        {200: list[str], 204: None},
        LevelRequest,
        (_SCOPE,),
    ),
    Route(
        "GET",
        "/admin/logs",
        Access.OPERATE,
        get_logs,
        "The latest log lines of this worker; Kafka's workers lack this path",
        {200: list[LogLine]},
        query=_LOGS,
    ),
)
