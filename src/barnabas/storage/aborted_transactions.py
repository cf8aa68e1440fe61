"""Finds which aborted transactions overlap the records of a fetch.

The index of a segment names them, and is trusted for records that this process wrote. The index of an earlier process
may be lost without a trace: a segment without aborted transactions has none. For such records the batches decide.
Each transactional batch belongs to the transaction that the next marker of its producer ends, in the records or
after them. So the walk ends with the last missing marker, and logs without transactions need no walk.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from barnabas.storage.batch_header import BATCH_OVERHEAD, CONTROL_FLAG, HEADER, HEADER_SIZE, TRANSACTIONAL_FLAG, Buffer
from barnabas.storage.errors import CorruptIndexError
from barnabas.storage.produced_batch import read_end_transaction_marker
from barnabas.storage.segment import Segment
from barnabas.storage.transaction_index import AbortedTransaction

__all__ = ["aborted_transactions"]

_log = logging.getLogger(__name__)

_BATCHES_AT_ONCE = 4096
"""The limit of batches read for one fetch; about three milliseconds."""


def aborted_transactions(
    segments: Sequence[Segment], index: int, position: int, records: Buffer, fetch_offset: int, max_offset: int
) -> tuple[list[AbortedTransaction], int]:
    """Return those that overlap ``records``, read at ``position`` of ``segments[index]``, and the bytes they cover.

    A few extra transactions are harmless. With many batches fewer bytes than given are covered.
    """
    segment = segments[index]
    if position >= segment.inherited_size:
        end = position + len(records)
        upper_bound = min(segment.offset_index.offset_after(end) or max_offset, max_offset)
        return _from_indexes(segments[index:], fetch_offset, upper_bound), len(records)
    search = _MarkerSearch()
    read_to, is_all = search.read(records)
    if search.undecided:
        search.read_on(segments[index:], position + read_to)
    if search.undecided:
        _ask_indexes(search, segments[index:], fetch_offset, max_offset)
    return sorted(search.aborted, key=lambda transaction: transaction.first_offset), len(records) if is_all else read_to


def _from_indexes(segments: Sequence[Segment], fetch_offset: int, upper_bound: int) -> list[AbortedTransaction]:
    aborted: list[AbortedTransaction] = []
    for segment in segments:
        found, is_complete = segment.transaction_index.collect(fetch_offset, upper_bound)
        aborted += found
        if is_complete:
            break
    return aborted


def _ask_indexes(search: _MarkerSearch, segments: Sequence[Segment], fetch_offset: int, max_offset: int) -> None:
    """Use the indexes: the markers may be in a damaged part of the log."""
    try:
        known = _from_indexes(segments, fetch_offset, max_offset)
    except CorruptIndexError as error:
        _log.error("%s; producers whose transactions count as committed: %s", error, sorted(search.undecided))
        return
    search.aborted += [transaction for transaction in known if transaction.producer_id in search.undecided]


class _MarkerSearch:
    """Walks over batches in their order, and pairs those of transactions with the markers that end them."""

    def __init__(self) -> None:
        self.undecided: dict[int, int] = {}
        """Producer id -> the first offset seen of its transaction."""
        self.aborted: list[AbortedTransaction] = []

    def read(self, records: Buffer) -> tuple[int, bool]:
        """Read the records of the fetch; returns the end of the whole batches, and whether all of them were read."""
        view = memoryview(records)
        at, left = 0, _BATCHES_AT_ONCE
        while at + HEADER_SIZE <= len(view):
            header = HEADER.unpack_from(view, at)
            end = at + header[1] + BATCH_OVERHEAD
            if end > len(view):
                break
            if not left:
                return at, False
            if header[5] & TRANSACTIONAL_FLAG:
                if not header[5] & CONTROL_FLAG:
                    self.undecided.setdefault(header[9], header[0])
                elif header[9] in self.undecided:
                    self._end(header, view[at:end])
            at, left = end, left - 1
        return at, True

    def read_on(self, segments: Sequence[Segment], position: int) -> None:
        """Search for the missing markers, from ``position`` of the first segment to the log's end."""
        for segment in segments:
            for at, size, _, _ in segment.walk(position):
                header = HEADER.unpack_from(segment.read(at, HEADER_SIZE))
                if header[5] & CONTROL_FLAG and header[9] in self.undecided:
                    self._end(header, segment.read(at, size))
                    if not self.undecided:
                        return
            position = 0

    def _end(self, header: tuple[int, ...], batch: Buffer) -> None:
        marker = read_end_transaction_marker(batch)
        if marker is not None:
            first_offset = self.undecided.pop(header[9])
            if marker.is_abort:
                last_offset = header[0] + header[6]
                self.aborted.append(AbortedTransaction(header[9], first_offset, last_offset, last_offset))
