"""The port of a share-partition's leader to what stores its state, and restores it on the next leader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.common.uuid import Uuid
    from barnabas.coordinator.share.persister import SharePartitionState, StateBatch

__all__ = ["Persister"]


class Persister(Protocol):
    """Neither method raises: what prevents an answer becomes an error code."""

    async def read_state(self, group_id: str, topic_id: Uuid, partition: int, leader_epoch: int) -> SharePartitionState:
        """Return the stored state. From now on writes of earlier leaders are refused."""
        ...

    async def write_state(
        self,
        group_id: str,
        topic_id: Uuid,
        partition: int,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> tuple[int, str | None]:
        """Store the start offset, and batches that replace what is stored for their offsets.

        Return an error code and its message, (0, None) on success.
        """
        ...
