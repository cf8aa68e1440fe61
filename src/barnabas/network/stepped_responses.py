"""Builds long responses in steps, between which other clients are served.

Only one is built at a time; others wait before they begin, so that only one response's memory is in use.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from barnabas.common.long_response import LongAnswer

__all__ = ["serve_others", "worked_out"]

A = TypeVar("A", bound="LongAnswer")

_queues: WeakKeyDictionary[AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


async def serve_others() -> None:
    """Let all ready work run, including requests that have arrived at sockets.

    The loop runs ready tasks before it reads. A task that yields only once is ready before the next request is read,
    which then waits for another whole step.
    """
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def worked_out(answer: A, *, is_begun: bool = False) -> A:
    """Return the same response when all of its steps are done. ``is_begun``: the caller just took the first step."""
    loop = asyncio.get_running_loop()
    async with _queues.setdefault(loop, asyncio.Lock()):
        if is_begun:
            await serve_others()
        is_going_on = True
        while is_going_on:
            began = loop.time()
            is_going_on = answer.advance()
            answer.busy_s += loop.time() - began
            await serve_others()
    return answer
