"""How a running command stops in order at Ctrl-C or SIGTERM."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["stop_at_signals"]


@contextmanager
def stop_at_signals(notice: str) -> Iterator[asyncio.Event]:
    """Yield an event that the first signal sets. Further signals have their usual effect.

    A terminal shows ``notice`` after the ``^C`` that it has printed.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)

    def stopped() -> None:
        stop.set()
        if sys.stderr.isatty():
            sys.stderr.write(f"\n{notice}")
        for number in signals:
            loop.remove_signal_handler(number)

    try:
        for number in signals:
            loop.add_signal_handler(number, stopped)
    except (NotImplementedError, RuntimeError, ValueError):
        pass  # Not the main thread, or Windows: Ctrl-C ends the command immediately.
    try:
        yield stop
    finally:
        if not stop.is_set():
            for number in signals:
                loop.remove_signal_handler(number)
