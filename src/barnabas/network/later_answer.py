"""An answer whose handler has returned a coroutine: two coroutines, of which the outer one awaits the inner one."""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Generator
from typing import Any, Generic, TypeVar

__all__ = ["LaterAnswer"]

T = TypeVar("T")


class LaterAnswer(Generic[T]):
    """Awaits the coroutine that makes the answer. ``waiting`` is what this coroutine awaits first."""

    __slots__ = ("_coroutine", "_waiting")

    def __init__(self, coroutine: Coroutine[Any, Any, T], waiting: Awaitable[Any]) -> None:
        self._coroutine = coroutine
        self._waiting = waiting

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine.__await__()

    def close(self) -> None:
        """Give up an answer that has not begun: Python warns of a coroutine that nothing has awaited."""
        self._coroutine.close()
        if isinstance(self._waiting, Coroutine):
            self._waiting.close()
