"""Every route of the REST API in one table: its handler, who may use it, what it takes and what it answers.

The application serves it and the OpenAPI document is made from it, so the two can't differ. Internal routes are let in
by the session's signature alone and are not documented. What changes nothing needs READ, what acts on work that is
there OPERATE, as does the log, which may quote data; what changes configurations, offsets or loggers needs ADMIN; so
does validating a configuration, because a plugin may then go where it points to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any
from urllib.parse import unquote

import msgspec

from barnabas.connect.entities import (
    ConfigInfos,
    ConfigKeyInfo,
    ConnectorInfo,
    ConnectorOffsets,
    ConnectorStatus,
    LoggerLevel,
    LogLine,
    Message,
    PluginInfo,
    ServerInfo,
    TaskInfo,
    TaskStatus,
    WorkerHealth,
)
from barnabas.connect.rest.api_request import Handler
from barnabas.connect.rest.resources import connectors, internal, loggers, offsets, plugins, states, worker
from barnabas.connect.rest.roles import Role

__all__ = ["ROUTES", "Access", "Parameter", "Route", "matching", "path_segments"]

Config = dict[str, str]
ExpandedConnectors = dict[str, dict[str, Any]]


class Access(Enum):
    """Who is let in where there is authentication."""

    READ = auto()
    OPERATE = auto()
    ADMIN = auto()
    OPEN = auto()
    """Everybody: for what watches workers and knows no password."""
    INTERNAL = auto()
    """Other workers, by their signature."""

    @property
    def role(self) -> Role | None:
        return _ROLES.get(self)


_ROLES = {Access.READ: Role.READ, Access.OPERATE: Role.OPERATE, Access.ADMIN: Role.ADMIN}


@dataclass(frozen=True, slots=True)
class Parameter:
    """Of the query. ``values`` are those that mean something; none for any text."""

    name: str
    about: str
    values: tuple[str, ...] = ()
    is_repeated: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """``answers`` has the successful statuses and the type of their bodies, None for no body."""

    method: str
    path: str
    access: Access
    handler: Handler
    about: str
    answers: dict[int, Any]
    body: Any = None
    query: tuple[Parameter, ...] = ()

    @property
    def is_admin(self) -> bool:
        """Whether ``admin.listeners`` says where it is served."""
        return self.path.startswith("/admin/")


_FORWARD = Parameter("forward", "Whether this worker may hand the request on; workers set it.", ("true", "false"))
_RESTART = (
    Parameter("includeTasks", "Restart the tasks as well.", ("true", "false")),
    Parameter("onlyFailed", "Restart only what has failed.", ("true", "false")),
    _FORWARD,
)
_EXPAND = Parameter("expand", "What to tell of each connector, instead of names only.", ("info", "status"), True)
_ONLY = Parameter("connectorsOnly", "false for converters, transformations and predicates as well.", ("true", "false"))
_VERSION = Parameter("version", "A version or a range of versions of the plugin; the latest if left out.")
_SCOPE = Parameter("scope", "This worker alone, or all workers of the group.", ("worker", "cluster"))

_LOGS = (
    Parameter("lines", "How many at most: 1 to 1000; 100 if left out."),
    Parameter("level", "Only of this level or above.", ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")),
    Parameter("connector", "Only what names this connector or one of its tasks."),
)

_C = "/connectors/{connector}"
_READ, _OPERATE, _ADMIN = Access.READ, Access.OPERATE, Access.ADMIN


class CreateRequest(msgspec.Struct, frozen=True):
    """The body of POST /connectors, for the document. ``initial_state`` is RUNNING, PAUSED or STOPPED (KIP-980)."""

    name: str
    config: Config
    initial_state: str | None = None


class LevelRequest(msgspec.Struct, frozen=True):
    """The body of PUT /admin/loggers/{logger}, for the document."""

    level: str


ROUTES: tuple[Route, ...] = (
    Route("GET", "/", _READ, worker.server_info, "Version and cluster", {200: ServerInfo}),
    Route("GET", "/health", Access.OPEN, worker.health, "Whether the worker is well", {200: WorkerHealth}),
    # Connectors.
    Route(
        "GET",
        "/connectors",
        _READ,
        connectors.list_connectors,
        "Names of all connectors, or more of each",
        {200: list[str] | ExpandedConnectors},
        query=(_EXPAND,),
    ),
    Route(
        "POST",
        "/connectors",
        _ADMIN,
        connectors.create_connector,
        "Create a connector",
        {201: ConnectorInfo},
        CreateRequest,
        (_FORWARD,),
    ),
    Route("GET", _C, _READ, connectors.get_connector, "A connector, its configuration and tasks", {200: ConnectorInfo}),
    Route("DELETE", _C, _ADMIN, connectors.delete_connector, "Delete a connector", {204: None}, query=(_FORWARD,)),
    Route("GET", f"{_C}/config", _READ, connectors.get_connector_config, "Its configuration", {200: Config}),
    Route(
        "PUT",
        f"{_C}/config",
        _ADMIN,
        connectors.put_connector_config,
        "Create a connector, or replace its configuration",
        {200: ConnectorInfo, 201: ConnectorInfo},
        Config,
        (_FORWARD,),
    ),
    Route(
        "PATCH",
        f"{_C}/config",
        _ADMIN,
        connectors.patch_connector_config,
        "Change settings of a connector; null removes one",
        {200: ConnectorInfo},
        dict[str, str | None],
        (_FORWARD,),
    ),
    Route(
        "GET", f"{_C}/tasks", _READ, connectors.get_tasks, "Its tasks with their configurations", {200: list[TaskInfo]}
    ),
    # States.
    Route(
        "GET", f"{_C}/status", _READ, states.get_connector_status, "State of it and its tasks", {200: ConnectorStatus}
    ),
    Route("GET", f"{_C}/tasks/{{task}}/status", _READ, states.get_task_status, "State of a task", {200: TaskStatus}),
    Route(
        "POST",
        f"{_C}/restart",
        _OPERATE,
        states.restart_connector,
        "Restart a connector, with its tasks if asked for",
        {202: ConnectorStatus, 204: None},
        query=_RESTART,
    ),
    Route(
        "POST",
        f"{_C}/tasks/{{task}}/restart",
        _OPERATE,
        states.restart_task,
        "Restart a task",
        {204: None},
        query=(_FORWARD,),
    ),
    Route("PUT", f"{_C}/pause", _OPERATE, states.pause_connector, "Pause a connector and its tasks", {202: None}),
    Route("PUT", f"{_C}/resume", _OPERATE, states.resume_connector, "Resume a connector", {202: None}),
    Route(
        "PUT",
        f"{_C}/stop",
        _OPERATE,
        states.stop_connector,
        "Stop a connector: its tasks go, its configuration stays",
        {204: None},
        query=(_FORWARD,),
    ),
    Route(
        "GET",
        f"{_C}/topics",
        _READ,
        states.get_active_topics,
        "Topics that it has used",
        {200: dict[str, dict[str, list[str]]]},
    ),
    Route("PUT", f"{_C}/topics/reset", _OPERATE, states.reset_active_topics, "Forget the topics used", {202: None}),
    # Offsets.
    Route("GET", f"{_C}/offsets", _READ, offsets.get_offsets, "Where a connector is", {200: ConnectorOffsets}),
    Route(
        "PATCH",
        f"{_C}/offsets",
        _ADMIN,
        offsets.alter_offsets,
        "Move a stopped connector; null forgets a partition",
        {200: Message},
        ConnectorOffsets,
        (_FORWARD,),
    ),
    Route(
        "DELETE",
        f"{_C}/offsets",
        _ADMIN,
        offsets.reset_offsets,
        "Have a stopped connector begin anew",
        {200: Message},
        query=(_FORWARD,),
    ),
    # Between workers.
    Route("POST", f"{_C}/tasks", Access.INTERNAL, internal.put_task_configs, "Write the tasks", {204: None}),
    Route("PUT", f"{_C}/fence", Access.INTERNAL, internal.fence_zombies, "Fence out older tasks", {204: None}),
    # Plugins.
    Route("GET", "/connector-plugins", _READ, plugins.list_plugins, "Plugins", {200: list[PluginInfo]}, query=(_ONLY,)),
    Route(
        "GET",
        "/connector-plugins/{plugin}/config",
        _READ,
        plugins.get_plugin_config,
        "What can be set for a plugin",
        {200: list[ConfigKeyInfo]},
        query=(_VERSION,),
    ),
    Route(
        "PUT",
        "/connector-plugins/{plugin}/config/validate",
        _ADMIN,
        plugins.validate_config,
        "Whether a connector's configuration is valid",
        {200: ConfigInfos},
        Config,
    ),
    # Loggers.
    Route(
        "GET", "/admin/loggers", _READ, loggers.list_loggers, "Loggers and their levels", {200: dict[str, LoggerLevel]}
    ),
    Route("GET", "/admin/loggers/{logger}", _READ, loggers.get_logger, "The level of a logger", {200: LoggerLevel}),
    Route(
        "PUT",
        "/admin/loggers/{logger}",
        _ADMIN,
        loggers.set_logger,
        "Change the level of the loggers that begin with this name",
        {200: list[str], 204: None},
        LevelRequest,
        (_SCOPE,),
    ),
    Route(
        "GET",
        "/admin/logs",
        _OPERATE,
        loggers.get_logs,
        "What this worker has logged last; Kafka's workers have no such path",
        {200: list[LogLine]},
        query=_LOGS,
    ),
)


def path_segments(raw_path: str) -> list[str]:
    """The parts of a path, decoded one by one, so that a name may have a slash in it. Raises ValueError."""
    trimmed = raw_path.removeprefix("/").removesuffix("/")
    return [unquote(each, errors="strict") for each in trimmed.split("/")] if trimmed else []


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
