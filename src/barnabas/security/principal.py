"""A principal: who a connection speaks for."""

from typing import NamedTuple

__all__ = ["ANONYMOUS", "Principal"]


class Principal(NamedTuple):
    type: str
    name: str
    token_authenticated: bool = False

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS = Principal("User", "ANONYMOUS")
