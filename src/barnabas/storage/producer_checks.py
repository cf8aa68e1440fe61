"""Checks an appended batch against the state of its producer, and updates that state."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.storage.batch_header import CONTROL_FLAG, TRANSACTIONAL_FLAG
from barnabas.storage.produced_batch import AppendOrigin, ProducedBatch
from barnabas.storage.producer_recovery import recall_batches
from barnabas.storage.producer_state import ProducerBatch, ProducerState
from barnabas.storage.segment import Segment
from barnabas.storage.transaction_index import AbortedTransaction

__all__ = ["apply_batch", "find_duplicate"]


def find_duplicate(
    producers: ProducerState, batch: ProducedBatch, segments: Sequence[Segment], *, what: str
) -> ProducerBatch | None:
    """Return the batch that this one repeats. Raises ApiException if the producer may not write it now.

    ``segments`` are those of the log, which is read if the state was loaded and may not know the batch.
    """
    if batch.marker is not None:
        producers.validate_marker(batch.producer_id, batch.producer_epoch, batch.marker, what=what)
        return None
    if batch.origin is not AppendOrigin.CLIENT:
        return None
    producer_id, epoch, sequence = batch.producer_id, batch.producer_epoch, batch.base_sequence
    duplicate = producers.find_duplicate(producer_id, epoch, sequence, batch.last_offset_delta + 1)
    if duplicate is None:
        entry = producers.may_have_forgotten(producer_id, epoch, sequence)
        if entry is not None:
            recall_batches(segments, entry)
            duplicate = producers.find_duplicate(producer_id, epoch, sequence, batch.last_offset_delta + 1)
    if duplicate is None:
        producers.validate_data_batch(
            producer_id,
            epoch,
            sequence,
            is_transactional=bool(batch.attributes & TRANSACTIONAL_FLAG),
            what=what,
        )
    return duplicate


def apply_batch(producers: ProducerState, batch: ProducedBatch, last_offset: int, segment: Segment) -> None:
    """Record a batch written to this segment; an aborted transaction that it ends goes into the segment's index."""
    if batch.marker is None:
        if not batch.attributes & CONTROL_FLAG:
            producers.append_data_batch(
                batch.producer_id,
                batch.producer_epoch,
                batch.base_sequence,
                last_offset=last_offset,
                offset_delta=batch.last_offset_delta,
                timestamp=batch.max_timestamp,
                is_transactional=bool(batch.attributes & TRANSACTIONAL_FLAG),
            )
        return
    completed = producers.append_marker(
        batch.producer_id, batch.producer_epoch, batch.marker, offset=last_offset, timestamp=batch.max_timestamp
    )
    if completed is not None and completed.is_abort:
        segment.transaction_index.append(
            AbortedTransaction(
                completed.producer_id,
                completed.first_offset,
                completed.last_offset,
                producers.last_stable_offset_after(completed),
            )
        )
