"""The partitions of one fetcher: where each is, and what of that the leader has not been told yet.

What the leader knows of us is kept as it is kept there (KIP-227): a request names only partitions that are new, changed
or given up since the request before, so that a round costs what has changed and not what is followed.
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
    """The leader has nothing at our offset: we ask where its log ends."""
    LOCATING_START = auto()
    """Its log goes on behind ours: we ask where it starts."""
    DELAYED = auto()
    """Something went wrong; fetched again at ``due_ms``."""


class FetchedPartition:
    """One partition under one leader epoch. ``sent_offset`` is where the leader thinks that we are."""

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
        """How many records the leader had committed beyond ours when it last told; None before."""
        self.due_ms = 0
        self.error_count = 0
        """Errors since the last answer without one."""
        self.is_known = False
        """Whether the leader has it in our session."""
        self.sent_offset = -1
        self.sent_log_start_offset = -1


class FetcherPartitions:
    """In the order in which a full request names them: those that gave something go to the end."""

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
        """In the place of what was there for the same partition."""
        name = partition.replica.topic_partition
        self.remove(name)
        self._by_name[name] = self._by_key[partition.key] = partition
        self._of_state[partition.state][partition.key] = partition
        self._tell(partition)

    def remove(self, topic_partition: TopicPartition) -> FetchedPartition | None:
        partition = self._by_name.pop(topic_partition, None)
        if partition is not None:
            del self._by_key[partition.key]
            del self._of_state[partition.state][partition.key]
            self._untell(partition)
        return partition

    def move(self, partition: FetchedPartition, state: PartitionState) -> None:
        if partition.state is state:
            return
        del self._of_state[partition.state][partition.key]
        self._of_state[state][partition.key] = partition
        partition.state = state
        if state is PartitionState.FETCHING:
            self._tell(partition)
        else:
            self._untell(partition)

    def changed(self, partition: FetchedPartition) -> None:
        """It is at another offset now."""
        if partition.state is PartitionState.FETCHING:
            self._tell(partition)

    def served(self, partition: FetchedPartition) -> None:
        """It gave something: others come first in the next full request."""
        self._by_key[partition.key] = self._by_key.pop(partition.key)

    def take_changes(self, *, is_full: bool) -> tuple[list[FetchedPartition], list[PartitionKey]]:
        """What the next request names and what it gives up; the leader knows all of it afterwards."""
        if is_full:
            named = [each for each in self if each.state is PartitionState.FETCHING]
            forgotten: list[PartitionKey] = []
        else:
            named = list(self._changed.values())
            forgotten = list(self._forgotten)
        self._changed.clear()
        self._forgotten.clear()
        for each in named:
            each.is_known = True
            each.sent_offset = each.fetch_offset
            each.sent_log_start_offset = each.replica.log_start_offset
        return named, forgotten

    def forget_session(self) -> None:
        """The leader knows nothing of us any more."""
        self._forgotten.clear()
        for each in self:
            each.is_known = False

    def _tell(self, partition: FetchedPartition) -> None:
        # The leader may still have what was there before: it is told anew, and not told to forget.
        self._forgotten.pop(partition.key, None)
        self._changed[partition.key] = partition

    def _untell(self, partition: FetchedPartition) -> None:
        self._changed.pop(partition.key, None)
        if partition.is_known:
            partition.is_known = False
            self._forgotten[partition.key] = None
