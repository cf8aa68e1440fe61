"""The start offset of each leader epoch of the log.

Two logs that have the same (epoch, end offset) pair are equal up to that offset; with this table a leader
finds where a follower's log has diverged from its own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from barnabas.common.errors import invariant
from barnabas.raft.replica_key import OffsetAndEpoch

__all__ = ["LeaderEpochs"]


class LeaderEpochs:
    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        for epoch, start_offset in entries:
            self.assign(epoch, start_offset)

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset) in ascending order."""
        return list(zip(self._epochs, self._starts, strict=True))

    @property
    def latest(self) -> int | None:
        return self._epochs[-1] if self._epochs else None

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Record that ``epoch`` starts at this offset; return whether the table has changed."""
        if self._epochs and epoch == self._epochs[-1]:
            return False
        invariant(
            not self._epochs or (epoch > self._epochs[-1] and start_offset >= self._starts[-1]),
            f"epoch {epoch} at {start_offset} is not after {self.entries[-1:]}",
        )
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        return True

    def end_offset_for_epoch(self, epoch: int, log_end_offset: int) -> OffsetAndEpoch | None:
        """Return the largest known epoch that is not above ``epoch``, and the offset where it ends.

        None when ``epoch`` is above all known ones. An epoch below all of them ends where the first one starts.
        """
        index = bisect_right(self._epochs, epoch) - 1
        if index + 1 == len(self._epochs):
            return OffsetAndEpoch(log_end_offset, epoch) if self.latest == epoch else None
        return OffsetAndEpoch(self._starts[index + 1], self._epochs[index] if index >= 0 else epoch)

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget the epochs that start at or after ``end_offset``."""
        while self._starts and self._starts[-1] >= end_offset:
            self._starts.pop()
            self._epochs.pop()

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget everything before ``start_offset``; the epoch that covers it then starts there."""
        covering = bisect_right(self._starts, start_offset) - 1
        if covering > 0:
            del self._starts[:covering]
            del self._epochs[:covering]
        if covering >= 0:
            self._starts[0] = start_offset

    def clear(self) -> None:
        self._epochs.clear()
        self._starts.clear()
