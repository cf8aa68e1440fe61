"""The numbering of NEXMark's events, as its published generator has it.

Events are numbered from 0. Each block of 50 begins with a person, continues with 3 auctions, and ends with 46 bids. So
the number of an event determines its kind and its id, and how many persons and auctions exist before it.

The blocks are dealt to 16 shares, and the shares to tasks. A share has a position of its own, so it continues where it
was with any number of tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

__all__ = [
    "AUCTIONS_OF_BLOCK",
    "BLOCK",
    "SHARES",
    "Kind",
    "count_events",
    "events_of_kind",
    "shares_of_tasks",
]

AUCTIONS_OF_BLOCK = 3
BLOCK = 50
SHARES = 16
"""The greatest number of tasks."""


class Kind(Enum):
    """A kind of event, with its places within a block."""

    PERSON = range(1)
    AUCTION = range(1, 1 + AUCTIONS_OF_BLOCK)
    BID = range(1 + AUCTIONS_OF_BLOCK, BLOCK)

    @property
    def title(self) -> str:
        return self.name.lower()


def shares_of_tasks(tasks: int) -> Sequence[Sequence[int]]:
    """Return the shares of each task. There are no more tasks than shares."""
    count = min(tasks, SHARES)
    return [range(task, SHARES, count) for task in range(count)]


def events_of_kind(kind: Kind, share: int, end: int) -> int:
    """Return how many events of a kind a share has before the event number ``end``."""
    blocks, places = divmod(end, BLOCK)
    found = len(range(share, blocks, SHARES)) * len(kind.value)
    if blocks % SHARES == share:
        found += len(range(kind.value.start, min(places, kind.value.stop)))
    return found


def count_events(kind: Kind, starts: Mapping[int, int], end: int) -> int:
    """Return how many events the shares have from their starts on, before ``end``."""
    return sum(
        max(events_of_kind(kind, share, end) - events_of_kind(kind, share, start), 0) for share, start in starts.items()
    )
