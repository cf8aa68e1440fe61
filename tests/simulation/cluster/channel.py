"""How nodes speak to each other: raft's messages between replicas, and a broker's calls to the active controller.

Every message travels as bytes in the newest version; nothing is shared between two nodes but what came over the wire.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.raft.errors import NotLeaderException
from barnabas.raft.inbound import RaftResponse, RequestFailed
from barnabas.security.request_context import RequestContext

if TYPE_CHECKING:
    from barnabas.protocol.schema import Message
    from barnabas.raft.ready import OutboundRequest
    from tests.simulation.cluster.node import SimulatedNode

__all__ = ["SimulatedChannel", "call_controller", "deliver_raft_request"]

CALL_TIMEOUT_S = 2.0


# --- raft


def deliver_raft_request(source: SimulatedNode, request: OutboundRequest) -> None:
    world = source.world
    target_id = int(request.endpoint.host[1:])
    kind = type(request.body)
    version = kind.MAX_VERSION
    data = bytes(request.body.encode(version))
    owner = source.owner
    world.checks.sent(source, request.body)

    def to_source(action: Callable[[], None]) -> None:
        if source.owner is owner:
            source.act(lambda: _heard(action))

    def failed() -> None:
        failure = RequestFailed(request.correlation_id, request.destination_id)
        to_source(lambda: source.driver.handle_outcome(failure))

    def arrive() -> None:
        target = world.nodes.get(target_id)
        if target is None or not target.is_up:
            world.network.refuse(failed)
            return
        target.act(lambda: _answer_raft(source, target, request, kind.decode(data, version), to_source, failed))

    world.network.send(source.id, target_id, arrive, failed, may_double=True)


def _heard(action: Callable[[], None]) -> None:
    """A driver that is stopping hears nothing any more."""
    with suppress(NotLeaderException):
        action()


def _answer_raft(
    source: SimulatedNode,
    target: SimulatedNode,
    request: OutboundRequest,
    body: Message,
    to_source: Callable[[Callable[[], None]], None],
    failed: Callable[[], None],
) -> None:
    network = target.world.network
    version = type(body).MAX_VERSION
    try:
        answer = target.driver.handle_request(body, version)
    except NotLeaderException:
        network.refuse(failed)
        return

    def answered(future: asyncio.Future[Message]) -> None:
        if future.cancelled() or future.exception() is not None:
            if not future.cancelled():
                target.world.checks.fault(target, future.exception())
            network.refuse(failed)
            return
        response = future.result()
        kind = type(response)
        data = bytes(response.encode(version))

        def arrive() -> None:
            outcome = RaftResponse(request.correlation_id, request.destination_id, kind.decode(data, version))
            to_source(lambda: source.driver.handle_outcome(outcome))

        target.world.checks.raft_answered(target, body, response)
        network.send(target.id, source.id, arrive, failed, may_double=True)

    answer.add_done_callback(answered)


# --- calls to the active controller


class SimulatedChannel:
    """A broker's ``ControllerChannel``: inside the process when the leader is there, else over the wire."""

    def __init__(self, node: SimulatedNode) -> None:
        self._node = node

    async def forward(self, request: Message, context: RequestContext) -> Message:
        return await self._call(request, context, is_own=False)

    async def send(self, request: Message) -> Message:
        from tests.simulation.cluster.node import own_context

        key = ApiKey(request.API_KEY)
        return await self._call(request, own_context(key, API_TABLE[key].highest), is_own=True)

    async def _call(self, request: Message, context: RequestContext, *, is_own: bool) -> Message:
        node = self._node
        leader_id = node.driver.leader.leader_id
        if leader_id is None:
            raise ApiException(ErrorCode.NOT_CONTROLLER, "No controller is known.")
        if leader_id == node.id and node.in_process is not None:
            if is_own:
                return await node.in_process.send(request)
            return await _decided(node, request, context)
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        call_controller(node.id, node.act, node.world.nodes[leader_id], request, context, future)
        try:
            return await asyncio.wait_for(future, CALL_TIMEOUT_S)
        except TimeoutError:
            raise ApiException(ErrorCode.REQUEST_TIMED_OUT, "The controller does not answer.") from None


def call_controller(
    source_id: int,
    act: Callable[[Callable[[], None]], None],
    target: SimulatedNode,
    request: Message,
    context: RequestContext,
    future: asyncio.Future[Any],
) -> None:
    """Send a request to this controller; ``future`` gets the answer, or ApiException; nothing when it is lost."""
    network = target.world.network
    kind = type(request)
    version = context.api_version
    data = bytes(request.encode(version))

    def refused() -> None:
        error = ApiException(ErrorCode.NOT_CONTROLLER, "The controller's process is not there.")
        act(lambda: None if future.done() else future.set_exception(error))

    def arrive() -> None:
        if not target.is_up or target.in_process is None:
            network.refuse(refused)
            return
        target.act(lambda: _serve(source_id, act, target, kind.decode(data, version), context, future))

    network.send(source_id, target.id, arrive)


def _serve(
    source_id: int,
    act: Callable[[Callable[[], None]], None],
    target: SimulatedNode,
    request: Message,
    context: RequestContext,
    future: asyncio.Future[Any],
) -> None:
    network = target.world.network
    version = context.api_version

    async def answer() -> None:
        error: ApiException | None = None
        response: Message | None = None
        try:
            response = await _decided(target, request, context)
        except ApiException as refusal:
            error = refusal
        if response is not None:
            data = bytes(response.encode(version))
            kind = type(response)
        else:
            data, kind = b"", type(request)

        def arrive() -> None:
            if future.done():
                return
            if error is not None:
                act(lambda: None if future.done() else future.set_exception(error))
            else:
                decoded = kind.decode(data, version)
                act(lambda: None if future.done() else future.set_result(decoded))

        network.send(target.id, source_id, arrive)

    target.world.loop.create_task(answer())


async def _decided(node: SimulatedNode, request: Message, context: RequestContext) -> Message:
    """What the controller in this process answers, looked at before anybody else sees it."""
    checks = node.world.checks
    assert node.in_process is not None
    begun = checks.asked(node, request)
    response = await node.in_process.forward(request, context)
    checks.answered(node, begun, context, request, response)
    return response
