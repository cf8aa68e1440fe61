"""Shares the loop's time between connections that always have another request.

A caller has a few milliseconds in each short window at once, which is more than well-behaved clients need. Requests
beyond that wait in a rotation: one connection at a time has a turn of a millisecond, callers alternate, and
everything else that is ready runs between two turns. So a flood over many connections delays others by what is left of
one turn, not by one for each connection.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from barnabas.network.fair_scheduling import FairQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

__all__ = ["TURN_S", "Account", "LoopShare", "Waiting", "call_after_others"]

TURN_S = 0.001
_WINDOW_S = 0.02
_SHARE_S = 0.004
_ACCOUNTS_MAX = 4096


def call_after_others(run: Callable[[], None]) -> object:
    """The loop runs what is ready before what it reads from sockets; behind a hop, ``run`` comes after both."""
    loop = asyncio.get_running_loop()
    return loop.call_soon(loop.call_soon, run)


class Waiting(Protocol):
    """A connection with requests that wait."""

    def take_turn(self) -> bool:
        """Handle requests for about ``TURN_S``. True while more are waiting that can be handled."""
        ...


class Account:
    """The time that one caller has used of the current window."""

    __slots__ = ("_ends_at", "_used_s")

    def __init__(self) -> None:
        self._ends_at = 0.0
        self._used_s = 0.0

    def is_overdrawn(self, now: float) -> bool:
        if now >= self._ends_at:
            self._ends_at = now + _WINDOW_S
            self._used_s = 0.0
            return False
        return self._used_s >= _SHARE_S

    def charge(self, seconds: float) -> None:
        self._used_s += seconds


class LoopShare:
    """The share of one loop: the accounts of its callers, and the rotation."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object] | None = None) -> None:
        """``call_soon`` is that of the running loop unless another is given."""
        self._call_soon = call_soon or call_after_others
        self._accounts: dict[Hashable, Account] = {}
        self._rotation: FairQueue[tuple[Hashable, Waiting]] = FairQueue()
        self._is_scheduled = False

    def account(self, caller: Hashable) -> Account:
        known = self._accounts.get(caller)
        if known is None:
            if len(self._accounts) >= _ACCOUNTS_MAX:
                self._accounts.clear()  # Connections keep theirs; only new ones share a fresh one.
            known = self._accounts[caller] = Account()
        return known

    def wait(self, caller: Hashable, connection: Waiting) -> None:
        """The connection has its turn when those of others before it are over."""
        self._rotation.put(caller, (caller, connection))
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._next)

    def _next(self) -> None:
        self._is_scheduled = False
        caller, connection = self._rotation.pop()
        try:
            goes_on = connection.take_turn()
        finally:
            if self._rotation:
                self._schedule()
        if goes_on:
            self.wait(caller, connection)
