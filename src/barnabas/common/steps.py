"""Work in steps is a generator that yields nothing, only a moment for others, and returns its result."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

__all__ = ["whole"]

T = TypeVar("T")


def whole(steps: Generator[None, None, T]) -> T:
    """The result, with no moment for others."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
