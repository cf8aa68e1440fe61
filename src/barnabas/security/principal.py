"""A principal: the identity of a connection."""

from typing import NamedTuple

__all__ = ["ANONYMOUS", "Principal", "parse_principal"]


class Principal(NamedTuple):
    type: str
    name: str
    token_authenticated: bool = False

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS = Principal("User", "ANONYMOUS")


def parse_principal(text: str) -> Principal:
    """Parse ``Type:name``, the form in settings and ACLs; the name may have colons. Raises ValueError."""
    kind, colon, name = text.partition(":")
    if not colon:
        raise ValueError(f"expected a string in format principalType:principalName but got {text}")
    return Principal(kind, name)
