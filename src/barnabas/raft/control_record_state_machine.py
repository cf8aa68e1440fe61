"""The voter set and the kraft.version at every offset, from the control records of snapshot and log.

Both are in force as soon as they are appended, long before they commit: a majority is always counted in the
newest set. Truncating the log restores the earlier ones.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Generic, TypeVar

from barnabas.common.errors import invariant
from barnabas.protocol.record_batch import BatchView
from barnabas.protocol.records.kraft_version_record import KRaftVersionRecord
from barnabas.protocol.records.voters_record import VotersRecord
from barnabas.raft.control_records import read_control_records, voter_set_of
from barnabas.raft.voter_set import VoterSet

__all__ = ["BOOTSTRAP_OFFSET", "ControlRecordStateMachine", "History"]

BOOTSTRAP_OFFSET = -1
"""The offset of the records of the 0-0 checkpoint: before the log."""

T = TypeVar("T")


class History(Generic[T]):
    """Values by the offset that set them."""

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._values: list[T] = []

    def add(self, offset: int, value: T) -> None:
        invariant(not self._offsets or offset > self._offsets[-1], f"offset {offset} is not after {self._offsets[-1:]}")
        self._offsets.append(offset)
        self._values.append(value)

    def at_or_before(self, offset: int) -> T | None:
        index = bisect_right(self._offsets, offset) - 1
        return self._values[index] if index >= 0 else None

    @property
    def last(self) -> T | None:
        return self._values[-1] if self._values else None

    @property
    def last_offset(self) -> int | None:
        return self._offsets[-1] if self._offsets else None

    def truncate_new_entries(self, end_offset: int) -> None:
        while self._offsets and self._offsets[-1] >= end_offset:
            self._offsets.pop()
            self._values.pop()

    def truncate_old_entries(self, start_offset: int) -> None:
        """Forget what was replaced before ``start_offset``.

        Later values may be truncated, so the last value before that offset is kept, as in the snapshot that holds it.
        """
        keep = bisect_right(self._offsets, start_offset - 1) - 1
        if keep > 0:
            del self._offsets[:keep]
            del self._values[:keep]

    def clear(self) -> None:
        self._offsets.clear()
        self._values.clear()


class ControlRecordStateMachine:
    """The configured voters, unless the log or a snapshot has others."""

    def __init__(self, static_voters: VoterSet | None = None) -> None:
        self._static_voters = static_voters or VoterSet()
        self.voters: History[VoterSet] = History()
        self.kraft_versions: History[int] = History()

    @property
    def last_voter_set(self) -> VoterSet:
        last = self.voters.last
        return self._static_voters if last is None else last

    @property
    def last_voter_set_offset(self) -> int | None:
        """None while the voters come from the configuration."""
        return self.voters.last_offset

    @property
    def last_kraft_version(self) -> int:
        return self.kraft_versions.last or 0

    @property
    def voter_set_before_last(self) -> VoterSet | None:
        """The voters before the last change; None if the log begins with the last set or after it."""
        last = self.voters.last_offset
        return None if last is None else self.voters.at_or_before(last - 1)

    def voter_set_at(self, offset: int) -> VoterSet | None:
        """The set to write into a snapshot that ends after ``offset``; None if none was ever written."""
        return self.voters.at_or_before(offset)

    def kraft_version_at(self, offset: int) -> int:
        return self.kraft_versions.at_or_before(offset) or 0

    def replay_batch(self, batch: BatchView) -> None:
        """Apply a control batch's records about voters and kraft.version."""
        for offset, record in read_control_records(batch):
            if isinstance(record, VotersRecord):
                self.replay_voters(offset, voter_set_of(record))
            elif isinstance(record, KRaftVersionRecord):
                self.replay_kraft_version(offset, record.kraft_version)

    def replay_voters(self, offset: int, voters: VoterSet) -> None:
        self.voters.add(offset, voters)

    def replay_kraft_version(self, offset: int, level: int) -> None:
        self.kraft_versions.add(offset, level)

    def truncate_new_entries(self, end_offset: int) -> None:
        self.voters.truncate_new_entries(end_offset)
        self.kraft_versions.truncate_new_entries(end_offset)

    def truncate_old_entries(self, start_offset: int) -> None:
        self.voters.truncate_old_entries(start_offset)
        self.kraft_versions.truncate_old_entries(start_offset)

    def clear(self) -> None:
        self.voters.clear()
        self.kraft_versions.clear()
