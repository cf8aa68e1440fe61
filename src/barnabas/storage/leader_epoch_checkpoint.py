"""``leader-epoch-checkpoint`` and the cache over it: at which offset each leader epoch began.

A replica that was offline requests where its last epoch ended (OffsetForLeaderEpoch) and truncates its log there.
Epochs and start offsets both grow strictly; a new entry removes those that contradict it.

The file is written when the log is rolled, flushed or closed, not when a leader is elected: ten thousand new partitions
would be ten thousand files. Until an epoch has data, the cluster's metadata knows it as well as we do; afterwards
recovery finds it in the batches.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise

from barnabas.storage.checkpoint_file import read_checkpoint, write_checkpoint
from barnabas.storage.errors import CorruptFileError

__all__ = ["LEADER_EPOCH_CHECKPOINT", "UNDEFINED_EPOCH", "UNDEFINED_OFFSET", "LeaderEpochCheckpoint"]

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class LeaderEpochCheckpoint:
    __slots__ = ("_entries", "_is_dirty", "_read_entries", "path")

    def __init__(self, path: str, *, is_new: bool = False) -> None:
        self.path = path
        self._entries: list[tuple[int, int]] = [] if is_new else _read(path)
        self._is_dirty = False
        self._read_entries = None if is_new else list(self._entries)

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset) of each epoch, oldest first."""
        return self._entries

    @property
    def latest_epoch(self) -> int:
        return self._entries[-1][0] if self._entries else UNDEFINED_EPOCH

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Add an epoch that begins at this offset, unless it is known. Returns whether anything changed."""
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"leader epoch {epoch} at offset {start_offset}")
        if epoch == self.latest_epoch:
            return False
        entries = self._entries
        while entries and (entries[-1][0] >= epoch or entries[-1][1] >= start_offset):
            entries.pop()
        entries.append((epoch, start_offset))
        self._is_dirty = True
        return True

    def appended(self, epoch: int, base_offset: int) -> None:
        """Apply a batch that a follower appended. Epochs that began at or after it did not have records."""
        if epoch < self.latest_epoch:
            self.truncate_from_end(base_offset)
        if epoch > self.latest_epoch:
            self.assign(epoch, base_offset)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the greatest known epoch up to ``epoch`` and its end offset; (-1, -1) when that is unknown."""
        entries = self._entries
        if epoch == UNDEFINED_EPOCH or not entries:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == entries[-1][0]:
            return epoch, log_end_offset
        above = bisect_right(entries, (epoch, 2**63))
        if above == len(entries):
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if above == 0:
            return epoch, entries[0][1]
        return entries[above - 1][0], entries[above][1]

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove epochs at or after the log's new end."""
        kept = [entry for entry in self._entries if entry[1] < end_offset]
        self._keep(kept)

    def truncate_from_start(self, start_offset: int) -> None:
        """Apply a new log start: older epochs are removed, and the current epoch there starts at ``start_offset``."""
        entries = self._entries
        first = bisect_right([start for _, start in entries], start_offset)
        if first == 0:
            return
        epoch, start = entries[first - 1]
        kept = [(epoch, max(start, start_offset)), *entries[first:]]
        self._keep(kept)

    def clear(self) -> None:
        self._keep([])

    def flush(self, *, sync: bool = False) -> bool:
        """Write the file if it is not current. With ``sync`` it and its directory are durable; returns if it wrote."""
        if not self._is_dirty:
            return False
        if self._entries == self._read_entries:  # Opening a log removes epochs, and finds the same ones in its batches.
            self._is_dirty = False
            return False
        self._read_entries = None
        write_checkpoint(self.path, [f"{epoch} {start}" for epoch, start in self._entries], sync=sync)
        self._is_dirty = False
        return True

    def _keep(self, entries: list[tuple[int, int]]) -> None:
        if entries != self._entries:
            self._entries = entries
            self._is_dirty = True


def _read(path: str) -> list[tuple[int, int]]:
    try:
        entries = [(int(epoch), int(start)) for epoch, start in read_checkpoint(path, 2)]
    except ValueError as error:
        raise CorruptFileError(path, str(error)) from error
    for before, after in pairwise(entries):
        if after[0] <= before[0] or after[1] < before[1]:
            raise CorruptFileError(path, f"epoch {after} after {before}")
    return entries
