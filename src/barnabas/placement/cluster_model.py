"""The places of replicas while a plan is made: counts and bytes of each broker, updated with each change."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass

from barnabas.common.topic_partition import TopicPartition

__all__ = ["Candidates", "ClusterModel", "ReplicaAssignments", "ReplicaMove", "unequal_pairs"]

Sized = tuple[int, TopicPartition]


@dataclass(frozen=True, slots=True)
class ReplicaAssignments:
    """``racks`` has the brokers that are alive, ``sizes`` the bytes of one replica of each partition.

    Partitions in ``fixed`` do not change, and brokers in ``closed`` neither receive nor release replicas. ``leaders``
    are the present leaders.
    """

    racks: Mapping[int, str | None]
    replicas: Mapping[TopicPartition, tuple[int, ...]]
    sizes: Mapping[TopicPartition, int]
    leaders: Mapping[TopicPartition, int | None]
    fixed: Set[TopicPartition] = frozenset()
    closed: Set[int] = frozenset()


@dataclass(frozen=True, slots=True)
class ReplicaMove:
    """The replicas of a partition before and after, the preferred leader first."""

    partition: TopicPartition
    before: tuple[int, ...]
    after: tuple[int, ...]
    size: int
    """The bytes of one replica."""

    @property
    def adds(self) -> tuple[int, ...]:
        return tuple(replica for replica in self.after if replica not in self.before)

    @property
    def copied_bytes(self) -> int:
        return self.size * len(self.adds)


class ClusterModel:
    """``brokers`` are those that may receive and release replicas."""

    def __init__(self, state: ReplicaAssignments) -> None:
        self.state = state
        self.brokers = sorted(state.racks.keys() - state.closed)
        self.replicas = {partition: list(state.replicas[partition]) for partition in sorted(state.replicas)}
        self.movable = [partition for partition in self.replicas if partition not in state.fixed]
        self.topic_counts: dict[str, Counter[int]] = defaultdict(Counter)
        self.bytes: Counter[int] = Counter()
        self.by_size: dict[int, list[Sized]] = defaultdict(list)
        self._topics_by_size: dict[tuple[str, int], list[Sized]] = defaultdict(list)
        for partition, brokers in self.replicas.items():
            for broker in brokers:
                self.topic_counts[partition.topic][broker] += 1
                self.bytes[broker] += self.size(partition)
                for entries in self._entries(partition, broker):
                    entries.append((self.size(partition), partition))
        for entries in (*self.by_size.values(), *self._topics_by_size.values()):
            entries.sort()
        self.replaced_count = 0
        self._changed: dict[TopicPartition, None] = {}

    def size(self, partition: TopicPartition) -> int:
        return self.state.sizes.get(partition, 0)

    def count(self, broker: int) -> int:
        return len(self.by_size[broker])

    def load(self, topic: str, broker: int) -> tuple[int, int, int, int]:
        """Return the load: the lower, the better a place for a replica of the topic."""
        return self.topic_counts[topic][broker], self.count(broker), self.bytes[broker], broker

    def replace(self, partition: TopicPartition, old: int, new: int) -> None:
        """Replace the old broker by the new one among the replicas."""
        brokers = self.replicas[partition]
        brokers[brokers.index(old)] = new
        entry = (self.size(partition), partition)
        for broker, sign in ((old, -1), (new, 1)):
            self.topic_counts[partition.topic][broker] += sign
            self.bytes[broker] += sign * entry[0]
        for entries in self._entries(partition, old):
            del entries[bisect_left(entries, entry)]
        for entries in self._entries(partition, new):
            insort(entries, entry)
        self.replaced_count += 1
        self._changed[partition] = None

    def _entries(self, partition: TopicPartition, broker: int) -> tuple[list[Sized], list[Sized]]:
        return self.by_size[broker], self._topics_by_size[partition.topic, broker]

    def lead(self, partition: TopicPartition, broker: int) -> None:
        """Make one of its replicas the preferred leader."""
        brokers = self.replicas[partition]
        brokers.remove(broker)
        brokers.insert(0, broker)
        self._changed[partition] = None

    def same_rack(self, partition: TopicPartition, broker: int, without: int | None = None) -> int:
        """Return how many other replicas of the partition are in the broker's rack."""
        racks = self.state.racks
        rack = racks.get(broker)
        if rack is None:
            return 0
        others = (replica for replica in self.replicas[partition] if replica not in (broker, without))
        return sum(1 for replica in others if racks.get(replica) == rack)

    def can_replace(self, partition: TopicPartition, old: int, new: int) -> bool:
        """Return whether a replica may move: it is not fixed, the target has none, and racks do not become fewer."""
        if partition in self.state.fixed or new in self.replicas[partition]:
            return False
        return not self.same_rack(partition, new, old) or bool(self.same_rack(partition, old))

    def on_broker(self, broker: int, topic: str | None = None) -> list[Sized]:
        """Return the partitions (of a topic) on a broker, by size."""
        return self.by_size[broker] if topic is None else self._topics_by_size[topic, broker]

    def near(self, broker: int, size: int) -> Iterator[TopicPartition]:
        """Return the partitions on a broker, those with a size near this one first."""
        entries = self.by_size[broker]
        right = bisect_left(entries, (size,))
        left = right - 1
        while left >= 0 or right < len(entries):
            if right == len(entries) or (left >= 0 and size - entries[left][0] <= entries[right][0] - size):
                yield entries[left][1]
                left -= 1
            else:
                yield entries[right][1]
                right += 1

    def moves(self) -> list[ReplicaMove]:
        """Return the changed partitions, in the order of their first change. Moves without copying are last."""
        made = []
        for partition in self._changed:
            before, after = self.state.replicas[partition], tuple(self.replicas[partition])
            if before != after:
                made.append(ReplicaMove(partition, before, after, self.size(partition)))
        return sorted(made, key=lambda move: not move.adds)


class Candidates:
    """Partitions that may move from one broker to another, computed once for each pair, and again at the end."""

    def __init__(
        self, placement: ClusterModel, fits: Callable[[TopicPartition, int, int], bool], topic: str | None = None
    ) -> None:
        self._placement, self._fits, self._topic = placement, fits, topic
        self._found: dict[tuple[int, int], list[Sized]] = {}

    def take(self, full: int, empty: int, size: int) -> TopicPartition | None:
        """Return the one with the nearest size. It is not returned again before all others."""
        entries = self._found.get((full, empty))
        is_fresh = entries is None
        while True:
            if entries is None:
                there = self._placement.on_broker(full, self._topic)
                entries = [entry for entry in there if self._fits(entry[1], full, empty)]
                self._found[full, empty] = entries
            while entries:
                partition = entries.pop(_nearest(entries, size))[1]
                if full in self._placement.replicas[partition] and self._fits(partition, full, empty):
                    return partition
            if is_fresh:
                return None
            entries, is_fresh = None, True


def _nearest(entries: list[Sized], size: int) -> int:
    right = bisect_left(entries, (size,))
    if right == len(entries):
        return right - 1
    return right - 1 if right and size - entries[right - 1][0] <= entries[right][0] - size else right


def unequal_pairs(brokers: Iterable[int], amount: Callable[[int], int], least: int = 2) -> Iterator[tuple[int, int]]:
    """Pair brokers with too much load with those with too little, as long as they differ by ``least``.

    The greatest differences are first. Of equal ``brokers`` the earlier ones count as less loaded.
    """
    ordered = sorted(brokers, key=amount)
    for full in reversed(ordered):
        for empty in ordered:
            if amount(full) - amount(empty) < least:
                break
            yield full, empty
