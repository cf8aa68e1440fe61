"""Work on large bodies, away from the loop on which the worker answers heartbeats.

One thread does it, one body after the other: several large bodies at a time take no more of the interpreter than one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["LARGE_BYTES", "off_loop"]

T = TypeVar("T")

LARGE_BYTES = 64 * 1024
"""Reading this much takes well under 5 ms; going to a thread costs more than it saves for less."""

_thread = ThreadPoolExecutor(1, thread_name_prefix="rest-bodies")


async def off_loop(size: int, work: Callable[[], T]) -> T:
    """What ``work`` gives; on the thread if ``size`` bytes are a lot. Raises what it raises."""
    if size <= LARGE_BYTES:
        return work()
    return await asyncio.get_running_loop().run_in_executor(_thread, work)
