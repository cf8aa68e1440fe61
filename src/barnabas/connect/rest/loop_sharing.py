"""How the worker's loop is shared between the connections of the REST API.

A connection that uses little of the loop's time is served immediately. Connections that use more than their share are
served one at a time. After each turn follows a pause in proportion to its time, so that requests of other connections
find the loop free. While no other connection is active no pause is needed: one busy client has the whole loop.

A new connection costs its client nothing, so all connections without an answer yet count as one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from time import perf_counter, thread_time
from types import coroutine
from typing import Any, Protocol

from barnabas.network.fair_scheduling import FairQueue, pause_after
from barnabas.network.loop_scheduler import call_after_others

__all__ = ["Account", "LoopSharing", "Waiting"]

_WINDOW_S = 0.1
_SHARED_S = _WINDOW_S / 2
"""All accounts together may use this much of a window before one of them must wait."""
_SHARES_MIN = 5


class Waiting(Protocol):
    """A connection with data that waits to be parsed."""

    account: Account

    def take_turn(self) -> bool:
        """Process some data. Return True while more data is ready."""
        ...


class Account:
    """The time that one connection has used of the current window."""

    __slots__ = ("used_s", "window")

    def __init__(self) -> None:
        self.window = -1
        self.used_s = 0.0


class LoopSharing:
    """Shares one loop. ``now_s`` is a monotonic clock; ``spent_s`` is the CPU time of the thread, so that no
    connection pays for other threads and processes."""

    def __init__(
        self,
        now_s: Callable[[], float] = perf_counter,
        spent_s: Callable[[], float] = thread_time,
        call_later: Callable[[float, Callable[[], None]], object] | None = None,
    ) -> None:
        """``call_later`` is that of the running loop by default."""
        self.newcomers = Account()
        """The account of all connections without an answer yet."""
        self._now_s = now_s
        self._spent_s = spent_s
        self._call_later = call_later or _call_later
        self._waiting: FairQueue[Waiting] = FairQueue()
        self._is_scheduled = False
        self._free_at_s = 0.0
        self._window = -1
        self._active: set[Account] = set()
        self._active_before = 0

    def must_wait(self, account: Account) -> bool:
        """Return whether the data of this account must ``wait``."""
        now_s = self._now_s()
        if not self._is_overdrawn(account, now_s):
            return False
        return bool(self._waiting) or now_s < self._free_at_s

    def wait(self, connection: Waiting) -> None:
        """Queue for a turn, after those already waiting."""
        self._waiting.put(connection.account, connection)
        self._schedule()

    def charge(self, account: Account, seconds: float) -> None:
        now_s = self._now_s()
        is_overdrawn = self._is_overdrawn(account, now_s)
        self._active.add(account)
        account.used_s += seconds
        if is_overdrawn and self._accounts > 1:
            self._free_at_s = max(self._free_at_s, now_s) + pause_after(seconds)

    def charged(self, account: Account, work: Callable[[], object]) -> None:
        """Run ``work`` and charge its time to the account."""
        began_s = self._spent_s()
        try:
            work()
        finally:
            self.charge(account, self._spent_s() - began_s)

    @coroutine
    def steps_charged(self, account: Callable[[], Account], work: Awaitable[object]) -> Generator[Any, Any, Any]:
        """Return or raise the result of ``work``; the account pays for its steps on the loop."""
        steps = work.__await__()
        send: Callable[[Any], Any] = steps.send
        argument: Any = None
        while True:
            paid_by, began_s = account(), self._spent_s()
            try:
                waits_for = send(argument)
            except StopIteration as ended:
                return ended.value
            finally:
                self.charge(paid_by, self._spent_s() - began_s)
            try:
                argument = yield waits_for
                send = steps.send
            except BaseException as error:  # Mainly a cancellation: it is thrown into the work.
                argument, send = error, steps.throw

    @property
    def _accounts(self) -> int:
        """Return the accounts that were used recently."""
        return max(len(self._active), self._active_before)

    def _is_overdrawn(self, account: Account, now_s: float) -> bool:
        self._turn_window(now_s)
        if account.window != self._window:
            account.window = self._window
            account.used_s = 0.0
        return account.used_s >= _SHARED_S / max(self._accounts, _SHARES_MIN)

    def _turn_window(self, now_s: float) -> None:
        window = int(now_s / _WINDOW_S)
        if window != self._window:
            self._active_before = len(self._active) if window == self._window + 1 else 0
            self._active = set()
            self._window = window

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._call_later(self._free_at_s - self._now_s(), self._next)

    def _next(self) -> None:
        self._is_scheduled = False
        if self._now_s() >= self._free_at_s:  # Work begun in the last turn may have cost more meanwhile.
            connection = self._waiting.pop()
            try:
                if connection.take_turn():
                    self._waiting.put(connection.account, connection)
            except BaseException:
                if self._waiting:
                    self._schedule()
                raise
        if self._waiting:
            self._schedule()


def _call_later(delay_s: float, run: Callable[[], None]) -> object:
    return asyncio.get_running_loop().call_later(delay_s, run) if delay_s > 0 else call_after_others(run)
