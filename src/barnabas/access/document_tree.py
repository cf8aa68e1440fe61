"""A file as a tree that remembers its lines, and mistakes in it. How the tree is read from YAML is somebody else's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["ListNode", "MapNode", "Node", "Problem", "ScalarNode"]


@dataclass(frozen=True, slots=True)
class ScalarNode:
    line: int
    text: str
    """As it is written, without quotes: ``0.50`` and ``yes`` stay what they are."""
    is_null: bool = False


@dataclass(frozen=True, slots=True)
class ListNode:
    line: int
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class MapNode:
    line: int
    items: tuple[tuple[ScalarNode, Node], ...]
    """In the order of the file; the same key may come twice, which is somebody's mistake."""


Node = ScalarNode | ListNode | MapNode


class Problem(NamedTuple):
    """One mistake in a file, or something in it that nobody is likely to want."""

    line: int
    path: str
    message: str
    """What is wrong with which value, and what is allowed."""

    def __str__(self) -> str:
        return f"line {self.line}: {self.path}: {self.message}" if self.path else f"line {self.line}: {self.message}"
