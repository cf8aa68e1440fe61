"""The port of those who keep the state of share-partitions: their leaders, and the coordinators of share groups.

A share-partition is the delivery of one partition's records to one share group. The persister stores its state where
its next leader finds it (KIP-932).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from barnabas.common.errors import ErrorCode
from barnabas.common.uuid import Uuid

__all__ = [
    "NO_DELIVERY_COMPLETE_COUNT",
    "NO_EPOCH",
    "SUCCESS",
    "UNINITIALIZED_OFFSET",
    "LeaderPersister",
    "Persister",
    "SharePartitionKey",
    "SharePartitionState",
    "SharePartitionSummary",
    "StateBatch",
    "StateInitialization",
    "StateOutcome",
    "StateWrite",
]

NO_EPOCH = -1
"""In a request: an epoch that is not compared with the stored one."""
UNINITIALIZED_OFFSET = -1
"""The start offset before a leader has decided where delivery begins. A write with it keeps the stored one."""
NO_DELIVERY_COMPLETE_COUNT = -1
"""The count is unknown. A write with it makes the stored one unknown, too."""

_KEY_PARTS = 3
_INT32_LIMIT = 2**31


class SharePartitionKey(NamedTuple):
    group_id: str
    topic_id: Uuid
    partition: int

    @property
    def coordinator_key(self) -> str:
        """The text that determines the coordinator, as FindCoordinator takes it."""
        return f"{self.group_id}:{self.topic_id}:{self.partition}"

    @classmethod
    def from_coordinator_key(cls, text: str) -> SharePartitionKey:
        """Parse a key as Kafka does; a group id may have colons. Raise ValueError with the reason."""
        parts = text.rstrip(":").split(":")
        if len(parts) < _KEY_PARTS:
            raise ValueError(f"{text!r} is not a group id, a topic id and a partition, separated by colons")
        group_id, topic_id, partition = ":".join(parts[:-2]), parts[-2], parts[-1]
        if all(character <= " " for character in group_id):
            raise ValueError("the group id is empty")
        digits = partition[1:] if partition[:1] in ("+", "-") else partition
        if not digits.isdecimal() or not -_INT32_LIMIT <= int(partition) < _INT32_LIMIT:
            raise ValueError(f"{partition!r} is not a partition")
        return cls(group_id, Uuid.from_string(topic_id), int(partition))


class StateBatch(NamedTuple):
    """Consecutive records in the same delivery state, both offsets inclusive."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


class StateOutcome(NamedTuple):
    """The answer to a change of state."""

    error_code: int
    error_message: str | None


SUCCESS = StateOutcome(ErrorCode.NONE, None)


class StateInitialization(NamedTuple):
    """The beginning of a state, without batches."""

    state_epoch: int
    start_offset: int


class StateWrite(NamedTuple):
    """A change of the state by the leader of a share-partition."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


class SharePartitionState(NamedTuple):
    """The answer to a read: an error code with its message, or the state."""

    error_code: int
    error_message: str | None
    state_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...]

    @classmethod
    def failed(cls, outcome: StateOutcome) -> SharePartitionState:
        return cls(*outcome, 0, 0, ())


class SharePartitionSummary(NamedTuple):
    """The answer to a read of a summary: an error code with its message, or the state without its batches."""

    error_code: int
    error_message: str | None
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int

    @classmethod
    def failed(cls, outcome: StateOutcome) -> SharePartitionSummary:
        return cls(*outcome, 0, 0, 0, NO_DELIVERY_COMPLETE_COUNT)

    @classmethod
    def uninitialized(cls) -> SharePartitionSummary:
        """The summary of a share-partition without state."""
        return cls(*SUCCESS, 0, 0, UNINITIALIZED_OFFSET, NO_DELIVERY_COMPLETE_COUNT)


class LeaderPersister(Protocol):
    """What leaders of share-partitions use. No method raises: what prevents an answer becomes an error code."""

    async def read_state(self, group_id: str, topic_id: Uuid, partition: int, leader_epoch: int) -> SharePartitionState:
        """Return the stored state. Its coordinator refuses writes of earlier leaders from now on."""
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
    ) -> StateOutcome:
        """Store the start offset, and batches that replace what is stored for their offsets."""
        ...


class Persister(LeaderPersister, Protocol):
    """What brokers and group coordinators use. No method raises."""

    async def initialize_state(
        self, group_id: str, topic_id: Uuid, partition: int, state_epoch: int, start_offset: int
    ) -> StateOutcome:
        """Create the state of a share-partition, without batches, in ``state_epoch``."""
        ...

    async def delete_state(self, group_id: str, topic_id: Uuid, partition: int) -> StateOutcome:
        """Remove the state; success if none exists."""
        ...

    async def read_summary(
        self, group_id: str, topic_id: Uuid, partition: int, leader_epoch: int
    ) -> SharePartitionSummary:
        """Return the summary, without an effect on the leader's epoch."""
        ...
