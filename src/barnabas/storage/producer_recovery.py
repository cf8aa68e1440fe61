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
from barnabas.storage.producer_state import BATCHES_KEPT, ProducerState
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
    return state, snapshot_offset


def _replay_producers(segment: Segment, state: ProducerState, replay_from: int) -> None:
    """Apply the batches from ``replay_from`` on, and put back aborted transactions that the index does not know."""
    found = segment.find(replay_from)
    if found is None:
        return
    position, unpack = found[0], HEADER.unpack_from
    # Of plain batches only a producer's last ones leave a trace: they are held back until something else comes.
    pending: dict[int, list[tuple[int, ...]]] = {}
    with segment.map() as view:
        total = len(view)
        while position < total:
            header = unpack(view, position)
            end = position + header[1] + BATCH_OVERHEAD
            producer_id, attributes = header[9], header[5]
            if producer_id >= 0:
                if attributes & (CONTROL_FLAG | TRANSACTIONAL_FLAG):
                    _apply(state, pending.pop(producer_id, ()))
                    if attributes & CONTROL_FLAG:
                        _replay_marker(segment, state, header, view[position:end])
                    else:
                        _apply(state, (header,))
                elif (recent := pending.get(producer_id)) is None:
                    pending[producer_id] = [header]
                else:
                    recent.append(header)
                    if len(recent) > 100:
                        del recent[:-BATCHES_KEPT]
            position = end
    for headers in pending.values():
        _apply(state, headers)


def _apply(state: ProducerState, headers: Sequence[tuple[int, ...]]) -> None:
    for header in headers[-BATCHES_KEPT:]:
        state.append_data_batch(
            header[9],
            header[10],
            header[11],
            last_offset=header[0] + header[6],
            offset_delta=header[6],
            timestamp=header[8],
            is_transactional=bool(header[5] & TRANSACTIONAL_FLAG),
        )


def _replay_marker(segment: Segment, state: ProducerState, header: tuple[int, ...], batch: memoryview) -> None:
    marker = read_end_transaction_marker(batch)
    if marker is None:
        return
    producer_id, offset = header[9], header[0] + header[6]
    completed = state.append_marker(producer_id, header[10], marker, offset=offset, timestamp=header[8])
    if completed is None or not completed.is_abort:
        return
    index = segment.transaction_index
    if not index.transactions or index.transactions[-1].last_offset < offset:
        index.append(
            AbortedTransaction(producer_id, completed.first_offset, offset, state.last_stable_offset_after(completed))
        )
