"""The partitions of one fetcher: their positions, and the changes that the leader has not received yet.

This module stores the fetch session as the leader does (KIP-227). A request names only partitions that are new, changed
or removed since the previous request. So the cost of a request depends on the number of changes, not on the number of
followed partitions.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.broker.replication.follower_replica import FollowerReplica
    from barnabas.common.topic_partition import TopicPartition
    from barnabas.common.uuid import Uuid

__all__ = ["FetchedPartition", "FetcherPartitions", "PartitionKey", "PartitionState"]


class PartitionKey(NamedTuple):
    topic_id: Uuid
    partition: int


class PartitionState(Enum):
    FETCHING = auto()
    LOCATING_END = auto()
    """The leader's log ends before our offset: we request its end offset."""
    LOCATING_START = auto()
    """The leader's log starts after our offset: we request its start offset."""
    DELAYED = auto()
    """An error occurred. The partition is fetched again at ``due_ms``."""


class FetchedPartition:
    """One partition under one leader epoch. ``sent_offset`` is our offset as the leader knows it."""

    __slots__ = (
        "due_ms",
        "error_count",
        "fetch_offset",
        "is_known",
        "key",
        "lag",
        "last_fetched_epoch",
        "leader_epoch",
        "replica",
        "sent_log_start_offset",
        "sent_offset",
        "state",
    )

    def __init__(self, replica: FollowerReplica, leader_epoch: int) -> None:
        self.replica = replica
        self.key = PartitionKey(replica.topic_id, replica.topic_partition.partition)
        self.leader_epoch = leader_epoch
        self.fetch_offset = replica.log_end_offset
        self.last_fetched_epoch = replica.latest_epoch
        self.state = PartitionState.FETCHING
        self.lag: int | None = None
        """The number of the leader's committed records that we lacked at its last answer; None before."""
        self.due_ms = 0
        self.error_count = 0
        """The number of errors since the last successful answer."""
        self.is_known = False
        """Whether the leader has the partition in our session."""
        self.sent_offset = -1
        self.sent_log_start_offset = -1


class FetcherPartitions:
    """The partitions in the order of a full request. Partitions with new data move to the end."""

    def __init__(self) -> None:
        self._by_name: dict[TopicPartition, FetchedPartition] = {}
        self._by_key: dict[PartitionKey, FetchedPartition] = {}
        self._of_state: dict[PartitionState, dict[PartitionKey, FetchedPartition]] = {
            state: {} for state in PartitionState
        }
        self._changed: dict[PartitionKey, FetchedPartition] = {}
        self._forgotten: dict[PartitionKey, None] = {}

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[FetchedPartition]:
        return iter(self._by_key.values())

    def get(self, topic_partition: TopicPartition) -> FetchedPartition | None:
        return self._by_name.get(topic_partition)

    def of_key(self, key: PartitionKey) -> FetchedPartition | None:
        return self._by_key.get(key)

    def in_state(self, state: PartitionState) -> list[FetchedPartition]:
        return list(self._of_state[state].values())

    def has_any_in(self, state: PartitionState) -> bool:
        return bool(self._of_state[state])

    def add(self, partition: FetchedPartition) -> None:
        """Add a partition, replacing an earlier entry for it."""
        name = partition.replica.topic_partition
        self.remove(name)
        self._by_name[name] = self._by_key[partition.key] = partition
        self._of_state[partition.state][partition.key] = partition
        self._add_change(partition)

    def remove(self, topic_partition: TopicPartition) -> FetchedPartition | None:
        partition = self._by_name.pop(topic_partition, None)
        if partition is not None:
            del self._by_key[partition.key]
            del self._of_state[partition.state][partition.key]
            self._add_removal(partition)
        return partition

    def move(self, partition: FetchedPartition, state: PartitionState) -> None:
        if partition.state is state:
            return
        del self._of_state[partition.state][partition.key]
        self._of_state[state][partition.key] = partition
        partition.state = state
        if state is PartitionState.FETCHING:
            self._add_change(partition)
        else:
            self._add_removal(partition)

    def changed(self, partition: FetchedPartition) -> None:
        """Note that the offset of the partition has changed."""
        if partition.state is PartitionState.FETCHING:
            self._add_change(partition)

    def served(self, partition: FetchedPartition) -> None:
        """Move a partition with new data to the end of the next full request."""
        self._by_key[partition.key] = self._by_key.pop(partition.key)

    def take_changes(self, *, is_full: bool) -> tuple[list[FetchedPartition], list[PartitionKey]]:
        """Return the partitions that the next request adds and removes. Afterwards the leader knows all of them."""
        if is_full:
            named = [partition for partition in self if partition.state is PartitionState.FETCHING]
            forgotten: list[PartitionKey] = []
        else:
            named = list(self._changed.values())
            forgotten = list(self._forgotten)
        self._changed.clear()
        self._forgotten.clear()
        for partition in named:
            partition.is_known = True
            partition.sent_offset = partition.fetch_offset
            partition.sent_log_start_offset = partition.replica.log_start_offset
        return named, forgotten

    def forget_session(self) -> None:
        """Note that the leader has lost our session."""
        self._forgotten.clear()
        for partition in self:
            partition.is_known = False

    def _add_change(self, partition: FetchedPartition) -> None:
        # The leader may still have the earlier entry: the request names the partition again, and does not forget it.
        self._forgotten.pop(partition.key, None)
        self._changed[partition.key] = partition

    def _add_removal(self, partition: FetchedPartition) -> None:
        self._changed.pop(partition.key, None)
        if partition.is_known:
            partition.is_known = False
            self._forgotten[partition.key] = None
