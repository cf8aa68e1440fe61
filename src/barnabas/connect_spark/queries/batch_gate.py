"""Runs the batches of one query one at a time, and finds a moment between two of them.

A query is stopped between two batches if possible. A batch that takes too long is interrupted and from then on fenced:
whatever of it still runs must no longer commit a position, write a dead letter or note an offset.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["BatchGate", "QueryEnds"]


class QueryEnds(Exception):
    """Not a failure: the query is being stopped, and this exception ends its thread."""


class BatchGate:
    def __init__(self, failed: Callable[[], None] = lambda: None) -> None:
        """``failed`` is called, on the thread of the batch, when one has failed."""
        self._failed = failed
        self._changed = threading.Condition()
        self._is_running = False
        self._is_closed = False
        self._is_fenced = False
        self.failure: BaseException | None = None
        """The exception of a batch, as raised: Spark passes on only its text."""

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Run one batch inside this context. Raise QueryEnds when the query is to stop."""
        with self._changed:
            if self._is_closed:
                raise QueryEnds
            self._is_running = True
        try:
            yield
        except BaseException as error:
            if not self._is_fenced:
                self.failure = error
                self._failed()
            raise
        finally:
            with self._changed:
                self._is_running = False
                self._changed.notify_all()

    def close(self, timeout_s: float) -> bool:
        """Let no further batch begin. Return whether the running one has ended in time."""
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
        """Call this before any action that is visible outside. Raise QueryEnds if the batch is fenced."""
        if self._is_fenced:
            raise QueryEnds

    def wait(self, seconds: float) -> None:
        """Wait before a retry of the same batch. Raise QueryEnds as soon as the query is to stop."""
        with self._changed:
            if self._changed.wait_for(lambda: self._is_closed, seconds):
                raise QueryEnds
