"""The dispatcher of a controller's listeners. It also opens the envelopes of brokers and answers the requests inside.

The client's request is decided as if the client had connected directly, and counted and audited as the client's. A
quota of one client never delays the broker's connection, because all its clients share it. If this controller is not
the active one, the envelope itself carries that error, and the broker contacts the active controller. A client whose
rights can't be decided yet, because the rules are still being read, waits for them.

A barnabas broker numbers its calls. A repeated call is decided once. While the first attempt is in progress, both
receive its answer. Later the log identifies the call (``controller.applied_calls``), whichever controller was active.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from struct import Struct
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.long_response import LongAnswer
from barnabas.controller.envelope import ACL, open_envelope
from barnabas.network.api_handler import ApiHandler
from barnabas.network.readiness_gate import HOLD_TIMEOUT_S
from barnabas.network.request_dispatcher import RequestDispatcher
from barnabas.network.stepped_responses import serve_others
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.envelope_tags import call_id_of, set_committed_offset
from barnabas.protocol.errors import EncodeError
from barnabas.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from barnabas.protocol.stepped_writing import takes_steps, write_in_steps
from barnabas.security.principal_serde import deserialize_principal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.controller.applied_calls import AppliedCall
    from barnabas.controller.envelope import ForwardedRequest
    from barnabas.network.api_handler import Access, HandlerTable
    from barnabas.network.connection import Answer, Connection
    from barnabas.network.long_work_scheduler import LongWork
    from barnabas.network.request_limits import RequestLimits
    from barnabas.network.request_metrics import ApiStats
    from barnabas.protocol.messages.create_topics import CreateTopicsRequest
    from barnabas.protocol.schema import Message
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.principal import Principal
    from barnabas.security.request_context import RequestContext

__all__ = ["ControllerDispatcher"]

log = logging.getLogger(__name__)

_CORRELATION = Struct(">i")
_FLEXIBLE_CORRELATION = Struct(">ix")
_NO_LEADER_HERE = {
    ApiKey.DESCRIBE_QUORUM: int(ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ApiKey.ADD_RAFT_VOTER: int(ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ApiKey.REMOVE_RAFT_VOTER: int(ErrorCode.NOT_LEADER_OR_FOLLOWER),
}


class ControllerDispatcher(RequestDispatcher):
    """``ready`` is set once the authorizer can decide for all principals (``NodeAuthorizer.ready``)."""

    def __init__(
        self,
        *,
        server: Any,
        handlers: HandlerTable,
        authorizer: Authorizer,
        stats: dict[ApiKey, ApiStats],
        ready: asyncio.Event,
        security_protocol: str = "PLAINTEXT",
        deserialize: Callable[[bytes | None], Principal] = deserialize_principal,
        hold_timeout_s: float = HOLD_TIMEOUT_S,
        limits: RequestLimits | None = None,
        work: LongWork | None = None,
        notice_time: Callable[[], None] | None = None,
    ) -> None:
        """``notice_time`` is called before each request: a leader that was frozen resigns before it answers."""
        super().__init__(
            server=server,
            handlers=handlers,
            authorizer=authorizer,
            stats=stats,
            is_privileged=True,
            security_protocol=security_protocol,
            limits=limits,
            work=work,
        )
        self._ready = ready
        self._deserialize = deserialize
        self._hold_timeout_s = hold_timeout_s
        self._notice_time = notice_time
        self._under_way: dict[bytes, asyncio.Future[EnvelopeResponse]] = {}
        route = self._routes.get(ApiKey.ENVELOPE)
        if route is not None:
            route.handler = ApiHandler(ApiKey.ENVELOPE, frozenset(ACL), self._forwarded, None)

    def process(
        self, connection: Connection, frame: bytearray, refusal: ApiException | None = None
    ) -> Answer | Awaitable[Answer]:
        if self._notice_time is not None:
            self._notice_time()
        return super().process(connection, frame, refusal)

    def _throttle(
        self,
        connection: Connection,
        context: RequestContext,
        response: Message | None,
        request_bytes: int,
        busy_s: float,
    ) -> None:
        """Mute a broker's connection only for an envelope that it had no right to send."""
        if isinstance(response, EnvelopeResponse) and response.error_code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return
        super()._throttle(connection, context, response, request_bytes, busy_s)

    # --- envelopes

    def _forwarded(
        self, server: Any, envelope: EnvelopeRequest, access: Access
    ) -> EnvelopeResponse | Awaitable[EnvelopeResponse]:
        started = perf_counter()
        try:
            opened = open_envelope(envelope, access, self._handlers, self._deserialize, self._limits.of_brokers)
        except ApiException as error:
            # A client can cause an unreadable request at will; the other errors are faults of the broker.
            is_fault = error.code in (ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, ErrorCode.INVALID_REQUEST)
            level = logging.WARNING if is_fault else logging.DEBUG
            log.log(level, "refused an envelope of %s: %s", access.context.principal, error)
            return EnvelopeResponse(error_code=int(error.code))
        size = len(envelope.request_data)
        call_id = call_id_of(envelope)
        if call_id is not None:
            return self._numbered(opened, call_id, size, started)
        return self._answer_call(opened, size, started)

    def _answer_call(
        self, opened: ForwardedRequest, size: int, started: float
    ) -> EnvelopeResponse | Awaitable[EnvelopeResponse]:
        if not self._authorizer.is_ready_for(opened.context.principal):
            return self._when_ready(opened, size)
        return self._decided(opened, size, started)

    def _numbered(
        self, opened: ForwardedRequest, call_id: bytes, size: int, started: float
    ) -> EnvelopeResponse | Awaitable[EnvelopeResponse]:
        """Handle a call that may be a repetition. The work continues even if the broker disconnects."""
        under_way = self._under_way.get(call_id)
        if under_way is None:
            applied = self._server.calls.find(call_id) if self._server.is_active else None
            if applied is not None:
                return self._with_offset(self._repeated(opened, applied, size))
            opened.context.call_id = call_id
            answer = self._answer_call(opened, size, started)
            if not isinstance(answer, Awaitable):
                return self._with_offset(answer)
            under_way = self._under_way[call_id] = asyncio.ensure_future(answer)
            under_way.add_done_callback(lambda done: self._under_way.pop(call_id, None))
        return self._shared(under_way)

    async def _shared(self, under_way: asyncio.Future[EnvelopeResponse]) -> EnvelopeResponse:
        return self._with_offset(await asyncio.shield(under_way))

    def _repeated(self, opened: ForwardedRequest, applied: AppliedCall, size: int) -> EnvelopeResponse:
        context = opened.context
        if applied.body is None or applied.api_version != context.api_version:
            lost = ApiException(
                ErrorCode.REQUEST_TIMED_OUT, "The request was carried out, but its answer has been lost."
            )
            return self._sealed(opened, opened.handler.on_error(opened.request, lost), size, perf_counter(), 0.0)
        if context.api_key is ApiKey.CREATE_TOPICS:
            from barnabas.controller.apis.create_topics import restore_configs

            known = opened.handler.response_type.decode(applied.body, context.api_version)
            restored = restore_configs(self._server, cast("CreateTopicsRequest", opened.request), cast("Any", known))
            return self._sealed(opened, restored, size, perf_counter(), 0.0)
        route = self._routes[context.api_key]
        header = _FLEXIBLE_CORRELATION if context.api_version >= route.response_flexible_since else _CORRELATION
        return EnvelopeResponse(response_data=header.pack(context.correlation_id) + applied.body)

    def _with_offset(self, response: EnvelopeResponse) -> EnvelopeResponse:
        if response.error_code == ErrorCode.NONE:
            set_committed_offset(response, self._server.committed_image.offset)
        return response

    async def _when_ready(self, opened: ForwardedRequest, size: int) -> EnvelopeResponse:
        try:
            async with asyncio.timeout(self._hold_timeout_s):
                await self._ready.wait()
        except TimeoutError:
            refusal = ApiException(
                ErrorCode.REQUEST_TIMED_OUT, "The controller has not finished reading its access rules; try again."
            )
            return self._sealed(opened, opened.handler.on_error(opened.request, refusal), size, perf_counter(), 0.0)
        answer = self._decided(opened, size, perf_counter())
        return await answer if isinstance(answer, Awaitable) else answer

    def _decided(
        self, opened: ForwardedRequest, size: int, started: float
    ) -> EnvelopeResponse | Awaitable[EnvelopeResponse]:
        response = self.call(*opened)
        busy_s = perf_counter() - started
        if isinstance(response, Awaitable):
            return self._decided_later(opened, response, size, started, busy_s)
        if takes_steps(response, opened.context.api_version):
            return self._sealed_in_steps(opened, response, size, started, busy_s)
        return self._sealed(opened, response, size, started, busy_s)

    async def _decided_later(
        self, opened: ForwardedRequest, waiting: Awaitable[Any], size: int, started: float, busy_s: float
    ) -> EnvelopeResponse:
        try:
            response = await waiting
        except ApiException as error:
            response = opened.handler.on_error(opened.request, error)
        except Exception:
            response = opened.handler.on_error(opened.request, self._unexpected(opened.context))
        if isinstance(response, LongAnswer):
            busy_s += response.busy_s
        return await self._sealed_in_steps(opened, response, size, started, busy_s)

    async def _sealed_in_steps(
        self, opened: ForwardedRequest, response: Message, size: int, started: float, busy_s: float
    ) -> EnvelopeResponse:
        """Seal as ``_sealed`` does, but encode a long answer in steps."""
        version = opened.context.api_version
        if not takes_steps(response, version):
            return self._sealed(opened, response, size, started, busy_s)
        chunks: list[bytes] = []
        try:
            for _ in write_in_steps(response, version, chunks):
                await serve_others()
        except EncodeError:
            return self._sealed(opened, response, size, started, busy_s)
        return self._sealed(opened, response, size, started, busy_s, chunks)

    def _sealed(
        self,
        opened: ForwardedRequest,
        response: Message,
        size: int,
        started: float,
        busy_s: float,
        body: Sequence[bytes] | None = None,
    ) -> EnvelopeResponse:
        """Return the answer with its header, in the client's version, or only an error of the envelope.

        ``body`` is the encoded answer, if it was encoded already.
        """
        context = opened.context
        route = self._routes[context.api_key]
        route.handler = opened.handler
        errors = route.errors_of(response)
        for error_code in errors:
            route.stats.failed(error_code)
        if _NO_LEADER_HERE.get(context.api_key, int(ErrorCode.NOT_CONTROLLER)) in errors:
            return EnvelopeResponse(error_code=int(ErrorCode.NOT_CONTROLLER))
        if self.quotas is not None:
            self.quotas.throttle_ms(context, response, size, busy_s)
        version = context.api_version
        header = _FLEXIBLE_CORRELATION if version >= route.response_flexible_since else _CORRELATION
        chunks = [header.pack(context.correlation_id), *(body or ())]
        try:
            if body is None:
                response.write(version, chunks)
        except EncodeError:
            log.exception("%s version %d: the response cannot be written", context.api_key.name, version)
            return EnvelopeResponse(error_code=int(ErrorCode.UNKNOWN_SERVER_ERROR))
        data = b"".join(chunks)
        route.stats.answered(version, perf_counter() - started, size, len(data))
        return EnvelopeResponse(response_data=data)
