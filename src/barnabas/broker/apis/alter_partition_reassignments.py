"""AlterPartitionReassignments: decided by the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.forwarding import forward_to_controller
from barnabas.network.api_handler import Access, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from barnabas.broker.broker import Broker
    from barnabas.common.errors import ApiException
    from barnabas.protocol.schema import Message


def _error_response(
    request: AlterPartitionReassignmentsRequest, error: ApiException
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        error_code=int(error.code),
        error_message=error.message,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=partition.partition_index,
                        error_code=int(error.code),
                        error_message=error.message,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


@handles(ApiKey.ALTER_PARTITION_REASSIGNMENTS, on_error=_error_response)
def handle_alter_partition_reassignments(broker: Broker, request: Message, access: Access) -> Awaitable[Message]:
    return forward_to_controller(broker, request, access)
