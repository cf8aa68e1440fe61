"""Sends one request to one controller over up to two connections, and takes the first answer.

If a controller hangs or a network drops packets, the connection stays open without an answer. A short request (a
heartbeat) that is not answered in time is therefore sent again over another connection, while the first one may still
answer. A slow controller is not disturbed, and a controller behind a broken connection is reached over the other.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeAlias

from barnabas.clients.errors import RequestTimedOut

if TYPE_CHECKING:
    from barnabas.broker.attempt_limit import AttemptLimit
    from barnabas.clients.client_config import Address
    from barnabas.clients.network_client import NetworkClient
    from barnabas.clients.node_connection import NodeConnection
    from barnabas.protocol.schema import Message
    from barnabas.server.controller_channel.calls import WaitingCall

__all__ = ["ControllerConnection", "Exchange"]

_Pending: TypeAlias = "dict[asyncio.Task[Message | Exception], ControllerConnection]"


class ControllerConnection:
    """One connection at a time, to whichever controller is active."""

    __slots__ = ("connection",)

    def __init__(self) -> None:
        self.connection: NodeConnection | None = None

    async def connect(self, client: NetworkClient, address: Address) -> NodeConnection:
        known = self.connection
        if known is not None and known.is_open and known.address == address:
            return known
        await self.hang_up()
        self.connection = await client.open(address)
        return self.connection

    async def hang_up(self) -> None:
        known, self.connection = self.connection, None
        if known is not None:
            await known.close()


class Exchange:
    """A call that is being sent to one controller."""

    __slots__ = ("_timeout", "address", "call", "connection", "has_ended", "is_bypassed", "was_sent")

    def __init__(self, call: WaitingCall[Message], connection: ControllerConnection, address: Address) -> None:
        self.call = call
        self.connection = connection
        self.address = address
        self.was_sent = False
        self.is_bypassed = False
        """Whether the answer arrived over another connection than the first."""
        self.has_ended = False
        self._timeout: asyncio.Timeout | None = None

    async def run(self, client: NetworkClient, attempts: AttemptLimit | None) -> Message:
        """Send the request and return its answer. ``attempts`` limits each connection before another one is tried.

        Raise RequestTimedOut if ``end`` is called, and the errors of a request.
        """
        try:
            async with asyncio.timeout(0 if self.has_ended else None) as self._timeout:
                if attempts is None:
                    return await self._ask(client, self.connection)
                return await self._first_answer(client, attempts)
        except TimeoutError as error:
            raise RequestTimedOut(f"gave up waiting for an answer from {self.address}") from error
        finally:
            self._timeout = None

    def end(self) -> None:
        """Stop waiting: close the connection, and count the call as lost."""
        self.has_ended = True
        if self._timeout is not None and not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time())

    async def _ask(self, client: NetworkClient, by: ControllerConnection) -> Message:
        connection = await by.connect(client, self.address)
        message = self.call.message(connection.versions)
        self.was_sent = True
        return await connection.request(message)

    async def _outcome(self, client: NetworkClient, by: ControllerConnection) -> Message | Exception:
        """Return the result or the error of ``_ask`` as a value: the task's caller may have left."""
        try:
            return await self._ask(client, by)
        except Exception as error:
            return error

    async def _first_answer(self, client: NetworkClient, attempts: AttemptLimit) -> Message:
        pending: _Pending = {}
        number, by, kept = 0, self.connection, None
        try:
            while True:
                number += 1
                pending[asyncio.get_running_loop().create_task(self._outcome(client, by))] = by
                answer = await _first_of(pending, attempts.of(number) / 1000)
                if answer is not None:
                    response, by = answer
                    self.is_bypassed = by is not self.connection
                    kept, by.connection = by.connection, None
                    return response
                if len(pending) > 1:
                    await _drop(pending, next(iter(pending)))
                by = ControllerConnection()
        finally:
            for task in list(pending):
                await _drop(pending, task)
            if kept is not None:
                await self.connection.hang_up()
                self.connection.connection = kept


async def _first_of(pending: _Pending, limit_s: float) -> tuple[Message, ControllerConnection] | None:
    """Return the first answer and its connection, which is no longer pending; None after the limit.

    If all fail, raise the error of the last one.
    """
    while True:
        done, _ = await asyncio.wait(pending, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            return None
        for task in done:
            outcome = task.result()
            if not isinstance(outcome, Exception):
                return outcome, pending.pop(task)
            await _drop(pending, task)
            if not pending:
                raise outcome


async def _drop(pending: _Pending, task: asyncio.Task[Message | Exception]) -> None:
    by = pending.pop(task)
    if not task.done():
        task.cancel()
        await asyncio.wait([task])
    await by.hang_up()
