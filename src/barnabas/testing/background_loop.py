"""An event loop on a thread, which runs the clients of test nodes: code with or without asyncio may call them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import TypeVar

__all__ = ["run_in_background"]

R = TypeVar("R")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def run_in_background(work: Coroutine[object, object, R]) -> R:
    """Return the result of the coroutine. An interrupted call (Ctrl-C) cancels it."""
    future = asyncio.run_coroutine_threadsafe(work, _running_loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def _running_loop() -> asyncio.AbstractEventLoop:
    """The loop ends with the process: its thread is a daemon, and each call closes what it opened."""
    global _loop
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="barnabas-testing", daemon=True).start()
        return _loop
