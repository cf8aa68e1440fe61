"""Shares the loop's time between connections that always have another request.

A caller may use a few milliseconds of each short window immediately, which is more than well-behaved clients need.
Requests beyond that wait in a rotation: connections have turns of up to a millisecond, callers alternate, and
everything else that is ready runs between two turns. Connections with few requests share a turn. So a flood over many
connections delays other clients by the rest of one turn, not by a turn for each connection.
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
_SHARING_MAX = 100
"""Connections in one turn."""


def call_after_others(run: Callable[[], None]) -> object:
    """The loop runs ready callbacks before it reads from sockets; after a hop, ``run`` is called after both."""
    loop = asyncio.get_running_loop()
    return loop.call_soon(loop.call_soon, run)


class Waiting(Protocol):
    """A connection with waiting requests."""

    def take_turn(self) -> bool:
        """Handle requests for about ``TURN_S``. Return True while more requests can be handled."""
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

    def __init__(
        self, call_soon: Callable[[Callable[[], None]], object] | None = None, *, turn_s: float = TURN_S
    ) -> None:
        """``call_soon`` is that of the running loop by default. A turn ends after ``turn_s`` seconds."""
        self._call_soon = call_soon or call_after_others
        self._turn_s = turn_s
        self._accounts: dict[Hashable, Account] = {}
        self._rotation: FairQueue[tuple[Hashable, Waiting]] = FairQueue()
        self._is_scheduled = False

    def account(self, caller: Hashable) -> Account:
        known = self._accounts.get(caller)
        if known is None:
            if len(self._accounts) >= _ACCOUNTS_MAX:
                self._accounts.clear()  # Connections keep their accounts; only new ones share a new account.
            known = self._accounts[caller] = Account()
        return known

    def wait(self, caller: Hashable, connection: Waiting) -> None:
        """Queue the connection for its turn, after those that wait already."""
        self._rotation.put(caller, (caller, connection))
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._next)

    def _next(self) -> None:
        self._is_scheduled = False
        now = asyncio.get_running_loop().time
        end_of_turn = now() + self._turn_s
        going_on: list[tuple[Hashable, Waiting]] = []
        try:
            for _ in range(_SHARING_MAX):
                caller, connection = self._rotation.pop()
                if connection.take_turn():
                    going_on.append((caller, connection))
                if not self._rotation or now() >= end_of_turn:
                    break
        finally:
            for caller, connection in going_on:
                self._rotation.put(caller, (caller, connection))
            if self._rotation:
                self._schedule()
