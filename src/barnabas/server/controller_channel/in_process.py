"""Connects broker and controller in one process, with the checks and the principal of a request over the wire.

Envelopes are used only between processes; inside one the request is passed on unchanged. A client's request is
authorized for the client. The broker's own requests (registration, heartbeats, producer ids, internal topics) are
allowed because they are from the same process, whatever principal the broker would have over the wire (decision 10).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, TypeVar

from barnabas.common.errors import ApiException, ErrorCode, InvariantViolated
from barnabas.network.api_handler import Access
from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.security.authorizer.authorizer import AllowAllAuthorizer

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.network.api_handler import HandlerTable
    from barnabas.protocol.schema import Message, Request
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.request_context import RequestContext

__all__ = ["InProcessChannel"]

R = TypeVar("R", bound="Message")


class InProcessChannel:
    """Implements the broker's ``ControllerChannel``. ``own_context`` is the context of the broker's own calls."""

    def __init__(
        self,
        *,
        controller: QuorumController,
        handlers: HandlerTable,
        authorizer: Authorizer,
        own_context: Callable[[ApiKey, int], RequestContext],
        notice_time: Callable[[], None] | None = None,
    ) -> None:
        """``notice_time`` is called before each request: see ``ControllerDispatcher``."""
        self._controller = controller
        self._handlers = handlers
        self._authorizer = authorizer
        self._own_context = own_context
        self._notice_time = notice_time
        self._boundary = AllowAllAuthorizer()

    async def forward(self, request: Message, context: RequestContext) -> Message:
        return await self._call(request, context, self._authorizer)

    async def send(self, request: Request[R]) -> R:
        key = ApiKey(request.API_KEY)
        response = await self._call(request, self._own_context(key, API_TABLE[key].highest), self._boundary)
        if not isinstance(response, request.response_type()):
            raise InvariantViolated(f"{type(request).__name__} was answered by {type(response).__name__}")
        return response

    def versions(self) -> None:
        """Return None: both sides are the same program."""

    async def _call(self, request: Message, context: RequestContext, authorizer: Authorizer) -> Message:
        if self._notice_time is not None:
            self._notice_time()
        handler = self._handlers.handler(context.api_key)
        access = Access(authorizer, context, handler.acl)
        if not self._controller.is_active:
            raise ApiException(ErrorCode.NOT_CONTROLLER, "No controller is active.")
        try:
            response: Message | Awaitable[Message] = handler.function(self._controller, request, access)
            if isinstance(response, Awaitable):
                response = await response
        except ApiException as error:
            response = handler.on_error(request, error)
        return response
