"""An answer that may be completed later: the handle between a coordinator and the owner of the connection.

It is not a future, and is not awaited. The consumer of the value registers one listener, which is called immediately
if the value already exists, which is the usual case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, cast

from barnabas.common.errors import invariant

__all__ = ["Deferred", "gather"]

T = TypeVar("T")
R = TypeVar("R")

_PENDING = object()


class Deferred(Generic[T]):
    """An answer that is completed exactly once, and has at most one listener."""

    __slots__ = ("_listener", "_value")

    def __init__(self) -> None:
        self._value: object = _PENDING
        self._listener: Callable[[T], None] | None = None

    @classmethod
    def completed(cls, value: T) -> Deferred[T]:
        deferred: Deferred[T] = cls()
        deferred._value = value
        return deferred

    @property
    def is_complete(self) -> bool:
        return self._value is not _PENDING

    @property
    def value(self) -> T:
        invariant(self._value is not _PENDING, "read a deferred answer before it was complete")
        return cast(T, self._value)

    def complete(self, value: T) -> None:
        invariant(self._value is _PENDING, "answered the same request twice")
        self._value = value
        listener, self._listener = self._listener, None
        if listener is not None:
            listener(value)

    def on_complete(self, listener: Callable[[T], None]) -> None:
        invariant(self._listener is None, "a deferred answer has one listener")
        if self._value is _PENDING:
            self._listener = listener
        else:
            listener(cast(T, self._value))

    def map(self, shape: Callable[[T], R]) -> Deferred[R]:
        """Return another answer, computed from this one on completion. Uses up its only listener."""
        mapped: Deferred[R] = Deferred()
        self.on_complete(lambda value: mapped.complete(shape(value)))
        return mapped


def gather(parts: Sequence[Deferred[T]]) -> Deferred[list[T]]:
    """Return one answer combined from several, complete when the last of them is."""
    whole: Deferred[list[T]] = Deferred()
    missing = len(parts)

    def one_came(_: T) -> None:
        nonlocal missing
        missing -= 1
        if not missing:
            whole.complete([part.value for part in parts])

    if not parts:
        whole.complete([])
    for part in parts:
        part.on_complete(one_came)
    return whole
