"""The rights of REST users: three roles, each with all rights of the one before.

READ allows queries. OPERATE also restarts, pauses, resumes and stops existing connectors. ADMIN also creates, changes
and deletes: connectors, their offsets, and the levels of loggers. The table of routes has the role of each route.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

__all__ = ["ANONYMOUS", "Role", "RoleTable", "User"]


class Role(IntEnum):
    READ = 1
    OPERATE = 2
    ADMIN = 3

    @classmethod
    def named(cls, name: str) -> Role | None:
        """Return the role of a name in lower case; None for an unknown name."""
        return _BY_NAME.get(name)

    @property
    def text(self) -> str:
        return self.name.lower()


_BY_NAME = {role.text: role for role in Role}


@dataclass(frozen=True, slots=True)
class User:
    """The user of a request. ``role`` is None for a known user without rights."""

    name: str
    role: Role | None

    def may(self, needed: Role) -> bool:
        return self.role is not None and self.role >= needed


ANONYMOUS = User("anonymous", Role.ADMIN)
"""The user of all requests where authentication is off."""


@dataclass(frozen=True, slots=True)
class RoleTable:
    """``barnabas.connect.roles.*``: names of users, ``*`` for all authenticated users."""

    names: dict[Role, frozenset[str]]

    def role_of(self, name: str, *others: Role | None) -> Role | None:
        """Return the higher of the table's role and the given one."""
        given = [role for role, names in self.names.items() if name in names or "*" in names]
        given += [role for role in others if role is not None]
        return max(given, default=None)
