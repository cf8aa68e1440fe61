"""Send the heartbeats of a membership to the coordinator of its group, which is looked up again when it has moved."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from barnabas.clients.errors import ClientError
from barnabas.clients.membership.membership import Answer
from barnabas.common.errors import Transient

if TYPE_CHECKING:
    from barnabas.clients.consumer.group_coordinator import GroupCoordinator
    from barnabas.protocol.schema import Request

__all__ = ["Heartbeats"]


class _Membership(Protocol):
    def due_ms(self) -> int | None: ...
    def request(self, now_ms: int) -> Request[Any]: ...
    def receive(self, response: Any, now_ms: int) -> Answer: ...
    def unanswered(self, now_ms: int) -> None: ...


class Heartbeats:
    def __init__(self, coordinator: GroupCoordinator, membership: _Membership, answered: Callable[[], None]) -> None:
        """``answered`` is called after each answer that the membership has taken."""
        self._coordinator = coordinator
        self._membership = membership
        self._answered = answered
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Look again when the next heartbeat is due."""
        self._woken.set()

    async def run(self) -> None:
        """Send heartbeats until one is refused. Raise AdminError, ClientError."""
        while True:
            self._woken.clear()
            due_ms, now_ms = self._membership.due_ms(), self._now_ms()
            if due_ms is not None and due_ms <= now_ms:
                await self._beat(now_ms)
                continue
            try:
                async with asyncio.timeout(None if due_ms is None else (due_ms - now_ms) / 1000):
                    await self._woken.wait()
            except TimeoutError:
                pass

    async def _beat(self, now_ms: int) -> None:
        try:
            response = await self._coordinator.request(self._membership.request(now_ms))
        except ClientError as error:
            if not isinstance(error, Transient):
                raise
            self._membership.unanswered(self._now_ms())
            await self._coordinator.drop_connection()
            return
        answer = self._membership.receive(response, self._now_ms())
        if answer is Answer.COORDINATOR_MOVED:
            await self._coordinator.drop_connection()
        self._answered()

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)
