"""The port of a share-partition's leader to what stores its state, and restores it on the next leader."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from barnabas.common.error_code import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.common.uuid import Uuid
    from barnabas.coordinator.share_partition.state_batch import StateBatch

__all__ = ["NO_START_OFFSET", "NoPersister", "Persister", "SharePartitionState"]

NO_START_OFFSET = -1
"""The start offset of a share-partition that no leader has loaded before: ``share.auto.offset.reset`` determines it."""


class SharePartitionState(NamedTuple):
    """The answer to a read: an error code with its message, or the state."""

    error_code: int
    error_message: str | None
    state_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...]


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


class NoPersister:
    """Stands in for the persister of a broker that has none: no share-partition can be loaded."""

    _MESSAGE = "This broker cannot store the state of share groups"

    async def read_state(self, group_id: str, topic_id: Uuid, partition: int, leader_epoch: int) -> SharePartitionState:
        return SharePartitionState(ErrorCode.COORDINATOR_NOT_AVAILABLE, self._MESSAGE, 0, NO_START_OFFSET, ())

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
        return ErrorCode.COORDINATOR_NOT_AVAILABLE, self._MESSAGE
