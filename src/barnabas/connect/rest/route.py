"""A route of the REST API: its path, its handler, the required role, its input and its answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from barnabas.connect.rest.api_request import Handler
from barnabas.connect.rest.roles import Role

__all__ = ["CONNECTOR", "FORWARD", "SCOPE", "Access", "Config", "Parameter", "Route"]

Config = dict[str, str]
"""Settings, for the document."""

CONNECTOR = "/connectors/{connector}"


class Access(Enum):
    """The clients that may use a route if authentication is required."""

    READ = auto()
    OPERATE = auto()
    ADMIN = auto()
    OPEN = auto()
    """All clients: for monitoring, which has no password."""
    INTERNAL = auto()
    """Other workers, by their signature."""

    @property
    def role(self) -> Role | None:
        return _ROLES.get(self)


_ROLES = {Access.READ: Role.READ, Access.OPERATE: Role.OPERATE, Access.ADMIN: Role.ADMIN}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter. ``values`` are the known ones; empty for any text."""

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
        """Return whether ``admin.listeners`` decides where the route is served."""
        return self.path.startswith("/admin/")


FORWARD = Parameter("forward", "Whether this worker may forward the request; workers set it.", ("true", "false"))

SCOPE = Parameter(
    "scope", "This worker alone, or all workers of the group; the default is cluster.", ("worker", "cluster")
)
