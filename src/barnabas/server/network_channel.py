"""The broker's way to an active controller in another process: its clients' requests in envelopes, its own as they are.

What goes when, what goes again and what a sender is told is decided by ``broker.forwarding_queue``; here are the
connections, one for each lane and opened when a request needs it, and those who wait. The controller is who leads the
metadata quorum as this node knows it; a connection to anybody else is closed before it is used again.

A broker's heartbeats have a lane of their own, and so has what it says of its replicas: they are late when clients
create topics for minutes, otherwise.
"""

from __future__ import annotations

import asyncio
import logging
from os import urandom
from typing import TYPE_CHECKING, Any

from barnabas.broker.forwarded_call import ForwardedCall
from barnabas.broker.forwarding_queue import LANES_MAX, LIMIT_MS, Attempt, Call, Fate, ForwardingQueue
from barnabas.broker.forwarding_stats import ForwardingStats
from barnabas.clients.client_config import Address
from barnabas.clients.errors import (
    AuthenticationFailed,
    ClientError,
    InvalidClientConfig,
    RemoteProtocolError,
    UnsupportedVersion,
)
from barnabas.clients.network_client import NetworkClient
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.network.connection import CloseConnection
from barnabas.network.response_errors import ResponseErrors
from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.protocol.envelope_tags import CALL_ID_SIZE, committed_offset_of
from barnabas.protocol.errors import DecodeError, EncodeError
from barnabas.protocol.messages.envelope import EnvelopeResponse
from barnabas.server.node_storage import NodeStartError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from barnabas.clients.client_config import ClientConfig
    from barnabas.clients.node_connection import NodeConnection
    from barnabas.common.clock import Clock
    from barnabas.protocol.schema import Message
    from barnabas.raft.voter_set import Endpoint
    from barnabas.security.request_context import RequestContext

__all__ = ["NetworkChannel"]

log = logging.getLogger(__name__)

_NOT_CONTROLLER = int(ErrorCode.NOT_CONTROLLER)
_UNEXPECTED = "The server experienced an unexpected error when processing the request."
_APPLY_TIMEOUT_S = 0.5
_LIFECYCLE = frozenset({ApiKey.BROKER_REGISTRATION, ApiKey.BROKER_HEARTBEAT, ApiKey.CONTROLLER_REGISTRATION})
_REPLICATION = frozenset({ApiKey.ALTER_PARTITION, ApiKey.ASSIGN_REPLICAS_TO_DIRS})


class NetworkChannel:
    """Implements the broker's ``ControllerChannel``."""

    def __init__(
        self,
        config: ClientConfig,
        *,
        leader: Callable[[], Endpoint | None],
        clock: Clock,
        serialize_principal: Callable[[RequestContext], bytes],
        lifecycle_limit_ms: int,
        reach_offset: Callable[[int, float], Awaitable[bool]],
        new_call_id: Callable[[], bytes] = lambda: urandom(CALL_ID_SIZE),
        lanes_max: int = LANES_MAX,
    ) -> None:
        """``config``: its request time-out is ``controller.socket.timeout.ms``. ``leader`` is asked for each attempt.

        ``lifecycle_limit_ms`` is how long a registration or a heartbeat is tried. ``reach_offset`` waits until this
        node has applied the metadata log as far as that, so many seconds at most. Raises NodeStartError when the
        settings don't make a client.
        """
        try:
            self._client = NetworkClient(config)
        except InvalidClientConfig as error:
            raise NodeStartError(f"this broker can't connect to controllers: {error}") from error
        self._serialize_principal = serialize_principal
        self._reach_offset = reach_offset
        self._new_call_id = new_call_id
        self.stats = ForwardingStats()
        self._forwarding = _Lanes(self._client, leader, clock, self.stats, lanes_max, LIMIT_MS)
        self._lifecycle = _Lanes(self._client, leader, clock, ForwardingStats(), 1, lifecycle_limit_ms)
        self._replication = _Lanes(self._client, leader, clock, ForwardingStats(), 1, lifecycle_limit_ms)

    @property
    def remote(self) -> NetworkChannel:
        """As ``CombinedChannel`` has one."""
        return self

    @property
    def queue_length(self) -> int:
        return self._forwarding.queue.length

    def versions(self) -> Mapping[int, tuple[int, int]] | None:
        """What the active controller serves; None until a connection to it was made."""
        return self._forwarding.versions() or self._lifecycle.versions()

    async def forward(self, request: Message, context: RequestContext) -> Message:
        """Raises CloseConnection where the client has to ask for versions anew."""
        try:
            principal = self._serialize_principal(context)
        except Exception as error:  # Whatever a user's principal builder does.
            log.exception("the principal %s can't be passed on to the controller", context.principal)
            raise ApiException(ErrorCode.UNKNOWN_SERVER_ERROR, _UNEXPECTED) from error
        self.stats.forwarded(context.client_id)
        forwarded = ForwardedCall(request, context, principal, self._new_call_id())
        call = _Enveloped(forwarded, context.api_key)
        answer = await self._forwarding.ask(call, forwarded.timeout_ms)
        if call.committed_offset is not None:
            # Who was told of a change finds it on the broker that told it.
            await self._reach_offset(call.committed_offset, _APPLY_TIMEOUT_S)
        return answer

    async def send(self, request: Message) -> Message:
        lanes = self._forwarding
        if request.API_KEY in _LIFECYCLE:
            lanes = self._lifecycle
        elif request.API_KEY in _REPLICATION:
            lanes = self._replication
        return await lanes.ask(_Own(request))

    async def close(self) -> None:
        await self._forwarding.close()
        await self._lifecycle.close()
        await self._replication.close()
        await self._client.close()


