"""Run work that Ctrl-C cancels, without leaving it half done on the thread that prints."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["interruptible"]

T = TypeVar("T")

_POLL_S = 0.5
"""A wait with a limit, so that the interpreter can handle signals on every platform."""


class _Outcome(Generic[T]):
    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._result: list[T] = []
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._result.append(self._work())
        except BaseException as error:
            self._error = error

    def get(self) -> T:
        if self._error is not None:
            raise self._error
        return self._result[0]


def interruptible(work: Callable[[], T], cancel: Callable[[], None]) -> T:
    """Run ``work`` on a thread and return its result, or raise its error.

    Ctrl-C calls ``cancel``, waits for the end of the work, and raises KeyboardInterrupt. A second Ctrl-C does not wait.
    """
    outcome = _Outcome(work)
    thread = threading.Thread(target=outcome.run, name="sql-statement", daemon=True)
    try:
        thread.start()
        _join(thread)
    except KeyboardInterrupt:
        cancel()
        _join(thread)
        raise
    return outcome.get()


def _join(thread: threading.Thread) -> None:
    while thread.is_alive():
        thread.join(_POLL_S)
