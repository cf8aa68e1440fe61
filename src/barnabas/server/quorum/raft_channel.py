"""Sends the quorum's requests to other controllers, and returns the results to the driver.

It opens one connection to each address when a request needs it, and opens it again after it ended. It does not repeat
requests: the raft node decides how to handle a failure, and when.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from typing import TYPE_CHECKING

from barnabas.clients.client_config import Address
from barnabas.clients.errors import AuthenticationFailed, ClientError, InvalidClientConfig, UnsupportedVersion
from barnabas.clients.network_client import NetworkClient
from barnabas.common.errors import ErrorCode
from barnabas.protocol.errors import EncodeError
from barnabas.raft.inbound import RaftResponse, RequestFailed
from barnabas.server.listeners.controller_client_config import controller_client_config
from barnabas.server.start_errors import NodeStartError

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.raft.ready import OutboundRequest
    from barnabas.server.settings.node_config import NodeConfig

__all__ = ["RaftChannel"]

log = logging.getLogger(__name__)

_NO_RIGHT = (
    "the principal of this node at that controller needs CLUSTER_ACTION on the cluster -> add it to super.users of the "
    "controllers, or give it an ACL"
)


class RaftChannel:
    """The driver calls ``send``. Every request results in one call of ``handle_outcome``."""

    def __init__(self, config: NodeConfig, handle_outcome: Callable[[RaftResponse | RequestFailed], None]) -> None:
        """Raise NodeStartError if no client can be created from the settings of the controller listener."""
        client = controller_client_config(
            config,
            client_id=f"raft-client-{config.node_id}",
            request_timeout_ms=config.controller_quorum_request_timeout_ms,
        )
        try:
            self._client = NetworkClient(client)
        except InvalidClientConfig as error:
            raise NodeStartError(f"this node can't connect to other controllers: {error}") from error
        self._handle_outcome = handle_outcome
        self._under_way: set[asyncio.Task[None]] = set()
        self._unreachable: set[Address] = set()
        self._is_closed = False

    def send(self, request: OutboundRequest) -> None:
        task = asyncio.get_running_loop().create_task(self._exchange(request))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def close(self) -> None:
        """Close all connections. No further outcome is reported."""
        self._is_closed = True
        for task in tuple(self._under_way):
            task.cancel()
        await self._client.close()

    async def _exchange(self, request: OutboundRequest) -> None:
        outcome = await self._outcome(request)
        if not self._is_closed:
            self._handle_outcome(outcome)

    async def _outcome(self, request: OutboundRequest) -> RaftResponse | RequestFailed:
        address = Address(request.endpoint.host, request.endpoint.port)
        try:
            connection = await self._client.connection_to(address)
            response = await connection.request(request.body, timeout_s=request.timeout_ms / 1000)
        except (UnsupportedVersion, EncodeError) as error:
            # A pre-vote, for example, can't be sent to a peer that supports only real votes.
            log.debug("%s can't be sent to %s: %s", type(request.body).__name__, address, error)
            return RequestFailed(request.correlation_id, request.destination_id, is_unsupported_version=True)
        except ClientError as error:
            self._log_problem(address, error)
            return RequestFailed(request.correlation_id, request.destination_id, is_refused=_is_refused(error))
        if getattr(response, "error_code", 0) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            self._log_problem(address, AuthenticationFailed(_NO_RIGHT))
        elif address in self._unreachable:
            self._unreachable.discard(address)
            log.info("the controller at %s answers again", address)
        return RaftResponse(request.correlation_id, request.destination_id, response)

    def _log_problem(self, address: Address, error: ClientError) -> None:
        """Log that a controller became unreachable; repetitions are not logged."""
        if address in self._unreachable:
            return
        self._unreachable.add(address)
        level = logging.ERROR if isinstance(error, AuthenticationFailed) else logging.INFO
        log.log(level, "the controller at %s can't be reached: %s", address, error)


def _is_refused(error: ClientError) -> bool:
    """Return whether every address of the name refused the connection."""
    cause = error.__cause__
    if isinstance(cause, ConnectionRefusedError):
        return True
    reasons = str(cause).removeprefix("Multiple exceptions: ").split(", [")
    return isinstance(cause, OSError) and all(f"Errno {errno.ECONNREFUSED}]" in reason for reason in reasons)
