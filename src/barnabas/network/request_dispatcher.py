"""Produces the response to a frame: header, version, body, access, handler, encoding.

Unreadable requests are handled as in Kafka: an unknown API or version and an unreadable body
close the connection, except ApiVersions of an unknown version, which is answered in version 0 with error 35, so
that newer clients can fall back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from functools import partial
from struct import Struct
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.long_response import LongAnswer
from barnabas.common.resource import CLUSTER_NAME, ResourceType
from barnabas.network.api_handler import Access
from barnabas.network.close_connection import CloseConnection
from barnabas.network.later_answer import LaterAnswer
from barnabas.network.long_work_scheduler import LongWork, work_owner
from barnabas.network.promised_answer import PromisedAnswer
from barnabas.network.request_limits import RequestLimits
from barnabas.network.request_metrics import ApiStats
from barnabas.network.request_splitting import ANSWERED_IN_PARTS, join_parts, parts_of
from barnabas.network.response_errors import ResponseErrors
from barnabas.network.stepped_responses import serve_others
from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.protocol.errors import DecodeError, EncodeError, TooManyElements
from barnabas.protocol.headers import read_fixed_header, read_rest_of_header
from barnabas.protocol.stepped_writing import takes_steps, write_in_steps
from barnabas.security.request_context import RequestContext

if TYPE_CHECKING:
    from barnabas.network.api_handler import ApiHandler, HandlerTable
    from barnabas.network.connection import Answer, Connection
    from barnabas.network.fair_scheduling import Turn
    from barnabas.protocol.decode_limits import DecodeLimits
    from barnabas.protocol.schema import Message
    from barnabas.security.authorizer.authorizer import Authorizer

__all__ = ["Quotas", "RequestDispatcher"]

log = logging.getLogger(__name__)
request_log = logging.getLogger("kafka.request.logger")
"""Kafka's name. A line for each request at DEBUG; it stays off with DEBUG for everything else."""
request_log.setLevel(logging.WARNING)

_CORRELATION = Struct(">i")
_FLEXIBLE_CORRELATION = Struct(">ix")
_LOWEST_REAL_PRODUCE = 3
_INLINE_BYTES_MAX = 256 * 1024
"""Longer requests are decoded on a thread, unless most of their bytes are records, which are not decoded then."""
_PROMISED_BYTES_MAX = 4096
"""The response to a longer request may be long, too: it is encoded in steps."""
_RECORD_CARRIERS = frozenset({ApiKey.PRODUCE, ApiKey.ENVELOPE})
_LONG_BY_THEMSELVES = frozenset({ApiKey.FETCH, ApiKey.OFFSET_FETCH, ApiKey.SYNC_GROUP})
"""APIs whose handlers take turns, or take no time for an element."""
_OF_FOLLOWERS = frozenset({ApiKey.FETCH, ApiKey.OFFSET_FOR_LEADER_EPOCH})


class _Route:
    """One served API: all that does not change between requests."""

    __slots__ = (
        "_errors",
        "api_key",
        "carries_records",
        "handler",
        "high",
        "is_in_parts",
        "is_plain",
        "low",
        "request_flexible_since",
        "response_flexible_since",
        "stats",
    )

    def __init__(self, api_key: ApiKey, versions: tuple[int, int], stats: ApiStats) -> None:
        info = API_TABLE[api_key]
        self.api_key = api_key
        self.low, self.high = versions
        if api_key is ApiKey.PRODUCE:
            self.low = _LOWEST_REAL_PRODUCE  # Versions 0-2 are advertised for old librdkafka, and not served.
        self.request_flexible_since = info.request_flexible_since
        self.response_flexible_since = 32767 if api_key is ApiKey.API_VERSIONS else info.response_flexible_since
        self.is_plain = not info.forwardable and api_key is not ApiKey.API_VERSIONS
        self.carries_records = api_key in _RECORD_CARRIERS
        self.is_in_parts = api_key in ANSWERED_IN_PARTS or api_key in _LONG_BY_THEMSELVES
        self.handler: ApiHandler | None = None
        self.stats = stats
        self._errors: ResponseErrors | None = None

    def errors_of(self, response: Message) -> list[int]:
        if self._errors is None and self.handler is not None:
            self._errors = ResponseErrors(self.handler.response_type)
        return [] if self._errors is None else self._errors.of(response)


class Quotas(Protocol):
    """The quotas that a server applies to its clients."""

    def throttle_ms(self, context: RequestContext, response: Message | None, request_bytes: int, busy_s: float) -> int:
        """Count a request, and return how long its connection is muted. The response reports the same time."""
        ...


