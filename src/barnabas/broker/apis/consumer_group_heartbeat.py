"""ConsumerGroupHeartbeat (KIP-848): refused until groups of this protocol exist, as by Kafka with group.version=0.

The API is advertised, as such a Kafka does. If librdkafka does not find the API, it waits without an error; if it
receives UNSUPPORTED_VERSION, it fails immediately.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.network.api_handler import Access, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

_ADVICE = "set group.protocol=classic in the consumer"


@handles(ApiKey.CONSUMER_GROUP_HEARTBEAT)
def handle_consumer_group_heartbeat(
    broker: Broker, request: ConsumerGroupHeartbeatRequest, access: Access
) -> ConsumerGroupHeartbeatResponse:
    """Refuse the request. As in Kafka, no authorization is required: the answer does not depend on the group."""
    broker.missing_features.requested("a group of the consumer protocol", _ADVICE, access.context)
    raise ApiException(
        ErrorCode.UNSUPPORTED_VERSION, f"This broker has no groups of the consumer protocol (KIP-848): {_ADVICE}."
    )
