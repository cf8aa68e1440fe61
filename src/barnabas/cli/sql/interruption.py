"""Run work that Ctrl-C cancels, without leaving it half done on the thread that prints, and end in order."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Generic, TypeVar

__all__ = ["exit_at_signals", "interruptible"]

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


@contextmanager
def exit_at_signals() -> Iterator[None]:
    """In the block, SIGTERM and SIGHUP (of a closed terminal) raise SystemExit, so that its clean-up runs.

    Signals that the process ignores, as below nohup, stay ignored.
    """
    numbers = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, _exit)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _exit(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)  # The status that a shell reports for a process that the signal has ended.


def _join(thread: threading.Thread) -> None:
    while thread.is_alive():
        thread.join(_POLL_S)
