"""Decides what EndTxn does in each state (KIP-98; KIP-890 for clients of version 2).

A client of version 2 is in another epoch after each transaction. So the epoch of a request tells a repeated EndTxn,
whose answer was lost, from the end of a transaction without partitions.

While the markers of a transaction are being written, every request is early. A client of version 2 may already have its
next epoch, or its next producer id, which the coordinator has only afterwards.
"""

from __future__ import annotations

from barnabas.common.errors import ErrorCode
from barnabas.coordinator.transaction.transaction_metadata import (
    LAST_EPOCH,
    TRANSACTIONS_V2,
    TransactionMetadata,
    TransactionState,
)

__all__ = ["EndDecision", "decide_end"]

EndDecision = ErrorCode | None
"""None: the transaction ends now. NONE: it has ended before, in the way that is asked for. Otherwise the error."""

_OUTCOMES = {TransactionState.COMPLETE_COMMIT: True, TransactionState.COMPLETE_ABORT: False}
"""Whether the last transaction was committed."""


def decide_end(
    found: TransactionMetadata, producer_id: int, epoch: int, *, is_commit: bool, client_version: int
) -> EndDecision:
    """Decide about a request of a client, while no other change of the id is under way."""
    if client_version >= TRANSACTIONS_V2:
        return _decide_end_of_v2(found, producer_id, epoch, is_commit=is_commit)
    if found.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if found.producer_epoch != epoch:
        return ErrorCode.PRODUCER_FENCED
    if found.state is TransactionState.ONGOING:
        return None
    if found.state.is_prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return ErrorCode.NONE if _OUTCOMES.get(found.state) is is_commit else ErrorCode.INVALID_TXN_STATE


def _decide_end_of_v2(found: TransactionMetadata, producer_id: int, epoch: int, *, is_commit: bool) -> EndDecision:
    if found.state.is_prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    is_repeat_after_bump = found.producer_epoch == epoch + 1
    is_repeat_after_rotation = (
        found.previous_producer_id == producer_id and epoch == LAST_EPOCH and found.producer_epoch == 0
    )
    if found.producer_id != producer_id and not is_repeat_after_rotation:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    is_repeat = is_repeat_after_bump or is_repeat_after_rotation
    is_present = found.producer_epoch == epoch
    has_ended = found.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
    if not is_present and not (has_ended and is_repeat):
        return ErrorCode.PRODUCER_FENCED
    if found.state is TransactionState.ONGOING:
        return None
    if is_repeat and has_ended:
        return ErrorCode.NONE if _OUTCOMES[found.state] is is_commit else ErrorCode.INVALID_TXN_STATE
    # A transaction without partitions can be aborted, so that the client reaches the next epoch.
    return ErrorCode.INVALID_TXN_STATE if is_commit else None
