"""Produced batches that wait until the high watermark has passed them, or until their time has passed."""

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
    """Return the outcome of each batch: NONE, the error, or REQUEST_TIMED_OUT.

    Each function in ``waits`` receives a callback for its outcome, and may call it before it returns.
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
        for wait in registered:
            wait.cancel()

    timer = loop.call_later(max(timeout_ms, 0) / 1000, expired)
    registered = [wait(partial(settle, index)) for index, wait in enumerate(waits)]
    done.add_done_callback(ended)
    return done