class RequestDispatcher:
    """Answers the requests of one listener with the handlers of one server (a broker or a controller)."""

    def __init__(
        self,
        *,
        server: Any,
        handlers: HandlerTable,
        authorizer: Authorizer,
        stats: dict[ApiKey, ApiStats],
        is_privileged: bool = False,
        security_protocol: str = "PLAINTEXT",
        limits: RequestLimits | None = None,
        work: LongWork | None = None,
    ) -> None:
        """``work`` is shared by the listeners of a node."""
        self._limits = limits or RequestLimits()
        self._work = work or LongWork()
        self._server = server
        self._handlers = handlers
        self._authorizer = authorizer
        self._is_privileged = is_privileged
        self.quotas: Quotas | None = None
        """None while no quota is set: then requests are not counted."""
        self._security_protocol = security_protocol
        self._routes = {
            int(key): _Route(key, versions, stats.setdefault(key, ApiStats()))
            for key, versions in handlers.served.items()
        }

    def process(
        self, connection: Connection, frame: bytearray, refusal: ApiException | None = None
    ) -> Answer | PromisedAnswer[Any] | Awaitable[Answer]:
        """Answer a request; with ``refusal`` the response is that error and the handler is not called."""
        started = perf_counter()
        try:
            key, version, correlation_id, client_id_length = read_fixed_header(frame)
        except DecodeError as error:
            raise CloseConnection(str(error)) from error
        route = self._routes.get(key)
        if route is None:
            raise CloseConnection(f"API key {key} is not served on listener {connection.listener_name}")
        if not route.low <= version <= route.high:
            if route.api_key is ApiKey.API_VERSIONS:
                return self._unsupported_api_versions(route, correlation_id)
            raise CloseConnection(
                f"{API_TABLE[route.api_key].name} version {version} is not served: {route.low} to {route.high} are"
            )
        try:
            client_id, position = read_rest_of_header(
                frame,
                client_id_length,
                is_flexible=version >= route.request_flexible_since,
                tagged_fields_max=self._limits.inline.tagged_fields,
            )
        except DecodeError as error:
            raise _unreadable(route, version, error) from error
        handler = route.handler
        if handler is None:
            handler = route.handler = self._handlers.handler(route.api_key)
        context = RequestContext(
            api_key=route.api_key,
            api_version=version,
            correlation_id=correlation_id,
            client_id=client_id,
            principal=connection.principal,
            client_host=connection.peer_host,
            listener_name=connection.listener_name,
            security_protocol=self._security_protocol,
            connection_id=connection.connection_id,
            from_privileged_listener=self._is_privileged,
        )
        context.peer = connection
        if not route.is_plain and route.api_key is not ApiKey.API_VERSIONS:
            context.frame = frame
        try:
            if len(frame) > _INLINE_BYTES_MAX and not route.carries_records:
                raise TooManyElements("it is too large to be decoded in one step")
            request, _ = handler.read(frame, position, version, self._limits.inline)
        except TooManyElements:
            return self._in_turn(connection, route, handler, context, frame, position, refusal, started)
        except (DecodeError, IndexError) as error:
            raise _unreadable(route, version, error) from error
        self._work.short_requests += 1
        if route.api_key is ApiKey.API_VERSIONS and version >= 3:
            connection.client_software_name = getattr(request, "client_software_name", "unknown")
            connection.client_software_version = getattr(request, "client_software_version", "unknown")
        if refusal is not None:
            return self._answer(route, context, handler.on_error(request, refusal), started, len(frame))
        response = self.call(handler, request, context)
        if type(response) is PromisedAnswer and len(frame) <= _PROMISED_BYTES_MAX:
            busy_s = 0.0 if self.quotas is None else perf_counter() - started
            response.encode = partial(self._answer_promised, route, context, started, len(frame), connection, busy_s)
            return response
        if type(response) is not handler.response_type and isinstance(response, Awaitable):
            busy_s = 0.0 if self.quotas is None else perf_counter() - started
            answer = self._answer_later(
                route, handler, request, context, response, started, len(frame), connection, busy_s
            )
            return LaterAnswer(answer, response)
        if self.quotas is not None:
            self._throttle(connection, context, response, len(frame), perf_counter() - started)
        if takes_steps(response, version):
            return self._answer_in_steps(route, context, response, started, len(frame))
        return self._answer(route, context, response, started, len(frame))

    async def _in_turn(
        self,
        connection: Connection,
        route: _Route,
        handler: ApiHandler,
        context: RequestContext,
        frame: bytearray,
        position: int,
        refusal: ApiException | None,
        started: float,
    ) -> Answer:
        """Answer a long request: it is decoded on a thread and answered in its turn. Short ones overtake it."""
        is_peer = self._is_peer(route, context)
        limits = self._limits.of_brokers if is_peer else self._of_client(route)
        owner = work_owner(context)
        request_bytes = len(frame)
        async with self._work.turns(is_peer=is_peer).turn(owner) as turn:
            read = partial(handler.read, frame, position, context.api_version, limits)
            try:
                request, _ = await self._work.threads.run(owner, read)
            except (DecodeError, IndexError) as error:
                raise _unreadable(route, context.api_version, error) from error
            del frame, read  # The response may take a second; the large request is kept only once.
            parts = parts_of(route.api_key, request) if refusal is None else [request]
            if len(parts) == 1:
                began = perf_counter()
                response = (
                    self.call(handler, request, context) if refusal is None else handler.on_error(request, refusal)
                )
                turn.held_since(began)
                if not isinstance(response, Awaitable):
                    return await self._answer_now(connection, route, context, response, started, request_bytes, turn)
            else:
                response = await self._in_parts(handler, context, request, parts, turn)
                return await self._answer_now(connection, route, context, response, started, request_bytes, turn)
        busy_s = 0.0 if self.quotas is None else turn.busy_s
        return await self._answer_later(
            route, handler, request, context, response, started, request_bytes, connection, busy_s
        )

    async def _in_parts(
        self, handler: ApiHandler, context: RequestContext, request: Message, parts: list[Message], turn: Turn
    ) -> Message:
        """Return the whole response, or the error of the request if one of its parts fails as a whole."""
        access = Access(self._authorizer, context, handler.acl)
        whole: Any = None
        try:
            for part in parts:
                began = perf_counter()
                response = handler.function(self._server, part, access)
                held_s = turn.held_since(began)
                if isinstance(response, Awaitable):
                    response = await response
                if whole is None:
                    whole = response
                else:
                    join_parts(context.api_key, whole, response)
                pause_s = turn.pause_s(held_s)
                await (asyncio.sleep(pause_s) if pause_s else serve_others())
        except ApiException as error:
            return handler.on_error(request, error)
        except CloseConnection:
            raise
        except Exception:
            return handler.on_error(request, self._unexpected(context))
        return whole  # type: ignore[no-any-return]

    async def _answer_now(
        self,
        connection: Connection,
        route: _Route,
        context: RequestContext,
        response: Message | None,
        started: float,
        request_bytes: int,
        turn: Turn,
    ) -> Answer:
        if self.quotas is not None:
            self._throttle(connection, context, response, request_bytes, turn.busy_s)
        if takes_steps(response, context.api_version):
            return await self._answer_in_steps(route, context, response, started, request_bytes)
        began = perf_counter()
        try:
            return self._answer(route, context, response, started, request_bytes)
        finally:
            turn.held_since(began)

    def _of_client(self, route: _Route) -> DecodeLimits:
        """Return the limit, the larger one without an authorizer: requests not answered in parts delay others."""
        if route.api_key is ApiKey.FETCH:
            return self._limits.of_consumers
        if self._authorizer.is_absent or route.is_in_parts:
            return self._limits.in_parts
        return self._limits.of_clients

    def _is_peer(self, route: _Route, context: RequestContext) -> bool:
        """Return whether the caller may be a broker or a controller, whose requests name all of its partitions.

        Without rules, only requests between brokers count on a listener that is not a controller's.
        """
        if self._authorizer.is_absent and not (self._is_privileged or route.api_key in _OF_FOLLOWERS):
            return False
        return self._authorizer.authorize(
            context,
            AclOperation.CLUSTER_ACTION,
            ResourceType.CLUSTER,
            CLUSTER_NAME,
            log_if_allowed=False,
            log_if_denied=False,
        )

    def _throttle(
        self,
        connection: Connection,
        context: RequestContext,
        response: Message | None,
        request_bytes: int,
        busy_s: float,
    ) -> None:
        quotas = self.quotas
        throttle_ms = 0 if quotas is None else quotas.throttle_ms(context, response, request_bytes, busy_s)
        if throttle_ms > 0:
            connection.rest(throttle_ms / 1000)

    def call(self, handler: ApiHandler, request: Message, context: RequestContext) -> Any:
        """Return the handler's response, or its awaitable; an ApiException becomes the API's error response."""
        try:
            return handler.function(self._server, request, Access(self._authorizer, context, handler.acl))
        except ApiException as error:
            return handler.on_error(request, error)
        except CloseConnection:
            raise
        except Exception:
            return handler.on_error(request, self._unexpected(context))

    async def _answer_later(
        self,
        route: _Route,
        handler: ApiHandler,
        request: Message,
        context: RequestContext,
        waiting: Awaitable[Any],
        started: float,
        request_bytes: int,
        connection: Connection,
        busy_s: float,
    ) -> Answer:
        try:
            response = await waiting
        except ApiException as error:
            response = handler.on_error(request, error)
        except CloseConnection:
            raise
        except Exception:
            response = handler.on_error(request, self._unexpected(context))
        if self.quotas is not None:
            if isinstance(response, LongAnswer):
                busy_s += response.busy_s
            self._throttle(connection, context, response, request_bytes, busy_s)
        return await self._answer_in_steps(route, context, response, started, request_bytes)

    def _answer_promised(
        self,
        route: _Route,
        context: RequestContext,
        started: float,
        request_bytes: int,
        connection: Connection,
        busy_s: float,
        response: Message,
    ) -> Answer:
        if self.quotas is not None:
            self._throttle(connection, context, response, request_bytes, busy_s)
        return self._answer(route, context, response, started, request_bytes)

    def _unexpected(self, context: RequestContext) -> ApiException:
        """Log the cause; the client only learns that the server failed."""
        log.exception("%s version %d from %s failed", context.api_key.name, context.api_version, context.client_host)
        return ApiException(
            ErrorCode.UNKNOWN_SERVER_ERROR, "The server experienced an unexpected error when processing the request."
        )

    def _answer(
        self, route: _Route, context: RequestContext, response: Message | None, started: float, request_bytes: int
    ) -> Answer:
        version = context.api_version
        if response is None:
            took_s = perf_counter() - started
            route.stats.answered(version, took_s, request_bytes, 0)
            if request_log.isEnabledFor(logging.DEBUG):
                _log_request(context, took_s, request_bytes, 0)
            return None
        header = _FLEXIBLE_CORRELATION if version >= route.response_flexible_since else _CORRELATION
        chunks = [header.pack(context.correlation_id)]
        try:
            response.write(version, chunks)
        except EncodeError as error:
            raise self._unwritable(context) from error
        return self._answered(route, context, response, chunks, started, request_bytes)

    async def _answer_in_steps(
        self, route: _Route, context: RequestContext, response: Message | None, started: float, request_bytes: int
    ) -> Answer:
        """As ``_answer``; a long response is encoded in steps."""
        version = context.api_version
        if not takes_steps(response, version):
            return self._answer(route, context, response, started, request_bytes)
        header = _FLEXIBLE_CORRELATION if version >= route.response_flexible_since else _CORRELATION
        chunks = [header.pack(context.correlation_id)]
        try:
            for _ in write_in_steps(response, version, chunks):
                await serve_others()
        except EncodeError as error:
            raise self._unwritable(context) from error
        return self._answered(route, context, response, chunks, started, request_bytes)

    def _unwritable(self, context: RequestContext) -> CloseConnection:
        log.exception("%s version %d: the response cannot be written", context.api_key.name, context.api_version)
        return CloseConnection(f"no answer could be written to {context.api_key.name}")

    def _answered(
        self,
        route: _Route,
        context: RequestContext,
        response: Any,
        chunks: list[bytes],
        started: float,
        request_bytes: int,
    ) -> Answer:
        version = context.api_version
        size = sum(map(len, chunks))
        for error_code in route.errors_of(response):
            route.stats.failed(error_code)
        took_s = perf_counter() - started
        route.stats.answered(version, took_s, request_bytes, size)
        if request_log.isEnabledFor(logging.DEBUG):
            _log_request(context, took_s, request_bytes, size)
        if size < 65536:
            return [b"".join(chunks)]
        return list(chunks)

    def _unsupported_api_versions(self, route: _Route, correlation_id: int) -> Answer:
        handler = route.handler = route.handler or self._handlers.handler(route.api_key)
        context = RequestContext(api_key=route.api_key, api_version=0, correlation_id=correlation_id)
        response = self.call(handler, handler.request_type(), context)
        response.error_code = int(ErrorCode.UNSUPPORTED_VERSION)
        route.stats.failed(response.error_code)
        return [_CORRELATION.pack(correlation_id) + response.encode(0)]


def _log_request(context: RequestContext, took_s: float, request_bytes: int, response_bytes: int) -> None:
    """Log the client and the request without contents: requests carry passwords and records."""
    request_log.debug(
        "Completed request %s version %d from %s (client %r, %s) over %s: %.3f ms, %d bytes in, %d bytes out",
        context.api_key.name,
        context.api_version,
        context.principal,
        context.client_id,
        context.client_host,
        context.listener_name,
        took_s * 1000,
        request_bytes,
        response_bytes,
    )


def _unreadable(route: _Route, version: int, error: Exception) -> CloseConnection:
    return CloseConnection(f"{API_TABLE[route.api_key].name} version {version} cannot be read: {error}")
