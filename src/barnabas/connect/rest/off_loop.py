"""Process large bodies on a thread, because the worker answers heartbeats on the loop.

One thread processes one body after another, and pauses after each in proportion: a decoder in C holds the
interpreter until it is done, which blocks the loop for as long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic, sleep, thread_time
from typing import TypeVar

from barnabas.network.fair_scheduling import pause_after

__all__ = ["LARGE_BYTES", "off_loop"]

T = TypeVar("T")

LARGE_BYTES = 64 * 1024
"""Parsing this much takes well under 5 ms; for less, using a thread costs more than it saves."""


class _Thread:
    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="rest-bodies")
        self._paused_until_s = 0.0

    async def run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._done, work)

    def _done(self, work: Callable[[], T]) -> T:
        sleep(max(self._paused_until_s - monotonic(), 0.0))
        began_s = thread_time()
        try:
            return work()
        finally:
            self._paused_until_s = monotonic() + pause_after(thread_time() - began_s)


_thread = _Thread()


async def off_loop(size: int, work: Callable[[], T]) -> T:
    """Return or raise the result of ``work``, which runs on the thread if ``size`` is large."""
    if size <= LARGE_BYTES:
        return work()
    return await _thread.run(work)
