"""The current activity of the worker as text, for requests that time out (KIP-1017)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

__all__ = ["Stages"]


class Stages:
    """Several activities may run concurrently; the longest one is reported."""

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self._going_on: dict[object, tuple[str, int]] = {}

    @contextmanager
    def during(self, doing: str) -> Iterator[None]:
        """Mark an activity. ``doing`` follows "The worker is currently"."""
        token = object()
        self._going_on[token] = (doing, self._wall_ms())
        try:
            yield
        finally:
            del self._going_on[token]

    def current(self) -> str | None:
        for doing, began_ms in self._going_on.values():
            began = datetime.fromtimestamp(began_ms / 1000, UTC).isoformat(timespec="milliseconds")
            return f"The worker is currently {doing}, which began at {began.replace('+00:00', 'Z')}."
        return None
