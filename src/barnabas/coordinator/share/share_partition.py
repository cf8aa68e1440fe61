"""What the records of a share-partition say, in the order of the log."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.coordinator.share.share_group_offset import ShareGroupOffset, ShareUpdate

__all__ = ["SharePartition"]

_NO_HIGHEST_EPOCH = -1


class SharePartition(NamedTuple):
    offset: ShareGroupOffset
    highest_leader_epoch: int
    """Requests of earlier leaders are refused. Another initialization does not lower it."""
    highest_state_epoch: int
    """Requests of earlier initializations are refused."""
    update_count: int
    """The number of updates that counts for the next snapshot. Only a snapshot that was due resets it, as in Kafka."""

    @classmethod
    def after_snapshot(
        cls, known: SharePartition | None, offset: ShareGroupOffset, *, updates_per_snapshot: int
    ) -> SharePartition:
        if known is None:
            return cls(offset, offset.leader_epoch, offset.state_epoch, 0)
        return cls(
            offset,
            max(known.highest_leader_epoch, offset.leader_epoch),
            max(known.highest_state_epoch, offset.state_epoch),
            0 if known.update_count >= updates_per_snapshot else known.update_count,
        )

    @classmethod
    def after_update(cls, known: SharePartition | None, update: ShareUpdate) -> SharePartition:
        if known is None:
            return cls(ShareGroupOffset.of_update(update), update.leader_epoch, _NO_HIGHEST_EPOCH, 1)
        return known._replace(
            offset=known.offset.with_update(update),
            highest_leader_epoch=max(known.highest_leader_epoch, update.leader_epoch),
            update_count=known.update_count + 1,
        )
