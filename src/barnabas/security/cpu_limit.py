"""Ends a computation that takes too long: for an operator's expressions on text from clients.

Python's regular expressions backtrack, some of them for years, and nothing else on the node runs meanwhile. They do
check for signals, so a timer of the process interrupts them. It counts processor time, so that other load on the
machine fails no client.
"""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, NoReturn, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["TooMuchWork", "within_cpu_time"]

T = TypeVar("T")


class TooMuchWork(Exception):
    """The time limit was exceeded."""


def within_cpu_time(seconds: float, work: Callable[[], T]) -> T:
    """Return ``work()``, or raise TooMuchWork. Signals reach only the main thread: other threads have no limit.

    ``work`` must be harmless to interrupt anywhere, and short: nothing is handled meanwhile.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    before = signal.signal(signal.SIGVTALRM, _stop)
    try:
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
            return work()
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    finally:
        signal.signal(signal.SIGVTALRM, before)


def _stop(number: int, frame: object) -> NoReturn:
    raise TooMuchWork
