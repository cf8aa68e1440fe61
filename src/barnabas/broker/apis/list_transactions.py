"""ListTransactions: the transactions that this broker coordinates, filtered (KIP-664, KIP-1152)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.transactional_id_pattern import compile_pattern
from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException
from barnabas.common.resource import ResourceType
from barnabas.coordinator.transaction.transaction_coordinator import TransactionFilter
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


def _error_response(request: ListTransactionsRequest, error: ApiException) -> ListTransactionsResponse:
    return ListTransactionsResponse(error_code=error.code)


@handles(
    ApiKey.LIST_TRANSACTIONS,
    acl=(AclRule(ResourceType.TRANSACTIONAL_ID, AclOperation.DESCRIBE),),
    on_error=_error_response,
)
def handle_list_transactions(
    broker: Broker, request: ListTransactionsRequest, access: Access
) -> ListTransactionsResponse:
    wanted = TransactionFilter(
        frozenset(request.producer_id_filters),
        frozenset(request.state_filters),
        request.duration_filter,
    )
    transactions = broker.transactions
    found = transactions.coordinator.list(wanted, transactions.now_ms())
    matches = compile_pattern(request.transactional_id_pattern) if request.transactional_id_pattern else None
    names = [item.transactional_id for item in found]
    allowed = access.allowed(
        ResourceType.TRANSACTIONAL_ID, AclOperation.DESCRIBE, names, log_if_denied=False, log_if_allowed=False
    )
    return ListTransactionsResponse(
        unknown_state_filters=wanted.unknown_states,
        transaction_states=[
            TransactionState(
                transactional_id=item.transactional_id,
                producer_id=item.producer_id,
                transaction_state=item.state.shown,
            )
            for item in found
            # Only ids that the caller may see are matched: a match may take long.
            if item.transactional_id in allowed and (matches is None or matches(item.transactional_id))
        ],
    )
