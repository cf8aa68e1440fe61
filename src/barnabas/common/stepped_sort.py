"""A sort in steps: one call of ``sorted`` over 200,000 names holds the event loop for a tenth of a second.

A call in a thread blocks the event loop for the same time: the interpreter switches threads between two calls, never
inside one. So runs of some thousand items are sorted, then two runs at a time are merged, some thousand items in each
step: ``sorted`` merges runs that are in order in linear time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable
from itertools import islice
from typing import Any, Final, TypeVar

from barnabas.common.steps import whole

__all__ = ["sorted_in_pieces", "sorted_in_steps"]

T = TypeVar("T")
Key = Callable[[T], Any]

ITEMS_A_RUN: Final = 4_096
"""A run is sorted in a millisecond or two."""


def sorted_in_pieces(items: Iterable[T], key: Key[T] | None = None) -> list[T]:
    """Return the items in order, as ``sorted`` returns them, for a thread: other threads run meanwhile."""
    return whole(sorted_in_steps(items, key))


def sorted_in_steps(items: Iterable[T], key: Key[T] | None = None) -> Generator[None, None, list[T]]:
    """Return the items in order, as ``sorted`` returns them. No two of them may be equal."""
    rest = iter(items)
    runs: list[list[T]] = []
    while run := list(islice(rest, ITEMS_A_RUN)):
        run.sort(key=key)
        runs.append(run)
        if len(run) == ITEMS_A_RUN:
            yield
    while len(runs) > 1:
        merged = runs[-1:] if len(runs) % 2 else []
        while len(runs) > 1:
            merged.append((yield from _merged(runs.pop(0), runs.pop(0), key)))
        runs = merged
    return runs[0] if runs else []


def _merged(left: list[T], right: list[T], key: Key[T] | None) -> Generator[None, None, list[T]]:
    """Merge two runs in steps; a step takes the items up to the smaller end of the next parts."""
    order = key or _itself
    merged: list[T] = []
    begin_left = begin_right = 0
    while begin_left < len(left) and begin_right < len(right):
        last_of_left = left[min(begin_left + ITEMS_A_RUN, len(left)) - 1]
        last_of_right = right[min(begin_right + ITEMS_A_RUN, len(right)) - 1]
        bound = min(order(last_of_left), order(last_of_right))
        end_left = bisect_right(left, bound, begin_left, key=key)
        end_right = bisect_right(right, bound, begin_right, key=key)
        merged += sorted(left[begin_left:end_left] + right[begin_right:end_right], key=key)  # type: ignore[type-var, arg-type]
        begin_left, begin_right = end_left, end_right
        yield
    merged += left[begin_left:]
    merged += right[begin_right:]
    return merged


def _itself(item: Any) -> Any:
    return item
