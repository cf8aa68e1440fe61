"""The port of a format: it parses a text into a ``ParsedSchema``, which can be compared with another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

__all__ = ["Format", "ParsedSchema", "ReferencedText", "UnreadableSchema", "check_depth"]

_DEPTH_MAX = 100
"""Libraries and our own comparison descend by calls, several for a level."""


class UnreadableSchema(ValueError):
    """The text is not a schema of this format, or uses a name that its references do not have."""


class ReferencedText(NamedTuple):
    """A schema that another one uses by ``name``. Each comes after those that it uses itself."""

    name: str
    text: str


class ParsedSchema(Protocol):
    @property
    def canonical(self) -> str:
        """The text that is stored: equal for texts that differ only in layout."""

    def problems_reading(self, writer: Any) -> list[str]:
        """What a reader with this schema can't do with data of ``writer``, a schema of the same format."""


class Format(Protocol):
    def parse(self, text: str, references: Sequence[ReferencedText], *, normalize: bool = False) -> ParsedSchema:
        """Parse a schema. With ``normalize`` texts that mean the same become equal. Raise UnreadableSchema."""


def check_depth(document: Any) -> None:
    """Raise UnreadableSchema if a JSON document is nested too deeply for what follows."""
    level = [document]
    for _ in range(_DEPTH_MAX):
        level = [inner for outer in level for inner in _children(outer)]
        if not level:
            return
    raise UnreadableSchema(f"it is nested more than {_DEPTH_MAX} levels deep")


def _children(document: Any) -> list[Any]:
    if isinstance(document, Mapping):
        return list(document.values())
    return document if isinstance(document, list) else []
