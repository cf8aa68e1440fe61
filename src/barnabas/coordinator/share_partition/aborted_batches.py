"""Finds the batches of a read that belong to aborted transactions. Readers of committed records never receive them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.coordinator.share_partition.state_batch import FetchedBatch
from barnabas.protocol.control_record import ControlRecordType, control_record_type
from barnabas.protocol.errors import DecodeError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.protocol.record_batch import BatchView

__all__ = ["aborted_batches"]


def aborted_batches(batches: Iterable[BatchView], transactions: Iterable[tuple[int, int]]) -> list[FetchedBatch]:
    """Return the batches of the transactions, which are (producer id, first offset). Their markers are not among them.

    The marker of a transaction ends it; a later transaction of its producer is in the list again if it was aborted.
    """
    coming = sorted(transactions, key=lambda transaction: transaction[1], reverse=True)
    producers: set[int] = set()
    aborted = []
    for batch in batches:
        if batch.producer_id < 0:
            continue
        while coming and coming[-1][1] <= batch.last_offset:
            producers.add(coming.pop()[0])
        if _is_abort_marker(batch):
            producers.discard(batch.producer_id)
        elif batch.is_transactional and batch.producer_id in producers:
            aborted.append(FetchedBatch(batch.base_offset, batch.last_offset))
    return aborted


def _is_abort_marker(batch: BatchView) -> bool:
    if not batch.is_control:
        return False
    try:
        record = next(batch.records(), None)
        return record is not None and control_record_type(record.key) is ControlRecordType.ABORT
    except DecodeError:
        return False
