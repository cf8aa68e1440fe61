"""AddOffsetsToTxn: adds the offsets of a group to the transaction of a producer. Versions 0 to 4."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.common.topic_name import GROUP_METADATA_TOPIC
from barnabas.common.topic_partition import TopicPartition
from barnabas.coordinator.producer_id_and_epoch import ProducerIdAndEpoch
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

_FENCED_SINCE = 2


def _error_response(request: AddOffsetsToTxnRequest, error: ApiException) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=error.code)


@handles(
    ApiKey.ADD_OFFSETS_TO_TXN,
    acl=(
        AclRule(ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE),
        AclRule(ResourceType.GROUP, AclOperation.READ),
    ),
    on_error=_error_response,
)
async def handle_add_offsets_to_txn(
    broker: Broker, request: AddOffsetsToTxnRequest, access: Access
) -> AddOffsetsToTxnResponse:
    if not access.allows(ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE, request.transactional_id):
        raise access.denied(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    if not access.allows(ResourceType.GROUP, AclOperation.READ, request.group_id):
        raise access.denied(AclOperation.READ, ResourceType.GROUP, request.group_id)
    partition = TopicPartition(GROUP_METADATA_TOPIC, broker.groups.coordinator.partition_for(request.group_id))
    result = await broker.transactions.add_partitions(
        request.transactional_id,
        ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        [partition],
        client_version=0,
    )
    code = result.error_code
    if code is ErrorCode.PRODUCER_FENCED and access.context.api_version < _FENCED_SINCE:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return AddOffsetsToTxnResponse(error_code=code)
