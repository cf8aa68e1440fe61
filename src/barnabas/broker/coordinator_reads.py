"""Delays reads of a coordinator's state until it is certain that no other broker coordinates instead.

Reads wait only if this broker may have lost its session, because it was frozen or isolated. The broker then contacts
its followers and the controller immediately, so that a healthy broker answers after a round trip. ``LeadershipRead``
decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from barnabas.broker.replication.linearizable_read import LeadershipRead

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Set

    from barnabas.broker.coordinator_host import CoordinatorHost
    from barnabas.broker.replication.leader_replica import LeaderReplica
    from barnabas.broker.replication.read_rounds import ReadRounds
    from barnabas.broker.session_lease import SessionLease

__all__ = ["CoordinatorReads"]

K = TypeVar("K", bound=Hashable)

_TIMEOUT_S = 2.0
"""Shorter than the request time-out of clients, so that they search for the coordinator again before they give up."""
_BETWEEN_HEARTBEATS_S = 0.1


class CoordinatorReads:
    def __init__(self, lease: SessionLease, rounds: ReadRounds, *, hurry_heartbeat: Callable[[], None]) -> None:
        self._lease = lease
        self._rounds = rounds
        self._hurry_heartbeat = hurry_heartbeat
        self._hurried_s = -inf
        self._waiting: dict[LeadershipRead, asyncio.Future[None]] = {}
        lease.on_held = rounds.on_fetch = self.recheck

    @property
    def are_safe(self) -> bool:
        """Whether no other broker can lead instead of this one. This is true nearly always."""
        return self._lease.holds(asyncio.get_running_loop().time())

    def confirm_keys(self, host: CoordinatorHost[Any], partition_for: Mapping[K, int]) -> Awaitable[Set[K]] | None:
        """Return an awaitable to await before the state of these keys is sent; None if it may be sent immediately.

        It returns the keys whose state must not be sent. If that of the others is sent without another wait in between,
        no other coordinator can have replaced this one before. ``partition_for``: the partition of each key.
        """
        if self.are_safe:
            return None
        # A partition without a leader replica has this broker as its only replica.
        leaders = {
            partition: leader
            for partition in partition_for.values()
            if (leader := host.leader_replica(partition)) is not None
        }
        return self._unconfirmed(partition_for, leaders) if leaders else None

    async def _unconfirmed(self, partition_for: Mapping[K, int], leaders: Mapping[int, LeaderReplica]) -> Set[K]:
        refused = await self.confirm(leaders)
        return {key for key, partition in partition_for.items() if partition in refused}

    async def confirm(self, leaders: Mapping[int, LeaderReplica]) -> set[int]:
        """Return the partitions whose leadership could not be confirmed. Call it if ``are_safe`` is false."""
        loop = asyncio.get_running_loop()
        read = LeadershipRead(leaders, read_round=self._rounds.begin(), deadline_s=loop.time() + _TIMEOUT_S)
        if read.is_decided(loop.time(), self._lease.until_s):
            return read.refused
        future = self._waiting[read] = loop.create_future()
        self._rounds.is_awaited = True
        self._ask(leaders, loop.time())
        timer = loop.call_later(_TIMEOUT_S, self.recheck)
        try:
            await future
        finally:
            timer.cancel()
            self._waiting.pop(read, None)
            self._rounds.is_awaited = bool(self._waiting)
        return read.refused

    def _ask(self, leaders: Mapping[int, LeaderReplica], now_s: float) -> None:
        for leader in leaders.values():
            leader.call_followers()
        if now_s - self._hurried_s >= _BETWEEN_HEARTBEATS_S:
            self._hurried_s = now_s
            self._hurry_heartbeat()

    def recheck(self) -> None:
        """Check the waiting reads again, after a change that may confirm them or after a time-out."""
        if not self._waiting:
            return
        now_s, until_s = asyncio.get_running_loop().time(), self._lease.until_s
        for read, future in tuple(self._waiting.items()):
            if not future.done() and read.is_decided(now_s, until_s):
                future.set_result(None)

    def stop(self) -> None:
        """Refuse the waiting reads: another broker will coordinate."""
        for read in self._waiting:
            read.give_up()
        self.recheck()
