"""DescribeQuorum: answered by the active controller, which leads the quorum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.forwarding import forward_to_controller
from barnabas.network.api_handler import Access, handles
from barnabas.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from barnabas.broker.broker import Broker
    from barnabas.protocol.schema import Message


@handles(ApiKey.DESCRIBE_QUORUM)
def handle_describe_quorum(broker: Broker, request: Message, access: Access) -> Awaitable[Message]:
    return forward_to_controller(broker, request, access)
