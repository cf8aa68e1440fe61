"""DescribeTransactions: the state of transactions that this broker coordinates (KIP-664). Version 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException
from barnabas.common.resource import ResourceType
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


def _error_response(request: DescribeTransactionsRequest, error: ApiException) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[
            TransactionState(transactional_id=transactional_id, error_code=error.code)
            for transactional_id in request.transactional_ids
        ]
    )


@handles(
    ApiKey.DESCRIBE_TRANSACTIONS,
    acl=(
        AclRule(ResourceType.TRANSACTIONAL_ID, AclOperation.DESCRIBE),
        AclRule(ResourceType.TOPIC, AclOperation.DESCRIBE),
    ),
    on_error=_error_response,
)
def handle_describe_transactions(
    broker: Broker, request: DescribeTransactionsRequest, access: Access
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[_describe(broker, name, access) for name in request.transactional_ids]
    )


def _describe(broker: Broker, transactional_id: str, access: Access) -> TransactionState:
    try:
        if not access.allows(ResourceType.TRANSACTIONAL_ID, AclOperation.DESCRIBE, transactional_id):
            raise access.denied(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id)
        found = broker.transactions.coordinator.describe(transactional_id)
    except ApiException as error:
        return TransactionState(transactional_id=transactional_id, error_code=error.code)
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(found.partitions):
        topics.setdefault(topic, []).append(partition)
    allowed = access.allowed(ResourceType.TOPIC, AclOperation.DESCRIBE, topics, log_if_denied=False)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=found.state.shown,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.start_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=[TopicData(topic=name, partitions=ids) for name, ids in topics.items() if name in allowed],
    )
