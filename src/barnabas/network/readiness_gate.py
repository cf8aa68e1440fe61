"""Holds the requests that come before the authorizer can answer for everybody.

A listener that opens early (``early.start.listeners``) has this in front of its dispatcher while the rules are being
read: who can be answered already (super users) is; everybody else's request waits, and with it those behind it on the
same connection. What waits too long gets an error to retry. Nobody gets an answer that rests on half of the rules.

When the authorizer is ready, the listener's ``processor`` becomes the dispatcher itself: from then on nothing of this
is on the way of a request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from struct import Struct
from typing import TYPE_CHECKING

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.network.connection import Answer, Connection
    from barnabas.network.request_dispatcher import RequestDispatcher
    from barnabas.security.principal import Principal

__all__ = ["HOLD_TIMEOUT_S", "ReadinessGate"]

HOLD_TIMEOUT_S = 30.0
"""Kafka clients wait this long for an answer by default."""

_KEY = Struct(">h")


class ReadinessGate:
    """A listener's processor until ``ready`` is set."""

    def __init__(
        self,
        dispatcher: RequestDispatcher,
        *,
        ready: asyncio.Event,
        is_ready_for: Callable[[Principal], bool],
        timeout_s: float = HOLD_TIMEOUT_S,
    ) -> None:
        self.dispatcher = dispatcher
        self._ready = ready
        self._is_ready_for = is_ready_for
        self._timeout_s = timeout_s

    def process(self, connection: Connection, frame: bytearray) -> Answer | Awaitable[Answer]:
        if self._ready.is_set() or self._needs_no_decision(frame) or self._is_ready_for(connection.principal):
            return self.dispatcher.process(connection, frame)
        return self._hold(connection, frame)

    async def _hold(self, connection: Connection, frame: bytearray) -> Answer:
        refusal = None
        try:
            await asyncio.wait_for(self._ready.wait(), self._timeout_s)
        except TimeoutError:
            refusal = ApiException(
                ErrorCode.REQUEST_TIMED_OUT, "The node has not finished reading its access rules; try again."
            )
        answer = self.dispatcher.process(connection, frame, refusal)
        return await answer if isinstance(answer, Awaitable) else answer

    def _needs_no_decision(self, frame: bytearray) -> bool:
        """ApiVersions is for everybody; a frame too short for a header is for the dispatcher to refuse."""
        return len(frame) < _KEY.size or _KEY.unpack_from(frame)[0] == ApiKey.API_VERSIONS
