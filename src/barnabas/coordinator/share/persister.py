"""The port of those who keep the state of share-partitions: their leaders, and the coordinators of share groups.

A share-partition is the delivery of one partition's records to one share group. The persister stores its state where
its next leader finds it (KIP-932).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from barnabas.common.uuid import Uuid

__all__ = [
    "NO_DELIVERY_COMPLETE_COUNT",
    "UNINITIALIZED_EPOCH",
    "UNINITIALIZED_OFFSET",
    "Persister",
    "SharePartitionKey",
    "SharePartitionState",
    "SharePartitionSummary",
    "StateBatch",
]

UNINITIALIZED_EPOCH = 0
"""The state epoch and leader epoch of a summary without state."""
UNINITIALIZED_OFFSET = -1
"""The start offset before a leader has decided where delivery begins; in a write: the stored one remains."""
NO_DELIVERY_COMPLETE_COUNT = -1
"""The count is unknown; in a write: the stored one remains."""


class SharePartitionKey(NamedTuple):
    group_id: str
    topic_id: Uuid
    partition: int

    @property
    def coordinator_key(self) -> str:
        """The text that determines the coordinator, as FindCoordinator takes it."""
        return f"{self.group_id}:{self.topic_id}:{self.partition}"


class StateBatch(NamedTuple):
    """Consecutive records in the same delivery state, both offsets inclusive."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


class SharePartitionState(NamedTuple):
    """The answer to a read: an error code with its message, or the state."""

    error_code: int
    error_message: str | None
    state_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...]


class SharePartitionSummary(NamedTuple):
    """The answer to a read of a summary: an error code with its message, or the state without its batches."""

    error_code: int
    error_message: str | None
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int


class Persister(Protocol):
    """Methods that change state return an error code and its message, (0, None) on success. None of them raises."""

    async def initialize_state(
        self, group_id: str, topic_id: Uuid, partition: int, state_epoch: int, start_offset: int
    ) -> tuple[int, str | None]:
        """Create the state of a share-partition, without batches, in ``state_epoch``."""
        ...

    async def read_state(self, group_id: str, topic_id: Uuid, partition: int, leader_epoch: int) -> SharePartitionState:
        """Return the state. Its coordinator refuses writes of earlier leaders from now on."""
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
        """Store a new start offset, and batches that replace what is stored for their offsets."""
        ...

    async def delete_state(self, group_id: str, topic_id: Uuid, partition: int) -> tuple[int, str | None]:
        """Remove the state; success if none exists."""
        ...

    async def read_summary(
        self, group_id: str, topic_id: Uuid, partition: int, leader_epoch: int
    ) -> SharePartitionSummary:
        """Return the summary, without an effect on the leader's epoch."""
        ...
