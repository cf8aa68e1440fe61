"""A fetch that waits until enough bytes came, its time is over, or a partition changed under it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Protocol

    class Notifier(Protocol):
        """A partition, or a fetch session with many."""

        def add_listener(self, listener: Callable[[int], None]) -> None: ...

        def remove_listener(self, listener: Callable[[int], None]) -> None: ...


__all__ = ["wait_for_bytes"]


def wait_for_bytes(notifiers: Iterable[Notifier], missing_bytes: int, max_wait_ms: int) -> asyncio.Future[None]:
    """Done when ``missing_bytes`` more were appended to the partitions together, or ``max_wait_ms`` passed.

    It listens from this call on: what comes before somebody awaits it counts. A partition that goes away or changes
    leader ends the wait too (it notifies with 0 bytes).
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    listened_to = tuple(notifiers)
    left = missing_bytes

    def appended(count: int) -> None:
        nonlocal left
        left -= count
        if (left <= 0 or count == 0) and not done.done():
            done.set_result(None)

    def expired() -> None:
        if not done.done():
            done.set_result(None)

    def ended(_: asyncio.Future[None]) -> None:
        timer.cancel()
        for notifier in listened_to:
            notifier.remove_listener(appended)

    timer = loop.call_later(max_wait_ms / 1000, expired)
    for notifier in listened_to:
        notifier.add_listener(appended)
    done.add_done_callback(ended)
    return done
