"""Lets batches of one query run, and finds a moment when none does.

A query is stopped between two batches if it can be. One that takes too long is interrupted, and from then on it is
fenced: whatever of it still runs must not commit a position, write a dead letter or note an offset any more.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["BatchGate", "QueryEnds"]


class QueryEnds(Exception):
    """Not a failure: the query is being stopped, and this ends its thread."""


class BatchGate:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._is_running = False
        self._is_closed = False
        self._is_fenced = False
        self.failure: BaseException | None = None
        """The exception of a batch, as raised: Spark passes on its text alone."""

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Around each batch. Raises QueryEnds when the query is to stop."""
        with self._changed:
            if self._is_closed:
                raise QueryEnds
            self._is_running = True
        try:
            yield
        except BaseException as error:
            if not self._is_fenced:
                self.failure = error
            raise
        finally:
            with self._changed:
                self._is_running = False
                self._changed.notify_all()

    def close(self, timeout_s: float) -> bool:
        """No batch begins any more. Whether the one that ran has ended in time."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._is_running, timeout_s)

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def fence(self) -> None:
        self._is_fenced = True

    def ensure_unfenced(self) -> None:
        """Before anything that others can see. Raises QueryEnds."""
        if self._is_fenced:
            raise QueryEnds

    def wait(self, seconds: float) -> None:
        """Wait before another try of the same batch. Raises QueryEnds as soon as the query is to stop."""
        with self._changed:
            if self._changed.wait_for(lambda: self._is_closed, seconds):
                raise QueryEnds
