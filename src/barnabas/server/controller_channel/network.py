"""The broker's channel to an active controller in another process: clients' requests in envelopes, its own unchanged.

``broker.forwarding_queue`` decides when a request is sent, when it is repeated, and what its sender receives. This
module holds the waiting senders and the connections. A connection is opened when a request needs it. The active
controller is the leader of the metadata quorum as this node knows it. A connection to another node is closed before it
is used again.

A broker's heartbeats and its reports on replicas have connections of their own. Otherwise they would be late while
clients create topics for minutes.

A controller that hangs keeps its connections open and does not answer. So every wait ends:

* at the sender's own time-out;
* for heartbeats and reports on replicas, at the heartbeat interval: then another connection is tried
  (``controller_exchange``);
* when another controller becomes active. The request is then sent to that one, with the same number.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from os import urandom
from typing import TYPE_CHECKING, TypeVar

from barnabas.broker.attempt_limit import AttemptLimit
from barnabas.broker.forwarded_call import ForwardedCall
from barnabas.broker.forwarding_queue import CONNECTIONS_MAX, Attempt, Fate, ForwardingQueue
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
from barnabas.network.close_connection import CloseConnection
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.envelope_tags import CALL_ID_SIZE
from barnabas.protocol.errors import DecodeError, EncodeError
from barnabas.server.controller_channel.calls import EnvelopedCall, OwnCall
from barnabas.server.controller_channel.hedged_request import ControllerConnection, Exchange
from barnabas.server.start_errors import NodeStartError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from barnabas.clients.client_config import ClientConfig
    from barnabas.common.clock import Clock
    from barnabas.protocol.schema import Message, Request
    from barnabas.raft.voter_set import Endpoint
    from barnabas.security.request_context import RequestContext
    from barnabas.server.controller_channel.calls import WaitingCall

__all__ = ["NetworkChannel"]

R = TypeVar("R", bound="Message")

log = logging.getLogger(__name__)

_UNEXPECTED = "The server experienced an unexpected error when processing the request."
_APPLY_TIMEOUT_S = 0.5
_INLINE_BYTES_MAX = 64 * 1024
"""An answer of up to this size is decoded in a few milliseconds."""
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
        heartbeat_interval_ms: int,
        reach_offset: Callable[[int, float], Awaitable[bool]],
        new_call_id: Callable[[], bytes] = lambda: urandom(CALL_ID_SIZE),
        connections_max: int = CONNECTIONS_MAX,
    ) -> None:
        """``config``: its request time-out is ``controller.socket.timeout.ms``. ``leader`` is called for each attempt.

        ``lifecycle_limit_ms`` limits the attempts of a registration or a heartbeat. After ``heartbeat_interval_ms``
        without an answer it is sent over another connection as well. ``reach_offset(offset, seconds)`` waits until this
        node has applied the metadata log up to the offset. Raise NodeStartError if the settings are unusable for a
        client.
        """
        try:
            self._client = NetworkClient(config)
        except InvalidClientConfig as error:
            raise NodeStartError(f"this broker can't connect to controllers: {error}") from error
        self._serialize_principal = serialize_principal
        self._reach_offset = reach_offset
        self._new_call_id = new_call_id
        self.stats = ForwardingStats()
        self._leader = leader
        attempts = AttemptLimit(heartbeat_interval_ms, max(heartbeat_interval_ms, lifecycle_limit_ms // 2))
        make = partial(_ConnectionPool, self._client, leader, clock, numbering=set())
        self._forwarding = make(ForwardingQueue(connections_max=connections_max), stats=self.stats)
        self._lifecycle = make(
            ForwardingQueue(connections_max=1, limit_ms=lifecycle_limit_ms),
            stats=ForwardingStats(),
            attempts=attempts,
            on_path_back=self._path_is_back,
        )
        self._replication = make(
            ForwardingQueue(connections_max=1, limit_ms=lifecycle_limit_ms), stats=ForwardingStats(), attempts=attempts
        )

    @property
    def remote(self) -> NetworkChannel:
        """The channel over the network: this one. ``CombinedChannel`` has the same property."""
        return self

    @property
    def queue_length(self) -> int:
        return self._forwarding.queue.length

    def versions(self) -> Mapping[int, tuple[int, int]] | None:
        """The API versions of the active controller; None before the first connection to it."""
        return self._forwarding.versions() or self._lifecycle.versions()

    async def forward(self, request: Message, context: RequestContext) -> Message:
        """Forward the request. Raise CloseConnection if the client must request the versions again."""
        try:
            principal = self._serialize_principal(context)
        except Exception as error:  # Whatever a user's principal builder does.
            log.exception("the principal %s can't be passed on to the controller", context.principal)
            raise ApiException(ErrorCode.UNKNOWN_SERVER_ERROR, _UNEXPECTED) from error
        self.stats.forwarded(context.client_id)
        forwarded = ForwardedCall(request, context, principal, self._new_call_id())
        call = EnvelopedCall(forwarded, context.api_key)
        answer = await self._forwarding.ask(call, forwarded.timeout_ms)
        if call.committed_offset is not None:
            # A client that has received the answer must find the change on the broker that sent it.
            await self._reach_offset(call.committed_offset, _APPLY_TIMEOUT_S)
        return answer

    async def send(self, request: Request[R]) -> R:
        pool = self._forwarding
        if request.API_KEY in _LIFECYCLE:
            pool = self._lifecycle
        elif request.API_KEY in _REPLICATION:
            pool = self._replication
        return await pool.ask(OwnCall(request))

    def leader_changed(self) -> None:
        """Stop waiting for the former leader: the metadata quorum has another one.

        While no leader is known, keep waiting: the former leader may still answer.
        """
        leader = self._leader()
        if leader is not None:
            for pool in (self._lifecycle, self._replication, self._forwarding):
                pool.follow(leader)

    def _path_is_back(self, address: Address, since_ms: int) -> None:
        for pool in (self._replication, self._forwarding):
            pool.end_silent(address, since_ms)

    async def close(self) -> None:
        await self._forwarding.close()
        await self._lifecycle.close()
        await self._replication.close()
        await self._client.close()


class _ConnectionPool:
    """A queue with its connections."""

    def __init__(
        self,
        client: NetworkClient,
        leader: Callable[[], Endpoint | None],
        clock: Clock,
        queue: ForwardingQueue[WaitingCall[Message]],
        *,
        stats: ForwardingStats,
        numbering: set[Address],
        attempts: AttemptLimit | None = None,
        on_path_back: Callable[[Address, int], None] | None = None,
    ) -> None:
        """``numbering`` contains the controllers that recognize a numbered call; answers add to it.

        ``on_path_back(address, since_ms)`` is called when a controller answers after a lost attempt at ``since_ms``.
        """
        self.queue = queue
        self._client = client
        self._leader = leader
        self._clock = clock
        self._stats = stats
        self._numbering = numbering
        self._attempts = attempts
        self._on_path_back = on_path_back
        self._idle: list[ControllerConnection] = []
        self._all: list[ControllerConnection] = []
        self._under_way: dict[asyncio.Task[None], Exchange] = {}
        self._waiting_for: set[WaitingCall[Message]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._silent_since_ms: int | None = None
        self._logged_problem = ""

    def versions(self) -> Mapping[int, tuple[int, int]] | None:
        leader = self._leader()
        address = None if leader is None else Address(leader.host, leader.port)
        for controller in self._all:
            connection = controller.connection
            if connection is not None and connection.is_open and connection.address == address:
                return connection.versions
        return None

    async def ask(self, call: WaitingCall[R], timeout_ms: int | None = None) -> R:
        """Return the answer to ``call``. Raise ApiException with the error for its sender, or CloseConnection."""
        self.queue.add(call, self._clock.monotonic_ms(), timeout_ms)
        self._waiting_for.add(call)
        self._pump()
        try:
            return await call.future
        finally:
            self._waiting_for.discard(call)
            self.queue.withdraw(call)

    def follow(self, leader: Endpoint) -> None:
        """Send the requests that the former controller has not answered to the new one."""
        self._silent_since_ms = None
        for exchange in self._under_way.values():
            if exchange.address != Address(*leader):
                exchange.end()
        self._pump()

    def end_silent(self, address: Address, since_ms: int) -> None:
        """Repeat the requests to ``address`` that may be lost, because the connection was interrupted.

        Repeat only requests that the controller recognizes: it may have them and be slow to answer.
        """
        for exchange in self._under_way.values():
            if (
                exchange.address == address
                and exchange.call.sent_ms <= since_ms
                and exchange.call.is_recognised(is_numbered=address in self._numbering)
            ):
                exchange.end()

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for task in tuple(self._under_way):
            task.cancel()
        if self._under_way:
            await asyncio.wait(self._under_way)
        for call in tuple(self._waiting_for):
            call.fail(ApiException(ErrorCode.NOT_CONTROLLER, "The broker is shutting down."))
        for controller in self._all:
            await controller.hang_up()

    def _pump(self) -> None:
        """Send requests, give up late ones, and schedule the next call."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now_ms = self._clock.monotonic_ms()
        self._give_up_late(now_ms)
        leader = self._leader()
        while leader is not None and (call := self.queue.next_to_send(now_ms)) is not None:
            connection = self._idle.pop() if self._idle else self._new_connection()
            self._begin(Exchange(call, connection, Address(*leader)))
        due = self.queue.wakeup_ms(now_ms, is_controller_known=leader is not None)
        if due is not None:
            self._timer = asyncio.get_running_loop().call_later(max(due - now_ms, 1) / 1000, self._pump)

    def _give_up_late(self, now_ms: int) -> None:
        """Answer the senders of late requests. It is unknown whether the controller applies a call that it received."""
        late = self.queue.expired(now_ms)
        for call in late:
            self._fail(call, ErrorCode.REQUEST_TIMED_OUT)
        if late:
            for exchange in self._under_way.values():
                if exchange.call.has_expired:
                    exchange.end()

    def _new_connection(self) -> ControllerConnection:
        connection = ControllerConnection()
        self._all.append(connection)
        return connection

    def _begin(self, exchange: Exchange) -> None:
        task = asyncio.get_running_loop().create_task(self._exchange(exchange))
        self._under_way[task] = exchange
        task.add_done_callback(self._under_way.pop)

    async def _exchange(self, exchange: Exchange) -> None:
        attempt, error = Attempt.LOST, ErrorCode.NONE
        try:
            response = await exchange.run(self._client, self._attempts)
            error = await _read(exchange.call, response)
            attempt = Attempt.ANSWERED
        except ClientError as problem:
            attempt = _attempt_of(problem)
            if not exchange.has_ended:
                self._log_problem(attempt, exchange.address, problem)
        except DecodeError as problem:
            attempt = Attempt.GARBLED
            self._log_problem(attempt, exchange.address, problem)
        except EncodeError as problem:
            attempt = Attempt.NOT_OFFERED
            self._log_problem(attempt, exchange.address, problem)
        except Exception:
            log.exception("cannot pass a request on to the controller")
            attempt = Attempt.GARBLED
        await self._conclude(exchange, attempt, error)
        self._pump()

    async def _conclude(self, exchange: Exchange, attempt: Attempt, error: ErrorCode) -> None:
        call, now_ms = exchange.call, self._clock.monotonic_ms()
        is_numbered = exchange.address in self._numbering
        verdict = self.queue.completed(
            call,
            now_ms,
            attempt,
            error,
            is_wanted=not call.future.done(),
            is_repeatable=not exchange.was_sent or call.is_repeatable(is_numbered=is_numbered),
        )
        self._note_path(exchange, attempt)
        if verdict.forgets_controller:
            await exchange.connection.hang_up()
        elif attempt is Attempt.ANSWERED:
            self._logged_problem = ""
        self._idle.append(exchange.connection)
        if verdict.fate is Fate.DELIVER:
            if call.committed_offset is not None:
                self._numbering.add(exchange.address)
            self._stats.remote_times.record(now_ms - call.sent_ms)
            self._stats.queue_times.record(call.queued_ms)
            call.deliver()
        elif verdict.fate is Fate.HANG_UP:
            call.fail(CloseConnection("the controller no longer serves this version of the request"))
        elif verdict.fate is Fate.FAIL:
            if error not in (ErrorCode.NONE, ErrorCode.NOT_CONTROLLER):
                log.error(
                    "the controller at %s refused a request that this broker forwarded: %s",
                    exchange.address,
                    error.name,
                )
            self._fail(call, verdict.error)

    def _note_path(self, exchange: Exchange, attempt: Attempt) -> None:
        """Detect an answer after lost attempts: other requests that were sent since then may be lost as well."""
        if attempt is Attempt.LOST and not exchange.has_ended and self._silent_since_ms is None:
            self._silent_since_ms = self._clock.monotonic_ms()
        elif attempt is Attempt.ANSWERED:
            since_ms, self._silent_since_ms = self._silent_since_ms, None
            if exchange.is_bypassed:
                since_ms = exchange.call.sent_ms
            if since_ms is not None and self._on_path_back is not None:
                self._on_path_back(exchange.address, since_ms)

    def _fail(self, call: WaitingCall[Message], code: ErrorCode) -> None:
        if call.future.done():
            return
        if code is ErrorCode.REQUEST_TIMED_OUT:
            self._stats.timed_out += 1
            self._stats.queue_times.record(call.queued_ms)
            message = "The active controller did not answer in time."
        else:
            message = _UNEXPECTED
        call.fail(ApiException(code, message))

    def _log_problem(self, attempt: Attempt, address: Address, problem: Exception) -> None:
        """Log a new problem with the controller; repetitions are not logged."""
        named = f"{address} {type(problem).__name__}"
        if named != self._logged_problem:
            self._logged_problem = named
            level = logging.INFO if attempt is Attempt.LOST else logging.ERROR
            log.log(level, "the controller at %s can't be reached: %s", address, problem)


def _attempt_of(problem: ClientError) -> Attempt:
    if isinstance(problem, AuthenticationFailed):
        return Attempt.NOT_BELIEVED
    if isinstance(problem, UnsupportedVersion):
        return Attempt.NOT_OFFERED
    if isinstance(problem, RemoteProtocolError):
        return Attempt.GARBLED
    return Attempt.LOST


async def _read(call: WaitingCall[Message], response: Message) -> ErrorCode:
    """Decode an answer, on a thread if it is long. Raise DecodeError for an invalid one."""
    if len(getattr(response, "response_data", None) or b"") <= _INLINE_BYTES_MAX:
        return call.read(response)
    return await asyncio.get_running_loop().run_in_executor(None, call.read, response)
