"""What a route of the REST API is: its path, its handler, who may use it, what it takes and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from barnabas.connect.rest.api_request import Handler
from barnabas.connect.rest.roles import Role

__all__ = ["CONNECTOR", "FORWARD", "Access", "Config", "Parameter", "Route"]

Config = dict[str, str]
"""Settings, for the document."""

CONNECTOR = "/connectors/{connector}"


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


FORWARD = Parameter("forward", "Whether this worker may forward the request; workers set it.", ("true", "false"))