class _Waiting(Call):
    """A call, and who waits for its answer."""

    __slots__ = ("future",)

    def __init__(self) -> None:
        super().__init__()
        self.future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

    def message(self, controller: Mapping[int, tuple[int, int]]) -> Message:
        raise NotImplementedError

    def read(self, response: Any) -> tuple[ErrorCode, Message | None]:
        """The error of the attempt, and the answer if there is none. Raises DecodeError."""
        raise NotImplementedError


class _Enveloped(_Waiting):
    __slots__ = ("_forwarded", "_response_type", "committed_offset")

    def __init__(self, forwarded: ForwardedCall, api_key: ApiKey) -> None:
        super().__init__()
        self.committed_offset: int | None = None
        self._forwarded = forwarded
        self._response_type = _response_type(api_key)

    def message(self, controller: Mapping[int, tuple[int, int]]) -> Message:
        return self._forwarded.envelope(controller)

    def read(self, response: EnvelopeResponse) -> tuple[ErrorCode, Message | None]:
        if response.error_code:
            return _error_code(response.error_code), None
        self.committed_offset = committed_offset_of(response)
        return ErrorCode.NONE, self._forwarded.answer(response.response_data, self._response_type)


class _Own(_Waiting):
    __slots__ = ("_errors", "_request")

    def __init__(self, request: Message) -> None:
        super().__init__()
        self._request = request
        self._errors = ResponseErrors(_response_type(ApiKey(request.API_KEY)))

    def message(self, controller: Mapping[int, tuple[int, int]]) -> Message:
        return self._request

    def read(self, response: Message) -> tuple[ErrorCode, Message | None]:
        if _NOT_CONTROLLER in self._errors.of(response):
            return ErrorCode.NOT_CONTROLLER, None
        return ErrorCode.NONE, response


class _Lane:
    """One connection at a time, to whoever is the controller."""

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


