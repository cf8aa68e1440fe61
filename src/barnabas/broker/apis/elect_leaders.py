"""ElectLeaders: decided by the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.forwarding import forward_to_controller
from barnabas.common.errors import ApiException
from barnabas.network.api_handler import Access, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.protocol.schema import Message


def _error_response(request: ElectLeadersRequest, error: ApiException) -> ElectLeadersResponse:
    results = [
        ReplicaElectionResult(
            topic=topic.topic,
            partition_result=[
                PartitionResult(partition_id=index, error_code=int(error.code), error_message=error.message)
                for index in topic.partitions
            ],
        )
        for topic in request.topic_partitions or ()
    ]
    return ElectLeadersResponse(error_code=int(error.code), replica_election_results=results)


@handles(ApiKey.ELECT_LEADERS, on_error=_error_response)
async def handle_elect_leaders(broker: Broker, request: ElectLeadersRequest, access: Access) -> Message:
    try:
        return await forward_to_controller(broker, request, access)
    except ApiException as error:
        response = _error_response(request, error)
        if access.context.api_version == 0:
            response.error_code = 0  # The response has no top-level error.
        return response
