"""A fetch that waits until enough bytes are available, its time has passed, or a partition changes its state."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable
    from typing import Protocol

    class Notifier(Hashable, Protocol):
        """A partition, or a fetch session of many partitions."""

        def add_listener(self, listener: Callable[[int], None]) -> None: ...

        def remove_listener(self, listener: Callable[[int], None]) -> None: ...


__all__ = ["AppendedBytes", "wait_for_bytes"]


class AppendedBytes:
    """Counts the bytes appended to partitions, from the moment that each is added, so that no append is missed.

    ``stop`` removes the listeners. A wait that ends or is cancelled also removes them.
    """

    def __init__(self) -> None:
        self._count = 0
        self._has_changed = False
        self._enough = 0
        self._done: asyncio.Future[None] | None = None
        self._listened_to: dict[Notifier, None] = {}

    def listen_to(self, notifier: Notifier) -> None:
        if notifier not in self._listened_to:
            self._listened_to[notifier] = None
            notifier.add_listener(self._appended)

    def wait(self, missing_bytes: int, max_wait_ms: int) -> asyncio.Future[None]:
        """Return a future that is done when ``missing_bytes`` were counted in total, or ``max_wait_ms`` passed."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._enough, self._done = missing_bytes, done
        timer = loop.call_later(max_wait_ms / 1000, self._end)

        def ended(_: asyncio.Future[None]) -> None:
            timer.cancel()
            self.stop()

        done.add_done_callback(ended)
        self._end_if_enough()
        return done

    def stop(self) -> None:
        for notifier in self._listened_to:
            notifier.remove_listener(self._appended)
        self._listened_to.clear()

    def _appended(self, count: int) -> None:
        self._count += count
        self._has_changed = self._has_changed or count == 0
        self._end_if_enough()

    def _end_if_enough(self) -> None:
        if self._has_changed or self._count >= self._enough:
            self._end()

    def _end(self) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(None)


def wait_for_bytes(notifiers: Iterable[Notifier], missing_bytes: int, max_wait_ms: int) -> asyncio.Future[None]:
    """Return a future that is done when ``missing_bytes`` more were appended in total, or ``max_wait_ms`` passed.

    Appends count from this call on, even before the result is awaited. A partition that is removed or changes its
    leader ends the wait, too (it notifies with 0 bytes).
    """
    appended = AppendedBytes()
    for notifier in notifiers:
        appended.listen_to(notifier)
    return appended.wait(missing_bytes, max_wait_ms)
