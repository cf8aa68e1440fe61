"""Requests that the controller decides are passed on as they are (KIP-590).

The broker checks nothing: the controller decides for the original principal and host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from barnabas.broker.broker import Broker
    from barnabas.network.api_handler import Access
    from barnabas.protocol.schema import Message

__all__ = ["forward_to_controller"]


def forward_to_controller(broker: Broker, request: Message, access: Access) -> Awaitable[Message]:
    return broker.controller.forward(request, access.context)
