"""InitProducerId: returns an id and an epoch for an idempotent or a transactional producer. Versions 0 to 5.

A transactional producer gets the next epoch of its transactional id, which fences the producers before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.coordinator.producer_id_and_epoch import ProducerIdAndEpoch
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from barnabas.broker.broker import Broker

_FENCED_SINCE = 4


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
        return _init_transactional(broker, request, access)
    if not access.allows_on_cluster(AclOperation.IDEMPOTENT_WRITE, log_if_denied=False) and not access.allows_any(
        ResourceType.TOPIC, AclOperation.WRITE
    ):
        raise access.denied(AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)
    _expected(request)
    producer_id = broker.producer_ids.take_now()
    if producer_id is not None:
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
    return _wait_for_block(broker)


async def _wait_for_block(broker: Broker) -> InitProducerIdResponse:
    return InitProducerIdResponse(producer_id=await broker.producer_ids.take(), producer_epoch=0)


async def _init_transactional(broker: Broker, request: InitProducerIdRequest, access: Access) -> InitProducerIdResponse:
    transactional_id = request.transactional_id or ""
    expected = _expected(request)
    transactions = broker.transactions
    result = await transactions.with_producer_id(
        lambda: transactions.coordinator.init_producer(
            transactional_id, request.transaction_timeout_ms, expected, transactions.now_ms()
        )
    )
    code = result.error_code
    if code is ErrorCode.PRODUCER_FENCED and access.context.api_version < _FENCED_SINCE:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return InitProducerIdResponse(error_code=code, producer_id=result.producer_id, producer_epoch=result.epoch)


def _expected(request: InitProducerIdRequest) -> ProducerIdAndEpoch | None:
    """Return what the producer has already. Raise INVALID_REQUEST for one half of it."""
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        raise ApiException(ErrorCode.INVALID_REQUEST)
    return None if request.producer_id < 0 else ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
