"""EndTxn: commits or aborts a transaction. Versions 0 to 5; from 5 on the producer goes on in the epoch of the answer.

The answer does not wait for the markers in the transaction's partitions. Until they are written, requests of the
producer wait a moment, or are answered with CONCURRENT_TRANSACTIONS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.coordinator.producer_id_and_epoch import ProducerIdAndEpoch
from barnabas.coordinator.transaction.transaction_metadata import TRANSACTIONS_V2
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

_FENCED_SINCE = 2
_EPOCH_SINCE = 5


def _error_response(request: EndTxnRequest, error: ApiException) -> EndTxnResponse:
    return EndTxnResponse(error_code=error.code)


@handles(
    ApiKey.END_TXN,
    acl=(AclRule(ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE),),
    on_error=_error_response,
)
async def handle_end_txn(broker: Broker, request: EndTxnRequest, access: Access) -> EndTxnResponse:
    if not access.allows(ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE, request.transactional_id):
        raise access.denied(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    transactions, version = broker.transactions, access.context.api_version
    result = await transactions.with_producer_id(
        lambda: transactions.coordinator.end(
            request.transactional_id,
            ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
            transactions.now_ms(),
            is_commit=request.committed,
            client_version=TRANSACTIONS_V2 if version >= _EPOCH_SINCE else 0,
        )
    )
    code = result.error_code
    if code is ErrorCode.PRODUCER_FENCED and version < _FENCED_SINCE:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.NONE and version >= _EPOCH_SINCE:
        return EndTxnResponse(producer_id=result.producer_id, producer_epoch=result.epoch)
    return EndTxnResponse(error_code=code)
