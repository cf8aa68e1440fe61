"""Finds where a follower's log diverges from its leader's: the offset to truncate it to (KIP-101, KIP-279)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:

    class EpochLog(Protocol):
        @property
        def log_end_offset(self) -> int: ...

        def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]: ...


__all__ = ["truncation_offset"]


def truncation_offset(own: EpochLog, epoch: int, end_offset: int) -> int:
    """Return the offset to truncate to, for a leader whose greatest epoch up to our last one is ``epoch``.

    In the leader's log that epoch ends at ``end_offset``. If our log has that epoch, both logs agree up to the earlier
    end. If not, they cannot agree beyond the end of our epoch before it, and the request is repeated from there.
    """
    end = own.log_end_offset
    if end_offset < 0:
        return end
    own_epoch, own_end_offset = own.end_offset_for_epoch(epoch)
    if own_end_offset < 0:
        return min(end_offset, end)
    if own_epoch != epoch:
        return min(own_end_offset, end)
    return min(own_end_offset, end_offset, end)
