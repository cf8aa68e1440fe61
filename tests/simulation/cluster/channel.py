"""Communication between nodes: raft's messages between replicas, and a broker's requests to the active controller.

Every message travels as bytes, and nodes share only what they receive in messages. The broker's side is the product's
``NetworkChannel`` with its queue and its envelopes, the controller's side is its dispatcher. ``SimulatedClient`` and
``SimulatedConnection`` replace the product's sockets between them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from barnabas.clients.errors import ConnectFailed, Disconnected, RequestTimedOut
from barnabas.network.close_connection import CloseConnection
from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.protocol.errors import EncodeError
from barnabas.protocol.headers import RequestHeader, ResponseHeader, request_header_version, response_header_version
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.raft.errors import NotLeaderException
from barnabas.raft.inbound import RaftResponse, RequestFailed
from barnabas.server.controller.api_handlers import SERVED_ON_CONTROLLER_LISTENERS

if TYPE_CHECKING:
    from barnabas.clients.client_config import Address
    from barnabas.protocol.schema import Message
    from barnabas.raft.ready import OutboundRequest
    from tests.simulation.cluster.node import SimulatedNode

__all__ = ["SimulatedClient", "deliver_raft_request"]

Process = Callable[[bytearray], Any]
"""The handler of a listener's frames."""
Door = Callable[["SimulatedNode"], "Process | None"]
"""A listener of a node; returns None while it is closed."""

CONNECT_TIMEOUT_S = 1.0
REQUEST_TIMEOUT_S = 30.0
"""The time-out of a request to a hung peer.

These are Kafka's ``controller.socket.timeout.ms`` and ``replica.socket.timeout.ms``.
"""


# --- raft


def deliver_raft_request(source: SimulatedNode, request: OutboundRequest) -> None:
    world = source.world
    target_id = int(request.endpoint.host[1:])
    kind = type(request.body)
    owner = source.owner
    target = world.nodes[target_id]
    version = source.software.version_with(target.software, ApiKey(request.body.API_KEY), kind.MAX_VERSION)

    def to_source(action: Callable[[], None]) -> None:
        if source.owner is owner:
            source.act(lambda: _unless_stopping(action))

    def failed(*, is_refused: bool = False, is_unsupported: bool = False) -> None:
        failure = RequestFailed(
            request.correlation_id,
            request.destination_id,
            is_refused=is_refused,
            is_unsupported_version=is_unsupported,
        )
        to_source(lambda: source.driver.handle_outcome(failure))

    try:
        data = b"" if version < 0 else bytes(request.body.encode(version))
    except EncodeError:
        version = -1  # For example, a pre-vote cannot be sent to a node that supports only real votes.
    if version >= 0:
        world.checks.sent(source, request.body)

    def arrive() -> None:
        if not target.is_up or request.endpoint.port != target.port:
            world.network.refuse(lambda: failed(is_refused=True))
        elif version < 0 or target.software.versions.get(ApiKey(request.body.API_KEY), version) < version:
            world.network.refuse(lambda: failed(is_unsupported=True))
        elif kind is ApiVersionsRequest:
            target.act(lambda: _answer_api_versions(source, target, request, to_source, failed))
        else:
            body = kind.decode(data, version)
            target.act(lambda: _answer_raft(source, target, request, body, version, to_source, failed))

    if world.network.is_silent(source.id, target_id):
        world.loop.call_later(request.timeout_ms / 1000, failed, context=world.no_process)
    world.network.send(source.id, target_id, arrive, failed, may_double=True)


