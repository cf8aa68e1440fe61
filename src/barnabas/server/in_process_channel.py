"""Broker and controller in one process meet here, with the checks and the principal that a request over the wire has.

An Envelope travels only between processes; inside one the request is handed over as it is.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, cast

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.network.api_handler import Access
from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.security.request_context import RequestContext

if TYPE_CHECKING:
    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.network.api_handler import HandlerTable
    from barnabas.protocol.schema import Message
    from barnabas.security.authorizer.authorizer import Authorizer

__all__ = ["InProcessChannel"]


class InProcessChannel:
    """Implements the broker's ``ControllerChannel``."""

    def __init__(
        self, *, controller: QuorumController, handlers: HandlerTable, authorizer: Authorizer, listener_name: str
    ) -> None:
        self._controller = controller
        self._handlers = handlers
        self._authorizer = authorizer
        self._listener_name = listener_name

    async def forward(self, request: Message, context: RequestContext) -> Message:
        handler = self._handlers.handler(context.api_key)
        access = Access(self._authorizer, context, handler.acl)
        if not self._controller.is_active:
            raise ApiException(ErrorCode.NOT_CONTROLLER, "No controller is active.")
        try:
            response = handler.function(self._controller, request, access)
            if isinstance(response, Awaitable):
                response = await response
        except ApiException as error:
            response = handler.on_error(request, error)
        return cast("Message", response)

    async def send(self, request: Message) -> Message:
        key = ApiKey(request.API_KEY)
        context = RequestContext(
            api_key=key,
            api_version=API_TABLE[key].highest,
            listener_name=self._listener_name,
            from_privileged_listener=True,
        )
        return await self.forward(request, context)
