"""Combines the stored batches of a share-partition with written ones, with the results of Kafka 4.3.1.

Where batches overlap, the higher delivery wins: the larger delivery count, or for equal counts the larger delivery
state. So a write that is repeated or arrives late changes nothing. Batches before the start offset are dropped, and
neighbors in the same delivery are joined.

As in Kafka, one pass from the lowest offset joins them. A batch that the pass has left behind is not joined again, so
the result may have neighbors in the same delivery: ``is_joined`` is False then, and the next pass joins them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import NamedTuple

from barnabas.coordinator.share.persister import UNINITIALIZED_OFFSET, StateBatch

__all__ = ["NO_BATCHES", "CombinedBatches", "combine"]

_Span = tuple[int, int, tuple[int, int]]
"""First offset, last offset, and the delivery: its count, then its state."""


class CombinedBatches(NamedTuple):
    """Batches without overlaps in the order of their offsets."""

    batches: tuple[StateBatch, ...]
    is_joined: bool
    """Whether no two neighbors are in the same delivery."""


NO_BATCHES = CombinedBatches((), is_joined=True)


def combine(stored: CombinedBatches, written: Sequence[StateBatch], start_offset: int) -> CombinedBatches:
    """Return the batches from ``start_offset`` on; from the first one if it is UNINITIALIZED_OFFSET.

    Only the stored batches that touch a written one are visited, if the others need not be joined.
    """
    before, touched, after = _split(_pruned_stored(stored, start_offset), written)
    spans = [_span(batch) for batch in (*touched, *_pruned(written, start_offset))]
    passed = [StateBatch(first, last, state, count) for first, last, (count, state) in _pass(spans)]
    return CombinedBatches((*before, *passed, *after), _are_joined(passed))


def _split(
    stored: CombinedBatches, written: Sequence[StateBatch]
) -> tuple[Sequence[StateBatch], Sequence[StateBatch], Sequence[StateBatch]]:
    """Split the stored batches: those before the written ones, those that touch one, those after."""
    batches = stored.batches
    if not stored.is_joined:
        return (), batches, ()
    if not written:
        return batches, (), ()
    lowest = min(batch.first_offset for batch in written)
    highest = max(batch.last_offset for batch in written)
    begin = bisect_left(batches, lowest - 1, key=lambda batch: batch.last_offset)
    end = bisect_right(batches, highest + 1, lo=begin, key=lambda batch: batch.first_offset)
    return batches[:begin], batches[begin:end], batches[end:]


def _pruned_stored(stored: CombinedBatches, start_offset: int) -> CombinedBatches:
    batches = stored.batches
    if not stored.is_joined:
        return CombinedBatches(tuple(_pruned(batches, start_offset)), is_joined=False)
    if start_offset == UNINITIALIZED_OFFSET or not batches or batches[0].first_offset >= start_offset:
        return stored
    kept = bisect_left(batches, start_offset, key=lambda batch: batch.last_offset)
    return CombinedBatches((*_pruned(batches[kept : kept + 1], start_offset), *batches[kept + 1 :]), is_joined=True)


def _pruned(batches: Iterable[StateBatch], start_offset: int) -> list[StateBatch]:
    """Drop offsets before the start, and batches that end before they begin."""
    valid = [batch for batch in batches if batch.first_offset <= batch.last_offset]
    if start_offset == UNINITIALIZED_OFFSET:
        return valid
    return [
        batch if batch.first_offset >= start_offset else batch._replace(first_offset=start_offset)
        for batch in valid
        if batch.last_offset >= start_offset
    ]


def _span(batch: StateBatch) -> _Span:
    return batch.first_offset, batch.last_offset, (batch.delivery_count, batch.delivery_state)


def _pass(spans: list[_Span]) -> list[_Span]:
    """Remove overlaps and join neighbors, beginning with the lowest offset."""
    passed: list[_Span] = []
    if not spans:
        return passed
    heapify(spans)
    lowest = heappop(spans)
    while spans:
        following = spans[0]
        is_neighbor = lowest[1] + 1 == following[0] and lowest[2] == following[2]
        if following[0] > lowest[1] and not is_neighbor:
            passed.append(lowest)
            lowest = heappop(spans)
            continue
        heappop(spans)
        for span in _resolved(lowest, following):
            heappush(spans, span)
        lowest = heappop(spans)
    passed.append(lowest)
    return passed


def _resolved(lower: _Span, following: _Span) -> list[_Span]:
    """Replace two spans that overlap, or that are neighbors in the same delivery, by spans without overlap."""
    first, last, delivery = lower
    other_first, other_last, other_delivery = following
    if delivery == other_delivery:
        return [(first, max(last, other_last), delivery)]
    if other_delivery < delivery:
        return [lower, (last + 1, other_last, other_delivery)] if other_last > last else [lower]
    spans = [following]
    if first < other_first:
        spans.append((first, other_first - 1, delivery))
    if last > other_last:
        spans.append((other_last + 1, last, delivery))
    return spans


def _are_joined(batches: Sequence[StateBatch]) -> bool:
    return not any(
        lower.last_offset + 1 == higher.first_offset and lower[2:] == higher[2:] for lower, higher in pairwise(batches)
    )