def _answer_api_versions(
    source: SimulatedNode,
    target: SimulatedNode,
    request: OutboundRequest,
    to_source: Callable[[Callable[[], None]], None],
    failed: Callable[[], None],
) -> None:
    """Answer with the supported versions. The node's dispatcher, not its replica, receives this request."""
    network, key, version = source.world.network, ApiKey.API_VERSIONS, 4
    process = _controller_door(target)
    if process is None:
        network.refuse(failed)
        return
    header = RequestHeader(request_api_key=key, request_api_version=version, correlation_id=1, client_id="raft")
    frame = header.encode(request_header_version(key, version)) + request.body.encode(version)

    def back(chunks: list[bytes | memoryview] | None) -> None:
        data = b"".join(chunks or ())
        _, position = ResponseHeader.read(data, 0, response_header_version(key, version))
        response, _ = ApiVersionsResponse.read(data, position, version)
        outcome = RaftResponse(request.correlation_id, request.destination_id, response)
        network.send(target.id, source.id, lambda: to_source(lambda: source.driver.handle_outcome(outcome)), failed)

    _serve(target, process, bytes(frame), back, lambda: network.refuse(failed))


def _unless_stopping(action: Callable[[], None]) -> None:
    """Run the action. A driver that is stopping ignores all outcomes."""
    with suppress(NotLeaderException):
        action()


def _answer_raft(
    source: SimulatedNode,
    target: SimulatedNode,
    request: OutboundRequest,
    body: Message,
    version: int,
    to_source: Callable[[Callable[[], None]], None],
    failed: Callable[[], None],
) -> None:
    network = target.world.network
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
            decoded = kind.decode(data, version)
            outcome = RaftResponse(request.correlation_id, request.destination_id, decoded)
            was_ready = source.is_up and source.authorization.ready.is_set()
            to_source(lambda: source.driver.handle_outcome(outcome))
            source.world.checks.raft_response_received(source, was_ready=was_ready)

        target.world.checks.raft_answered(target, body, response)
        network.send(target.id, source.id, arrive, failed, may_double=True)

    answer.add_done_callback(answered)


# --- a broker's requests to a controller


class SimulatedClient:
    """Replaces ``NetworkClient``; its config is the node to which it belongs."""

    def __init__(self, config: SimulatedNode) -> None:
        self._node = config

    def connect(self, target: SimulatedNode, address: Address) -> SimulatedConnection:
        return SimulatedConnection(self._node, target, address)

    def is_served(self, target: SimulatedNode, address: Address) -> bool:
        """Return whether the node accepts connections at this address now."""
        return target.dispatcher is not None and address.port == target.port

    async def open(self, address: Address) -> SimulatedConnection:
        node = self._node
        target = node.world.nodes[int(address.host[1:])]
        opened: asyncio.Future[SimulatedConnection] = asyncio.get_running_loop().create_future()
        network = node.world.network

        def refused() -> None:
            node.act(lambda: _fail(opened, ConnectFailed(f"{address} does not accept connections")))

        def accepted() -> None:
            connection = self.connect(target, address)
            node.act(lambda: None if opened.done() else opened.set_result(connection))

        def arrive() -> None:
            if not target.is_up or not self.is_served(target, address):
                network.refuse(refused)
            else:
                network.send(target.id, node.id, accepted, refused)

        network.send(node.id, target.id, arrive, refused)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                return await opened
        except TimeoutError:
            raise ConnectFailed(f"{address} does not answer") from None

    async def close(self) -> None:
        """Do nothing: a simulated client has no resources."""


