"""Recovers the state of a log's producers: the last snapshot, and the batches after it.

Only batch headers are read, and the end markers of transactions. A snapshot has only the last batch of a producer.
Earlier ones are searched when a batch may be a repeat, and not far: a producer that repeats a batch had at most five in
flight.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from barnabas.storage.batch_header import BATCH_OVERHEAD, CONTROL_FLAG, TRANSACTIONAL_FLAG
from barnabas.storage.errors import CorruptFileError, CorruptIndexError
from barnabas.storage.produced_batch import read_end_transaction_marker
from barnabas.storage.producer_snapshot import delete_snapshot, list_snapshots, read_snapshot, snapshot_path
from barnabas.storage.producer_state import BATCHES_KEPT, SEQUENCE_MAX, ProducerBatch, ProducerEntry, ProducerState
from barnabas.storage.segment import Segment
from barnabas.storage.segment_damage import DamagedRangeError, read_header
from barnabas.storage.transaction_index import AbortedTransaction

__all__ = ["rebuild_producers", "recall_batches"]

_log = logging.getLogger(__name__)

_RECALL_BYTES = 8 << 20
"""How far back to read in each of two segments: other producers may have written much in between."""


def rebuild_producers(
    directory: str, segments: Sequence[Segment], log_start_offset: int, log_end_offset: int
) -> tuple[ProducerState, int]:
    """Return the producers at the log's end, from the last valid snapshot and later batches, and its offset or -1.

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
        ends = [*(segment.base_offset for segment in segments[1:]), log_end_offset]
        for segment, end_offset in zip(segments, ends, strict=True):
            if end_offset > replay_from:
                _replay_producers(segment, state, replay_from, end_offset)
    return state, snapshot_offset


def recall_batches(segments: Sequence[Segment], entry: ProducerEntry) -> None:
    """Restore the producer's batches before its oldest known one, if they are near it."""
    oldest = entry.batches[0]
    wanted, found = BATCHES_KEPT - len(entry.batches), list[ProducerBatch]()
    before = [segment for segment in segments if segment.base_offset <= oldest.first_offset]
    for segment in reversed(before[-2:]):
        found[:0] = _batches_of(segment, entry, oldest.first_offset)
        if len(found) >= wanted:
            break
    # Only batches contiguous with the oldest one: those before a gap may be of an earlier state of the producer.
    following, recalled = oldest.first_sequence, list[ProducerBatch]()
    for batch in reversed(found[-wanted:]):
        if (batch.last_sequence + 1) & SEQUENCE_MAX != following:
            break
        recalled.insert(0, batch)
        following = batch.first_sequence
    entry.recall(recalled)


def _batches_of(segment: Segment, entry: ProducerEntry, end_offset: int) -> list[ProducerBatch]:
    """Return the last batches of the producer's epoch that begin before ``end_offset``, from the end of the segment."""
    place = _position_of(segment, end_offset)
    end = segment.size if place is None else place
    near = segment.offset_index.offset_after(end - _RECALL_BYTES) if end > _RECALL_BYTES else None
    position = 0 if near is None else segment.offset_index.lookup(near)
    found: list[ProducerBatch] = []
    view, at = segment.read(position, end - position), 0
    while at < len(view):
        if position + at in segment.jumps:
            at = segment.jumps[position + at] - position
            continue
        header = read_header(segment.path, view, at, position=position + at)
        if header[9] == entry.producer_id and header[10] == entry.epoch and not header[5] & CONTROL_FLAG:
            last_sequence = (header[11] + header[6]) & SEQUENCE_MAX
            found.append(ProducerBatch(header[11], last_sequence, header[0] + header[6], header[6], header[8]))
            del found[:-BATCHES_KEPT]
        at += header[1] + BATCH_OVERHEAD
    return found


def _replay_producers(segment: Segment, state: ProducerState, replay_from: int, end_offset: int) -> None:
    """Apply the batches from ``replay_from`` on, and restore aborted transactions that the index lacks.

    Those from ``end_offset`` on are not in the log: a restored file may be longer than the segment was.
    """
    position = _position_of(segment, replay_from)
    if position is None:
        return
    # Only a producer's last plain batches change its state: they are buffered until another batch arrives.
    pending: dict[int, list[tuple[int, ...]]] = {}
    with segment.map() as view:
        total, jumps = len(view), segment.jumps
        while position < total:
            if position in jumps:
                position = jumps[position]
                continue
            header = read_header(segment.path, view, position)
            if header[0] >= end_offset:
                break
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


def _position_of(segment: Segment, offset: int) -> int | None:
    """Return the position of the batch, or damaged range, of the offset; None after the end."""
    try:
        found = segment.find(offset)
    except DamagedRangeError as error:
        return error.position
    except CorruptIndexError:
        return 0
    return None if found is None else found[0]


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
