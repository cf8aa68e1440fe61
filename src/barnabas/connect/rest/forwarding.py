"""Forward requests to the worker that answers them: the leader, or the one that runs the connector or task.

The herder names that worker. The ``forward`` parameter limits the hops: a request without it is sent on with
``forward=true``, and that one with ``forward=false``, which is not forwarded again. A third hop means a rebalance, and
gets 409. The status and the message of the answer are returned unchanged.

Only ``Authorization`` is passed on. A user with a certificate has none, so the worker vouches for the user
in the freshness header, which contains name and role, signed with the session key (``request_freshness``).

During a rebalance no worker is responsible. Where Kafka then returns 409 (500 to a plain GET), a request here waits
until the rebalance is over, but not longer than ``barnabas.connect.request.wait.ms``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar
from urllib.parse import urlencode

from barnabas.connect.decide.herder.herder import Herder
from barnabas.connect.errors import ConnectError, NotAssigned, NotLeader, RebalanceNeeded, RequestFailed
from barnabas.connect.rest.internal_client import Answer, InternalClient
from barnabas.connect.rest.request_freshness import SentRequest

__all__ = ["Forwardable", "Forwarder", "conflict"]

T = TypeVar("T")

_CONFLICT = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
_NO_LEADER = "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway."
_PAUSE_S = 0.05
_ONE_WORKER_S = 5.0


def conflict() -> ConnectError:
    return RebalanceNeeded(_CONFLICT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forwardable:
    """A request to forward. ``path`` is encoded; ``forward`` is its parameter, or None.

    ``user`` and ``role`` are vouched for; they are empty where ``authorization`` identifies the user.
    """

    method: str
    path: str
    query: Mapping[str, str]
    body: bytes | None
    forward: bool | None
    authorization: str | None = None
    user: str = ""
    role: str = ""


class Forwarder:
    """``now_s`` is monotonic."""

    def __init__(self, herder: Herder, client: InternalClient, *, wait_s: float, now_s: Callable[[], float]) -> None:
        self._herder = herder
        self._client = client
        self._wait_s = wait_s
        self._now_s = now_s

    async def settled(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Return the operation's result, once the group is stable enough for it. Raises its ConnectErrors."""
        deadline_s = self._now_s() + self._wait_s
        while True:
            try:
                return await operation()
            except RebalanceNeeded:
                if not await self._rebalance_over(deadline_s):
                    raise conflict() from None

    async def complete(self, request: Forwardable, operation: Callable[[], Awaitable[T]]) -> T | Answer:
        """Return the local result, or the answer of the responsible worker. Raises ConnectErrors."""
        deadline_s = self._now_s() + self._wait_s
        while True:
            try:
                return await operation()
            except RebalanceNeeded:
                if not await self._rebalance_over(deadline_s):
                    raise conflict() from None
            except (NotLeader, NotAssigned) as error:
                if request.forward is False:
                    raise conflict() from None
                if error.url is not None:
                    return await self._send(request, error.url)
                if not await self._rebalance_over(deadline_s):
                    raise RebalanceNeeded(_NO_LEADER) from None

    async def ask_worker(self, request: Forwardable, url: str) -> Answer:
        """Return the answer of one worker for itself alone (``scope=worker``). Raise RequestFailed."""
        own = replace(request, query={**request.query, "scope": "worker"}, forward=True)
        try:
            async with asyncio.timeout(_ONE_WORKER_S):
                return await self._send(own, url)
        except TimeoutError:
            raise RequestFailed(504, f"It did not answer within {_ONE_WORKER_S:g} s.") from None

    async def _send(self, request: Forwardable, url: str) -> Answer:
        query = {**request.query, "forward": "true" if request.forward is None else "false"}
        target = f"{request.path}?{urlencode(query)}"
        headers = {} if request.authorization is None else {"Authorization": request.authorization}
        if request.user:
            sent = SentRequest(method=request.method, target=target, worker_url=url, body=request.body or b"")
            headers |= self._client.freshness_header(sent, user=request.user, role=request.role)
        return await self._client.send(request.method, url, target, request.body, headers)

    async def _rebalance_over(self, deadline_s: float) -> bool:
        """Wait for the end of a rebalance. Return whether time is left for another attempt."""
        left_s = deadline_s - self._now_s()
        if left_s <= 0:
            return False
        try:
            async with asyncio.timeout(left_s):
                await self._herder.rebalance_over()
        except TimeoutError:
            return False
        # The herder may see the end of a rebalance before its results, so don't retry immediately.
        await asyncio.sleep(min(_PAUSE_S, left_s))
        return True