class _Lanes:
    """A queue and the connections that take from it."""

    def __init__(
        self,
        client: NetworkClient,
        leader: Callable[[], Endpoint | None],
        clock: Clock,
        stats: ForwardingStats,
        lanes_max: int,
        limit_ms: int,
    ) -> None:
        self.queue = ForwardingQueue(lanes_max=lanes_max, limit_ms=limit_ms)
        self._client = client
        self._leader = leader
        self._clock = clock
        self._stats = stats
        self._idle: list[_Lane] = []
        self._all: list[_Lane] = []
        self._under_way: set[asyncio.Task[None]] = set()
        self._waiting_for: set[_Waiting] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._told = ""

    def versions(self) -> Mapping[int, tuple[int, int]] | None:
        leader = self._leader()
        address = None if leader is None else Address(leader.host, leader.port)
        for lane in self._all:
            connection = lane.connection
            if connection is not None and connection.is_open and connection.address == address:
                return connection.versions
        return None

    async def ask(self, call: _Waiting, timeout_ms: int | None = None) -> Message:
        """Raises ApiException with what the sender is to be told, or CloseConnection."""
        self.queue.add(call, self._clock.monotonic_ms(), timeout_ms)
        self._waiting_for.add(call)
        self._pump()
        try:
            return await call.future
        finally:
            self._waiting_for.discard(call)
            self.queue.withdraw(call)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for task in tuple(self._under_way):
            task.cancel()
        if self._under_way:
            await asyncio.wait(self._under_way)
        for call in tuple(self._waiting_for):
            _settle(call, ApiException(ErrorCode.NOT_CONTROLLER, "The broker is shutting down."))
        for lane in self._all:
            await lane.hang_up()

    def _pump(self) -> None:
        """Send what can be sent, give up what is late, and come back when there may be more to do."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now_ms = self._clock.monotonic_ms()
        for late in self.queue.expired(now_ms):
            self._fail(late, ErrorCode.REQUEST_TIMED_OUT)
        leader = self._leader()
        while leader is not None and (call := self.queue.next_to_send(now_ms)) is not None:
            lane = self._idle.pop() if self._idle else self._new_lane()
            task = asyncio.get_running_loop().create_task(self._exchange(call, lane, Address(*leader)))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
        due = self.queue.wakeup_ms(now_ms, is_controller_known=leader is not None)
        if due is not None:
            self._timer = asyncio.get_running_loop().call_later(max(due - now_ms, 1) / 1000, self._pump)

    def _new_lane(self) -> _Lane:
        lane = _Lane()
        self._all.append(lane)
        return lane

    async def _exchange(self, call: Any, lane: _Lane, address: Address) -> None:
        attempt, error, answer = Attempt.LOST, ErrorCode.NONE, None
        try:
            attempt, error, answer = await self._attempt(call, lane, address)
        except ClientError as problem:
            attempt = _attempt_of(problem)
            self._tell(attempt, address, problem)
        except DecodeError as problem:
            attempt = Attempt.GARBLED
            self._tell(attempt, address, problem)
        except EncodeError as problem:
            attempt = Attempt.NOT_OFFERED
            self._tell(attempt, address, problem)
        except Exception:
            log.exception("a request can't be passed on to the controller")
            attempt = Attempt.GARBLED
        now_ms = self._clock.monotonic_ms()
        verdict = self.queue.completed(call, now_ms, attempt, error, is_wanted=not call.future.done())
        if verdict.forgets_controller:
            await lane.hang_up()
        elif attempt is Attempt.ANSWERED:
            self._told = ""
        self._idle.append(lane)
        if verdict.fate is Fate.DELIVER:
            self._stats.remote_times.record(now_ms - call.sent_ms)
            self._stats.queue_times.record(call.queued_ms)
            _settle(call, answer)
        elif verdict.fate is Fate.HANG_UP:
            _settle(call, CloseConnection("the controller does not serve this version of the request any more"))
        elif verdict.fate is Fate.FAIL:
            if error is not ErrorCode.NONE:
                log.error("the controller at %s refuses what this broker forwards: %s", address, error.name)
            self._fail(call, verdict.error)
        self._pump()

    async def _attempt(
        self, call: _Waiting, lane: _Lane, address: Address
    ) -> tuple[Attempt, ErrorCode, Message | None]:
        connection = await lane.connect(self._client, address)
        response = await connection.request(call.message(connection.versions))
        error, answer = call.read(response)
        return Attempt.ANSWERED, error, answer

    def _fail(self, call: Any, code: ErrorCode) -> None:
        if code is ErrorCode.REQUEST_TIMED_OUT:
            self._stats.timed_out += 1
            self._stats.queue_times.record(call.queued_ms)
            message = "The active controller did not answer in time."
        else:
            message = _UNEXPECTED
        _settle(call, ApiException(code, message))

    def _tell(self, attempt: Attempt, address: Address, problem: Exception) -> None:
        """Once for each time that something goes wrong with the controller."""
        told = f"{address} {type(problem).__name__}"
        if told != self._told:
            self._told = told
            level = logging.INFO if attempt is Attempt.LOST else logging.ERROR
            log.log(level, "the controller at %s can't be asked: %s", address, problem)


def _settle(call: _Waiting, outcome: Message | Exception | None) -> None:
    if call.future.done():
        return
    if isinstance(outcome, Exception):
        call.future.set_exception(outcome)
    elif outcome is not None:
        call.future.set_result(outcome)


def _attempt_of(problem: ClientError) -> Attempt:
    if isinstance(problem, AuthenticationFailed):
        return Attempt.NOT_BELIEVED
    if isinstance(problem, UnsupportedVersion):
        return Attempt.NOT_OFFERED
    if isinstance(problem, RemoteProtocolError):
        return Attempt.GARBLED
    return Attempt.LOST


def _error_code(number: int) -> ErrorCode:
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def _response_type(api_key: ApiKey) -> type[Message]:
    from importlib import import_module

    module = import_module(f"barnabas.protocol.messages.{api_key.name.lower()}")
    found: type[Message] = getattr(module, f"{API_TABLE[api_key].name}Response")
    return found
