"""An index of partitions by leader, of leaderless ones by broker, and of those being reassigned.

Every heartbeat of a broker that shuts down checks whether it still leads a partition. A broker that returns can lead
the leaderless partitions that it holds. An operator lists reassignments. None of these may cost a walk over all
partitions of the cluster. Replay keeps the index up to date, at the cost of a check of each changed partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from barnabas.common.uuid import Uuid
from barnabas.metadata.image.partition_registration import NO_LEADER, PartitionRegistration
from barnabas.metadata.persistent_map import PersistentMap, in_order

__all__ = ["PartitionIndex", "PartitionKey", "Transition"]

PartitionKey = tuple[Uuid, int]
Transition = tuple[PartitionKey, PartitionRegistration | None, PartitionRegistration | None]
"""A partition before and after; None if it did not exist, or no longer exists."""

PartitionsByTopic = PersistentMap[Uuid, tuple[int, ...]]
"""Some partitions of each topic, in order. In a walk, adjacent ones are of one topic, so that few topics change."""

_NONE: PartitionsByTopic = PersistentMap()


class PartitionIndex:
    __slots__ = ("_leaderless", "_led_counts", "reassigning")

    EMPTY: ClassVar[PartitionIndex]

    def __init__(
        self,
        led_counts: Mapping[int, int],
        leaderless: Mapping[int, PartitionsByTopic],
        reassigning: PersistentMap[PartitionKey, None],
    ) -> None:
        self._led_counts = led_counts
        self._leaderless = leaderless
        self.reassigning = reassigning

    def led_count(self, broker_id: int) -> int:
        """Return how many partitions the broker leads; for ``NO_LEADER``, how many have no leader."""
        return self._led_counts.get(broker_id, 0)

    @property
    def partition_count(self) -> int:
        return sum(self._led_counts.values())

    def leaderless(self) -> list[PartitionKey]:
        """Return all partitions without a leader, in order, in one step. Only for few."""
        return sorted({key for broker_id in self._leaderless for key in self.leaderless_on(broker_id)})

    def leaderless_on(self, broker_id: int) -> Iterator[PartitionKey]:
        """Yield the partitions without a leader with a replica on the broker, by topic in the order of ``in_order``.

        They are those of this index, even if the image changes while the iterator is used.
        """
        held = self._leaderless.get(broker_id, _NONE)
        return ((topic_id, partition_id) for topic_id in in_order(held) for partition_id in held[topic_id])

    def after(self, transitions: Iterable[Transition]) -> PartitionIndex:
        changes = _Changes()
        for key, before, after in transitions:
            changes.take(key, before, after)
        if changes.is_empty:
            return self
        reassigning = self.reassigning
        if changes.reassigning or changes.reassigned:
            reassigning = reassigning.updated(changes.reassigning, changes.reassigned)
        return PartitionIndex(
            self._counts_with(changes.counts), self._leaderless_with(changes.added, changes.removed), reassigning
        )

    def _counts_with(self, changes: Mapping[int, int]) -> Mapping[int, int]:
        counts = dict(self._led_counts)
        for broker_id, change in changes.items():
            counts[broker_id] = counts.get(broker_id, 0) + change
            if not counts[broker_id]:
                del counts[broker_id]
        return counts

    def _leaderless_with(
        self, added: Mapping[int, dict[PartitionKey, None]], removed: Mapping[int, list[PartitionKey]]
    ) -> Mapping[int, PartitionsByTopic]:
        if not added and not removed:
            return self._leaderless
        leaderless = dict(self._leaderless)
        for broker_id in {**added, **removed}:
            held = self._leaderless.get(broker_id, _NONE)
            held = _changed(held, added.get(broker_id, {}), removed.get(broker_id, ()))
            if len(held):
                leaderless[broker_id] = held
            else:
                leaderless.pop(broker_id, None)
        return leaderless


PartitionIndex.EMPTY = PartitionIndex({}, {}, PersistentMap())


def _changed(
    held: PartitionsByTopic, added: Iterable[PartitionKey], removed: Iterable[PartitionKey]
) -> PartitionsByTopic:
    """The partitions without ``removed``, and with ``added``."""
    changed: dict[Uuid, set[int]] = {}

    def partitions_of(topic_id: Uuid) -> set[int]:
        partitions = changed.get(topic_id)
        if partitions is None:
            partitions = changed[topic_id] = set(held.get(topic_id, ()))
        return partitions

    for topic_id, partition_id in removed:
        partitions_of(topic_id).discard(partition_id)
    for topic_id, partition_id in added:
        partitions_of(topic_id).add(partition_id)
    put = {topic_id: tuple(sorted(partitions)) for topic_id, partitions in changed.items() if partitions}
    return held.updated(put, [topic_id for topic_id, partitions in changed.items() if not partitions])


class _Changes:
    """Apply a number of transitions to the index."""

    __slots__ = ("added", "counts", "reassigned", "reassigning", "removed")

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.added: dict[int, dict[PartitionKey, None]] = {}
        self.removed: dict[int, list[PartitionKey]] = {}
        self.reassigning: dict[PartitionKey, None] = {}
        self.reassigned: list[PartitionKey] = []

    @property
    def is_empty(self) -> bool:
        return not (self.counts or self.added or self.removed or self.reassigning or self.reassigned)

    def take(
        self, key: PartitionKey, before: PartitionRegistration | None, after: PartitionRegistration | None
    ) -> None:
        if before is not None:
            self.counts[before.leader] = self.counts.get(before.leader, 0) - 1
            if before.leader == NO_LEADER:
                for replica in before.replicas:
                    self.removed.setdefault(replica, []).append(key)
            if before.is_reassigning:
                self.reassigned.append(key)
        if after is not None:
            self.counts[after.leader] = self.counts.get(after.leader, 0) + 1
            if after.leader == NO_LEADER:
                for replica in after.replicas:
                    self.added.setdefault(replica, {})[key] = None
            if after.is_reassigning:
                self.reassigning[key] = None