class SimulatedConnection:
    """One connection: it ends when a message on it is lost, or when one of the two processes ends."""

    def __init__(
        self,
        node: SimulatedNode,
        target: SimulatedNode,
        address: Address,
        *,
        door: Door | None = None,
        served: Mapping[ApiKey, tuple[int, int]] = SERVED_ON_CONTROLLER_LISTENERS,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        self.address = address
        self.is_open = True
        self.silence_limit_s: float | None = None
        """The limit of a silence, after which the peer counts as unreachable."""
        self.versions: Mapping[int, tuple[int, int]] = served  # type: ignore[assignment]
        self._door = door or _controller_door
        self._timeout_s = timeout_s
        self._node = node
        self._target = target
        self._life = target.owner
        self._correlation_id = 0

    async def close(self) -> None:
        self.is_open = False

    def version_of(self, key: ApiKey) -> int:
        return min(API_TABLE[key].highest, self.versions[key][1])

    async def request(self, message: Message, *, version: int | None = None, timeout_s: float | None = None) -> Message:
        """Send a request, in the newest version by default; return its response.

        Raises Disconnected or RequestTimedOut; the outcome of the request is then unknown.
        """
        self._correlation_id += 1
        key = ApiKey(message.API_KEY)
        version = self.version_of(key) if version is None else version
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        header = RequestHeader(
            request_api_key=key, request_api_version=version, correlation_id=self._correlation_id, client_id="broker"
        )
        frame = header.encode(request_header_version(key, version)) + message.encode(version)
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._send(bytes(frame), answer)
        try:
            async with asyncio.timeout(min(limit_s, self.silence_limit_s or limit_s)):
                data = await answer
        except TimeoutError:
            self.is_open = False
            raise RequestTimedOut(f"{self.address} does not answer") from None
        _, position = ResponseHeader.read(data, 0, response_header_version(key, version))
        kind = _response_type(key)
        response, _ = kind.read(data, position, version)
        return response

    def _send(self, frame: bytes, answer: asyncio.Future[bytes]) -> None:
        node, target, network = self._node, self._target, self._node.world.network

        def broken() -> None:
            self.is_open = False
            node.act(lambda: _fail(answer, Disconnected(f"the connection to {self.address} has ended")))

        def hang_up() -> None:
            if self._life is not None:
                self._life.at_death.pop(answer, None)
            network.refuse(broken)

        def back(chunks: list[bytes | memoryview] | None) -> None:
            if self._life is not None:
                self._life.at_death.pop(answer, None)
            data = b"".join(chunks or ())
            network.send(
                target.id,
                node.id,
                lambda: node.act(lambda: None if answer.done() else answer.set_result(data)),
                broken,
            )

        def arrive() -> None:
            process = self._door(target)
            if target.owner is None or target.owner is not self._life or process is None:
                network.refuse(broken)
                return
            target.owner.at_death[answer] = lambda: network.refuse(broken)
            target.act(lambda: _serve(target, process, frame, back, hang_up))

        network.send(node.id, target.id, arrive, broken)


def _controller_door(target: SimulatedNode) -> Process | None:
    dispatcher, peer, frames = target.dispatcher, target.peer, target.world.checks.frames
    if dispatcher is None:
        return None

    def process(frame: bytearray) -> Any:
        frames.append(bytes(frame))
        return dispatcher.process(peer, frame)  # type: ignore[arg-type]

    return process


def _serve(
    target: SimulatedNode,
    process: Process,
    frame: bytes,
    back: Callable[[Any], None],
    hang_up: Callable[[], None],
) -> None:
    """Process a frame with a dispatcher, which answers immediately or later."""
    try:
        answer = process(bytearray(frame))
    except CloseConnection:
        hang_up()
        return
    if not isinstance(answer, Awaitable):
        back(answer)
        return

    async def wait() -> None:
        try:
            back(await answer)
        except CloseConnection:
            hang_up()

    target.world.loop.create_task(wait())


def peer_of(principal: object, listener: str = "CONTROLLER") -> SimpleNamespace:
    """Return the properties of a connection that a dispatcher uses."""
    return SimpleNamespace(
        principal=principal,
        peer_host="192.0.2.1",
        listener_name=listener,
        connection_id="simulated",
        rest=lambda seconds: None,
    )


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


_RESPONSE_TYPES: dict[ApiKey, type[Message]] = {}


def _response_type(key: ApiKey) -> type[Message]:
    known = _RESPONSE_TYPES.get(key)
    if known is None:
        from importlib import import_module

        module = import_module(f"barnabas.protocol.messages.{key.name.lower()}")
        known = _RESPONSE_TYPES[key] = getattr(module, f"{API_TABLE[key].name}Response")
    return known
