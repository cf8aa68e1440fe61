"""Find out what a log knows about its producers: the last snapshot, and the batches behind it.

Batches are judged by their headers alone; only the end markers of transactions are opened.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from barnabas.storage.batch_header import BATCH_OVERHEAD, CONTROL_FLAG, HEADER, TRANSACTIONAL_FLAG
from barnabas.storage.errors import CorruptFileError
from barnabas.storage.produced_batch import read_end_transaction_marker
from barnabas.storage.producer_snapshot import delete_snapshot, list_snapshots, read_snapshot, snapshot_path
from barnabas.storage.producer_state import ProducerState
from barnabas.storage.segment import Segment
from barnabas.storage.transaction_index import AbortedTransaction

__all__ = ["rebuild_producers"]

_log = logging.getLogger(__name__)


def rebuild_producers(
    directory: str, segments: Sequence[Segment], log_start_offset: int, log_end_offset: int
) -> tuple[ProducerState, int]:
    """The producers at the log's end, from the last good snapshot and the batches behind it; and its offset, or -1.

    Snapshots beyond the end, or that cannot be read, are removed.
    """
    state, replay_from, snapshot_offset = ProducerState(), log_start_offset, -1
    for offset in reversed(list_snapshots(directory)):
        if log_start_offset <= offset <= log_end_offset:
            try:
                state = ProducerState.from_snapshot(read_snapshot(snapshot_path(directory, offset)))
            except CorruptFileError as error:
                _log.warning("ignoring a producer snapshot: %s", error)
            else:
                replay_from = snapshot_offset = offset
                break
        delete_snapshot(directory, offset)
    if replay_from < log_end_offset:
        for index, segment in enumerate(segments):
            if index + 1 == len(segments) or segments[index + 1].base_offset > replay_from:
                _replay_producers(segment, state, replay_from)
    state.high_watermark_advanced(log_end_offset)
    return state, snapshot_offset


def _replay_producers(segment: Segment, state: ProducerState, replay_from: int) -> None:
    """Apply the batches from ``replay_from`` on, and put back aborted transactions that the index does not know."""
    found = segment.find(replay_from)
    if found is None:
        return
    position, unpack = found[0], HEADER.unpack_from
    with segment.map() as view:
        while position < len(view):
            base_offset, length, _, _, _, attributes, delta, _, timestamp, producer_id, epoch, sequence, _ = unpack(
                view, position
            )
            end = position + length + BATCH_OVERHEAD
            if producer_id >= 0:
                last_offset = base_offset + delta
                if not attributes & CONTROL_FLAG:
                    state.append_data_batch(
                        producer_id,
                        epoch,
                        sequence,
                        last_offset=last_offset,
                        offset_delta=delta,
                        timestamp=timestamp,
                        is_transactional=bool(attributes & TRANSACTIONAL_FLAG),
                    )
                else:
                    _replay_marker(segment, state, view[position:end], producer_id, epoch, last_offset, timestamp)
            position = end


def _replay_marker(
    segment: Segment,
    state: ProducerState,
    batch: memoryview,
    producer_id: int,
    epoch: int,
    offset: int,
    timestamp: int,
) -> None:
    marker = read_end_transaction_marker(batch)
    if marker is None:
        return
    completed = state.append_marker(producer_id, epoch, marker, offset=offset, timestamp=timestamp)
    if completed is None or not completed.is_abort:
        return
    index = segment.transaction_index
    if not index.transactions or index.transactions[-1].last_offset < offset:
        index.append(
            AbortedTransaction(producer_id, completed.first_offset, offset, state.last_stable_offset_after(completed))
        )
