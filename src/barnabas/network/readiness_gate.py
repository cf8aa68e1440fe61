"""Holds requests until the authorizer can decide for all principals.

A listener that opens early (``early.start.listeners``) has this gate before its dispatcher while the metadata log is
being read. Requests of super users are answered immediately; every other request waits, and with it later ones of its
connection. A request that waits too long receives a retriable error. No answer rests on an incomplete set of rules.

Requests for the content of the log also wait if a super user sends them: an empty list of ACLs or topics, from a node
that has not read the log yet, would look like an empty cluster.

When the authorizer is ready, the listener's ``processor`` becomes the dispatcher itself: from then on requests do not
pass this gate.
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

__all__ = ["ANSWERED_FROM_THE_LOG", "HOLD_TIMEOUT_S", "ReadinessGate"]

HOLD_TIMEOUT_S = 30.0
"""Kafka clients wait this long for an answer by default."""

ANSWERED_FROM_THE_LOG = frozenset(
    {
        ApiKey.METADATA,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.DESCRIBE_ACLS,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.FIND_COORDINATOR,
        ApiKey.LIST_CONFIG_RESOURCES,
        ApiKey.LIST_GROUPS,
        ApiKey.LIST_TRANSACTIONS,
        ApiKey.OFFSET_FETCH,
        ApiKey.SHARE_GROUP_DESCRIBE,
        ApiKey.STREAMS_GROUP_DESCRIBE,
    }
)
"""DescribeCluster and DescribeQuorum do not wait: with them a client finds the nodes of a stuck quorum."""

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
        if self._ready.is_set() or self._may_pass(frame, connection.principal):
            return self.dispatcher.process(connection, frame)
        return self._hold(connection, frame)

    async def _hold(self, connection: Connection, frame: bytearray) -> Answer:
        refusal = None
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._ready.wait()
        except TimeoutError:
            refusal = ApiException(
                ErrorCode.REQUEST_TIMED_OUT, "The node has not finished reading its metadata log; try again."
            )
        answer = self.dispatcher.process(connection, frame, refusal)
        return await answer if isinstance(answer, Awaitable) else answer

    def _may_pass(self, frame: bytearray, principal: Principal) -> bool:
        """ApiVersions needs no access; the dispatcher refuses a frame too short for a header."""
        if len(frame) < _KEY.size:
            return True
        (key,) = _KEY.unpack_from(frame)
        return key == ApiKey.API_VERSIONS or (key not in ANSWERED_FROM_THE_LOG and self._is_ready_for(principal))
