"""Work in steps is a generator: it yields None between steps, so that other work can run, and returns its result."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

__all__ = ["whole"]

T = TypeVar("T")


def whole(steps: Generator[None, None, T]) -> T:
    """Run all steps without interruption and return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
