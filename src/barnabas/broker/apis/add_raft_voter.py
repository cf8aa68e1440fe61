"""AddRaftVoter: decided by the leader of the metadata quorum (KIP-853)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.forwarding import forward_to_controller
from barnabas.network.api_handler import Access, handles
from barnabas.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from barnabas.broker.broker import Broker
    from barnabas.protocol.schema import Message


@handles(ApiKey.ADD_RAFT_VOTER)
def handle_add_raft_voter(broker: Broker, request: Message, access: Access) -> Awaitable[Message]:
    return forward_to_controller(broker, request, access)
