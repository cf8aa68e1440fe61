"""Produced batches that wait for the replicas: until the high watermark has passed them, or the time for it is over."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from barnabas.common.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.broker.replication.commit_waits import CommitWait

__all__ = ["wait_for_replicas"]


def wait_for_replicas(
    waits: Sequence[Callable[[Callable[[ErrorCode], None]], CommitWait]], timeout_ms: int
) -> asyncio.Future[list[ErrorCode]]:
    """What became of each: NONE, the reason why it will not be, or REQUEST_TIMED_OUT for those that are late.

    Each of ``waits`` is given the function to call, and may call it from inside.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[list[ErrorCode]] = loop.create_future()
    results = [ErrorCode.REQUEST_TIMED_OUT] * len(waits)
    missing = len(waits)

    def settle(index: int, error: ErrorCode) -> None:
        nonlocal missing
        results[index] = error
        missing -= 1
        if not missing and not done.done():
            done.set_result(results)

    def expired() -> None:
        if not done.done():
            done.set_result(results)

    def ended(_: asyncio.Future[list[ErrorCode]]) -> None:
        timer.cancel()
        for each in registered:
            each.cancel()

    timer = loop.call_later(max(timeout_ms, 0) / 1000, expired)
    registered = [wait(partial(settle, index)) for index, wait in enumerate(waits)]
    done.add_done_callback(ended)
    return done
