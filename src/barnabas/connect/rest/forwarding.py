"""Requests that another worker answers: the leader, or the one that runs the connector or task.

The herder says who it is. How far a request may still go is in its ``forward`` parameter: without it, it is sent on
with ``forward=true``; with that, once more with ``forward=false``; and then not any more: who asks for the third time
has met a rebalance, and gets 409. The status and the message of the answer are handed on as they came.

Only ``Authorization`` is passed on. A user known by a certificate has none, so the worker vouches for him: with the
freshness header, which names him and his role under the session key (``request_freshness``).

During a rebalance no worker is responsible. Where Kafka then says 409 (500 to a plain GET), a request here waits until
the rebalance is over, but not longer than ``barnabas.connect.request.wait.ms``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlencode

from barnabas.connect.decide.herder.herder import Herder
from barnabas.connect.errors import ConnectError, NotAssigned, NotLeader, RebalanceNeeded
from barnabas.connect.rest.internal_client import Answer, InternalClient
from barnabas.connect.rest.request_freshness import SentRequest

__all__ = ["Forwardable", "Forwarder", "conflict"]

T = TypeVar("T")

_CONFLICT = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
_NO_LEADER = "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway."
_PAUSE_S = 0.05


def conflict() -> ConnectError:
    return RebalanceNeeded(_CONFLICT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forwardable:
    """A request as it is sent on. ``path`` is encoded; ``forward`` is what the request says, None for nothing.

    ``user`` and ``role`` are those to vouch for, empty where ``authorization`` says who asks.
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
    """``now_s`` only goes forward."""

    def __init__(self, herder: Herder, client: InternalClient, *, wait_s: float, now_s: Callable[[], float]) -> None:
        self._herder = herder
        self._client = client
        self._wait_s = wait_s
        self._now_s = now_s

    async def settled(self, operation: Callable[[], Awaitable[T]]) -> T:
        """The operation's result, once the group is stable enough for it. Raises its ConnectErrors."""
        deadline_s = self._now_s() + self._wait_s
        while True:
            try:
                return await operation()
            except RebalanceNeeded:
                if not await self._rebalance_over(deadline_s):
                    raise conflict() from None

    async def complete(self, request: Forwardable, operation: Callable[[], Awaitable[T]]) -> T | Answer:
        """The operation's result here, or the answer of the responsible worker. Raises ConnectErrors."""
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

    async def _send(self, request: Forwardable, url: str) -> Answer:
        query = {**request.query, "forward": "true" if request.forward is None else "false"}
        target = f"{request.path}?{urlencode(query)}"
        headers = {} if request.authorization is None else {"Authorization": request.authorization}
        if request.user:
            sent = SentRequest(method=request.method, target=target, worker_url=url, body=request.body or b"")
            headers |= self._client.freshness_header(sent, user=request.user, role=request.role)
        return await self._client.send(request.method, url, target, request.body, headers)

    async def _rebalance_over(self, deadline_s: float) -> bool:
        """Whether time is left for another try."""
        left_s = deadline_s - self._now_s()
        if left_s <= 0:
            return False
        try:
            await asyncio.wait_for(self._herder.rebalance_over(), left_s)
        except TimeoutError:
            return False
        # The herder may see the end of a rebalance before what comes of it; it is not asked again at once.
        await asyncio.sleep(min(_PAUSE_S, left_s))
        return True
