"""InitProducerId: returns an id for an idempotent producer. Transactional ids are refused until transactions exist."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from barnabas.broker.broker import Broker


def _error_response(request: InitProducerIdRequest, error: ApiException) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error.code, producer_id=-1, producer_epoch=-1)


@handles(
    ApiKey.INIT_PRODUCER_ID,
    acl=(
        AclRule(ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE),
        AclRule(ResourceType.CLUSTER, AclOperation.IDEMPOTENT_WRITE),
        AclRule(ResourceType.TOPIC, AclOperation.WRITE),
    ),
    on_error=_error_response,
)
def handle_init_producer_id(
    broker: Broker, request: InitProducerIdRequest, access: Access
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    if request.transactional_id is not None:
        if not access.allows(ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE, request.transactional_id):
            raise access.denied(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
        broker.missing_features.requested("transactions", "use a producer without transactional.id", access.context)
        raise ApiException(ErrorCode.INVALID_REQUEST, "This broker does not support transactions.")
    if not access.allows_on_cluster(AclOperation.IDEMPOTENT_WRITE, log_if_denied=False) and not access.allows_any(
        ResourceType.TOPIC, AclOperation.WRITE
    ):
        raise access.denied(AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        raise ApiException(ErrorCode.INVALID_REQUEST)
    producer_id = broker.producer_ids.take_now()
    if producer_id is not None:
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
    return _wait_for_block(broker)


async def _wait_for_block(broker: Broker) -> InitProducerIdResponse:
    return InitProducerIdResponse(producer_id=await broker.producer_ids.take(), producer_epoch=0)
