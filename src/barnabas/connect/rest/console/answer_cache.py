"""A cache for slow answers: one request at a time, and none while the last answer is fresh."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["AnswerCache"]

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(slots=True)
class _Entry(Generic[T]):
    value: T | None = None
    known_s: float = float("-inf")
    asking: asyncio.Task[None] | None = None


class AnswerCache(Generic[T]):
    """``age_s`` is how long an answer is fresh, ``wait_s`` the longest wait for a new one. The latest used answers are
    kept, at most ``entries_max``."""

    def __init__(
        self, now_s: Callable[[], float], *, age_s: float = 2.0, wait_s: float = 1.5, entries_max: int = 256
    ) -> None:
        self._now_s = now_s
        self._age_s = age_s
        self._wait_s = wait_s
        self._entries_max = entries_max
        self._entries: OrderedDict[Hashable, _Entry[T]] = OrderedDict()

    async def get(self, key: Hashable, ask: Callable[[], Awaitable[T]]) -> T | None:
        """Return the latest answer that is available in time; None before the first."""
        entry = self._entries.setdefault(key, _Entry())
        self._entries.move_to_end(key)
        while len(self._entries) > self._entries_max:
            self._entries.popitem(last=False)
        if self._now_s() - entry.known_s >= self._age_s:
            if entry.asking is None:
                entry.asking = asyncio.create_task(self._ask(entry, ask))
            await asyncio.wait([entry.asking], timeout=self._wait_s)
        return entry.value

    async def _ask(self, entry: _Entry[T], ask: Callable[[], Awaitable[T]]) -> None:
        try:
            entry.value = await ask()
        except Exception:
            log.warning("the console failed to read data for a page", exc_info=True)
        finally:
            entry.known_s = self._now_s()
            entry.asking = None
