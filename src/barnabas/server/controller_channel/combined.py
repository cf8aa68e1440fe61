"""Sends requests of a node's broker to the active controller: in process if it runs here, else over the network."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.network.response_errors import ResponseErrors
from barnabas.server.listeners.controller_client_config import controller_client_config

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.protocol.schema import Message, Request
    from barnabas.security.request_context import RequestContext
    from barnabas.server.controller_channel.in_process import InProcessChannel
    from barnabas.server.controller_channel.network import NetworkChannel
    from barnabas.server.node_core import NodeCore

__all__ = ["CombinedChannel", "network_channel"]

R = TypeVar("R", bound="Message")


def network_channel(core: NodeCore, serialize_principal: Callable[[RequestContext], bytes]) -> NetworkChannel:
    """Raise NodeStartError if no client can be created from the settings of the controller listener."""
    from barnabas.broker.forwarding_queue import LIMIT_MS  # The broker of the only controller does not load it.
    from barnabas.server.controller_channel.network import NetworkChannel

    config = core.config
    channel = NetworkChannel(
        controller_client_config(
            config,
            client_id=str(config.node_id),
            request_timeout_ms=min(config.controller_socket_timeout_ms, LIMIT_MS),
        ),
        leader=lambda: core.driver.node.leader_endpoint,
        clock=core.clock,
        serialize_principal=serialize_principal,
        lifecycle_limit_ms=config.broker_session_timeout_ms,
        heartbeat_interval_ms=config.broker_heartbeat_interval_ms,
        reach_offset=core.applied.reach,
    )
    core.on_leader_change.append(channel.leader_changed)
    return channel


class CombinedChannel:
    """Implements the broker's ``ControllerChannel`` for a node whose own controller may be the active one."""

    def __init__(
        self,
        own: InProcessChannel,
        controller: QuorumController,
        *,
        is_alone: Callable[[], bool],
        make_remote: Callable[[], NetworkChannel],
    ) -> None:
        """``is_alone``: no other controller could be the active one."""
        self._own = own
        self._controller = controller
        self._is_alone = is_alone
        self._make_remote = make_remote
        self._remote: NetworkChannel | None = None

    @property
    def remote(self) -> NetworkChannel | None:
        """The channel over the network; None until another controller was contacted."""
        return self._remote

    def versions(self) -> Mapping[int, tuple[int, int]] | None:
        return None if self._controller.is_active or self._remote is None else self._remote.versions()

    async def forward(self, request: Message, context: RequestContext) -> Message:
        answer = await self._ask_own(lambda: self._own.forward(request, context))
        return await self._other().forward(request, context) if answer is None else answer

    async def send(self, request: Request[R]) -> R:
        answer = await self._ask_own(lambda: self._own.send(request))
        return await self._other().send(request) if answer is None else answer

    async def close(self) -> None:
        if self._remote is not None:
            await self._remote.close()

    async def _ask_own(self, ask: Callable[[], Awaitable[R]]) -> R | None:
        """Return the own controller's answer; None if another controller must be contacted."""
        if self._is_alone():
            return await ask()
        if not self._controller.is_active:
            return None
        try:
            answer = await ask()
        except ApiException as error:
            if error.code is ErrorCode.NOT_CONTROLLER:
                return None
            raise
        return None if ErrorCode.NOT_CONTROLLER in ResponseErrors(type(answer)).of(answer) else answer

    def _other(self) -> NetworkChannel:
        if self._remote is None:
            self._remote = self._make_remote()
        return self._remote
