"""Forwards requests that the controller decides, unchanged (KIP-590).

The broker checks nothing: the controller decides for the original principal and host. ``forwarding_queue`` and
``forwarded_call`` describe how a request travels to another process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.protocol.api_keys import API_TABLE, ApiKey

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from barnabas.broker.broker import Broker
    from barnabas.network.api_handler import Access
    from barnabas.protocol.schema import Message

__all__ = ["common_versions", "forward_to_controller"]


def forward_to_controller(broker: Broker, request: Message, access: Access) -> Awaitable[Message]:
    return broker.controller.forward(request, access.context)


def common_versions(
    served: Mapping[ApiKey, tuple[int, int]], controller: Mapping[int, tuple[int, int]] | None
) -> Mapping[ApiKey, tuple[int, int]]:
    """Return the versions of forwarded APIs that both sides serve, or None while no controller is known."""
    if controller is None:
        return served
    common = {}
    for key, (low, high) in served.items():
        if API_TABLE[key].forwardable:
            theirs = controller.get(key, (0, -1))
            low, high = max(low, theirs[0]), min(high, theirs[1])
        if low <= high:
            common[key] = (low, high)
    return common
