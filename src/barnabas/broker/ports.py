"""What a broker needs from others: the controller, wherever it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from barnabas.protocol.schema import Message
    from barnabas.security.request_context import RequestContext

__all__ = ["ControllerChannel"]


class ControllerChannel(Protocol):
    """The way to the active controller: in the same process, or over the wire in an Envelope."""

    async def forward(self, request: Message, context: RequestContext) -> Message:
        """Have the controller answer ``request`` for the original principal and host.

        Raises ApiException(NOT_CONTROLLER) when there is no active controller to be had in time.
        """
        ...

    async def send(self, request: Message) -> Message:
        """A request of the broker's own (heartbeats, producer ids)."""
        ...
