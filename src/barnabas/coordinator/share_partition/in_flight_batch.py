"""The records of one acquisition, and the states that they have reached.

Most batches are acquired and acknowledged as a whole, and have one range. When members acknowledge some of the records,
or receive some of them again, the batch is *tracked by offset*: its ranges then differ in state, delivery count or
owner. Kafka keeps an entry for each offset of such a batch; a range stands for all of its equal offsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.coordinator.share.persister import StateBatch
from barnabas.coordinator.share_partition.record_state import RecordState

if TYPE_CHECKING:
    from barnabas.coordinator.share_partition.state_write import StateWrite

__all__ = ["InFlightBatch", "InFlightRange"]


class InFlightRange:
    """Consecutive records of a batch in the same state. ``member_id`` and ``deadline_ms`` are set while acquired."""

    __slots__ = ("deadline_ms", "delivery_count", "first_offset", "last_offset", "member_id", "state", "write")

    def __init__(
        self,
        first_offset: int,
        last_offset: int,
        state: RecordState,
        delivery_count: int,
        member_id: str = "",
        deadline_ms: int | None = None,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.state = state
        self.delivery_count = delivery_count
        self.member_id = member_id
        self.deadline_ms = deadline_ms
        """When the acquisition lock ends."""
        self.write: StateWrite | None = None
        """The write that the persister has not confirmed yet. Until then ``member_id`` and ``deadline_ms`` remain: if
        the write fails, the records are acquired again."""

    def __repr__(self) -> str:
        in_transition = "" if self.write is None else ", in transition"
        return f"{self.first_offset}..{self.last_offset} {self.state.name} {self.delivery_count}{in_transition}"

    @property
    def count(self) -> int:
        return self.last_offset - self.first_offset + 1

    @property
    def is_available(self) -> bool:
        return self.state is RecordState.AVAILABLE and self.write is None

    @property
    def is_finished(self) -> bool:
        """Whether the records will never be delivered again."""
        return self.write is None and self.state.is_terminal

    @property
    def state_batch(self) -> StateBatch:
        return StateBatch(self.first_offset, self.last_offset, int(self.state), self.delivery_count)

    def acquire(self, member_id: str, deadline_ms: int) -> None:
        self.state = RecordState.ACQUIRED
        self.delivery_count += 1
        self.member_id = member_id
        self.deadline_ms = deadline_ms

    def settle(self, state: RecordState) -> None:
        """End the acquisition in ``state``."""
        self.state = state
        self.member_id = ""
        self.deadline_ms = None
        self.write = None

    def split_before(self, offset: int) -> InFlightRange:
        """Keep the records before ``offset``, and return the others as a range in the same state."""
        rest = InFlightRange(
            offset, self.last_offset, self.state, self.delivery_count, self.member_id, self.deadline_ms
        )
        self.last_offset = offset - 1
        if self.write is not None:
            rest.write = self.write
            self.write.ranges.append(rest)
        return rest

    def may_absorb(self, other: InFlightRange) -> bool:
        return (
            self.state is other.state
            and self.delivery_count == other.delivery_count
            and self.write is None
            and other.write is None
            and self.deadline_ms == other.deadline_ms
            and self.member_id == other.member_id
        )


class InFlightBatch:
    """``ranges`` cover the batch without gaps; a batch that is not tracked by offset has one."""

    __slots__ = ("first_offset", "is_tracked_by_offset", "last_offset", "ranges")

    def __init__(self, only: InFlightRange) -> None:
        self.first_offset = only.first_offset
        self.last_offset = only.last_offset
        self.ranges = [only]
        self.is_tracked_by_offset = False

    def __repr__(self) -> str:
        return f"InFlightBatch({self.ranges})"

    @property
    def count(self) -> int:
        return self.last_offset - self.first_offset + 1

    @property
    def whole(self) -> InFlightRange:
        """The state of all records, while the batch is not tracked by offset."""
        return self.ranges[0]

    def is_within(self, first_offset: int, last_offset: int) -> bool:
        return self.first_offset >= first_offset and self.last_offset <= last_offset

    def is_cut_by(self, offset: int) -> bool:
        """Whether some records of the batch are before ``offset`` and others are not."""
        return self.first_offset < offset <= self.last_offset

    def track_by_offset(self) -> None:
        self.is_tracked_by_offset = True

    def range_at(self, offset: int) -> InFlightRange:
        return self.ranges[self._index_of(offset)]

    def overlapping(self, first_offset: int, last_offset: int) -> list[InFlightRange]:
        """Return the ranges with at least one of these offsets, as they are."""
        if first_offset > self.last_offset or last_offset < self.first_offset:
            return []
        return self.ranges[self._index_of(first_offset) : self._index_of(last_offset) + 1]

    def part_within(self, part: InFlightRange, first_offset: int, last_offset: int) -> InFlightRange:
        """Return the range without offsets outside of these; it is divided if necessary."""
        if part.first_offset >= first_offset and part.last_offset <= last_offset:
            return part
        return self.ranges_within(max(first_offset, part.first_offset), min(last_offset, part.last_offset))[0]

    def ranges_within(self, first_offset: int, last_offset: int) -> list[InFlightRange]:
        """Return the ranges of these offsets, without other offsets: those at both ends are divided if necessary."""
        start = self._boundary(max(first_offset, self.first_offset))
        end = self._boundary(min(last_offset, self.last_offset) + 1)
        return self.ranges[start:end]

    def divide_before(self, offset: int) -> None:
        """Have a range begin at ``offset``."""
        self._boundary(offset)

    def join_around(self, part: InFlightRange) -> None:
        """Join the range with its neighbours if they are equal, so that a batch has no more ranges than necessary."""
        ranges = self.ranges
        index = self._index_of(part.first_offset)
        while index + 1 < len(ranges) and ranges[index].may_absorb(ranges[index + 1]):
            ranges[index].last_offset = ranges[index + 1].last_offset
            del ranges[index + 1]
        if index and ranges[index - 1].may_absorb(ranges[index]):
            ranges[index - 1].last_offset = ranges[index].last_offset
            del ranges[index]

    def _boundary(self, offset: int) -> int:
        """Return the index of the range that begins at ``offset``; len(ranges) for the offset after the last."""
        if offset > self.last_offset:
            return len(self.ranges)
        index = self._index_of(offset)
        if self.ranges[index].first_offset == offset:
            return index
        self.ranges.insert(index + 1, self.ranges[index].split_before(offset))
        return index + 1

    def _index_of(self, offset: int) -> int:
        """Return the index of the range with the offset, or of the last one if the offset is after it."""
        ranges = self.ranges
        low, high = 0, len(ranges) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if ranges[middle].first_offset <= offset:
                low = middle
            else:
                high = middle - 1
        return low
