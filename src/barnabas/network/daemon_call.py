"""Calls that take seconds and that the end of the process need not wait for, such as imports of large packages.

``asyncio.run`` waits for the threads of ``asyncio.to_thread``: a process stopped while it starts would end late.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

__all__ = ["daemon_call"]

T = TypeVar("T")


async def daemon_call(call: Callable[[], T]) -> T:
    """Return the result of the call on a thread of its own; raise its error. A cancellation abandons the thread."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()

    def settle(set_outcome: Callable[[], None]) -> None:
        if not outcome.done():
            set_outcome()

    def report(set_outcome: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # The loop is closed, so nothing waits.
            loop.call_soon_threadsafe(settle, set_outcome)

    def run() -> None:
        try:
            result = call()
        except BaseException as error:
            failure = error
            report(lambda: outcome.set_exception(failure))
        else:
            report(lambda: outcome.set_result(result))

    threading.Thread(target=run, daemon=True).start()
    return await outcome
