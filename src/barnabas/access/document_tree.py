"""The tree of a file, with line numbers, and the errors in the file. The caller parses the YAML."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["ListNode", "MapNode", "Node", "Problem", "ScalarNode"]


@dataclass(frozen=True, slots=True)
class ScalarNode:
    line: int
    text: str
    """The text in the file, without quotes and without conversion: ``0.50`` and ``yes`` are texts."""
    is_null: bool = False


@dataclass(frozen=True, slots=True)
class ListNode:
    line: int
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class MapNode:
    line: int
    items: tuple[tuple[ScalarNode, Node], ...]
    """The entries in the order of the file. A duplicate key is an error in the file."""


Node = ScalarNode | ListNode | MapNode


class Problem(NamedTuple):
    """An error in a file, or an entry that is probably unintended."""

    line: int
    path: str
    message: str
    """The invalid value, the reason, and the allowed values."""

    def __str__(self) -> str:
        return f"line {self.line}: {self.path}: {self.message}" if self.path else f"line {self.line}: {self.message}"
