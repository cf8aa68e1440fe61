"""Waits for what a task does in some later turns of the loop, however slow the machine is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["until"]


async def until(is_true: Callable[[], bool]) -> None:
    for _ in range(10_000):
        if is_true():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it has not become true")
