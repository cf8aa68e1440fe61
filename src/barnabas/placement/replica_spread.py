"""Spread replicas equally over brokers, with as few moves as possible.

Replicas stay on their brokers unless one of these rules requires a move. The strongest comes first:

1. only the given brokers, and different ones for each partition;
2. as many racks for each partition as it has replicas, or as exist, if the brokers have racks;
3. each topic equally on all brokers (the counts differ by one at most), then all topics together;
4. preferred leaders equally on all brokers, by topic and together. A change of the leader copies nothing.

Rules 3 and 4 are goals: racks take precedence, and no swap of several partitions at once is tried.
The same input has the same result.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from barnabas.common.topic_partition import TopicPartition

__all__ = ["spread"]

Count = Callable[[int], int]


def spread(
    current: Mapping[TopicPartition, Sequence[int]], racks: Mapping[int, str | None], factor: int | None = None
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the replicas of each partition, the preferred leader first. ``racks`` has the allowed brokers.

    ``factor`` is the number of replicas for each partition; by default its present number. Raise ValueError if there
    are fewer brokers.
    """
    needed = max((factor or len(brokers) for brokers in current.values()), default=0)
    if needed > len(racks):
        raise ValueError(f"{needed} replicas can't be on {len(racks)} brokers: each needs a broker of its own")
    plan = _Plan(current, racks)
    for partition in plan.replicas:
        plan.shrink(partition, factor or len(current[partition]))
    for partition in plan.replicas:
        plan.fill(partition, factor or len(current[partition]))
        plan.use_more_racks(partition)
    for topic in sorted(plan.on):
        plan.balance([topic], partial(plan.count_of, topic))
    plan.balance(sorted(plan.on), plan.total.__getitem__)
    plan.balance_leaders()
    return {partition: tuple(brokers) for partition, brokers in plan.replicas.items()}


class _Plan:
    """The planned replicas so far, and the count of each broker."""

    def __init__(self, current: Mapping[TopicPartition, Sequence[int]], racks: Mapping[int, str | None]) -> None:
        self.racks = racks
        self.replicas: dict[TopicPartition, list[int]] = {}
        self.on: dict[str, dict[int, set[TopicPartition]]] = defaultdict(lambda: {broker: set() for broker in racks})
        self.total: Counter[int] = Counter()
        for partition in sorted(current):
            self.replicas[partition] = []
            for broker in dict.fromkeys(current[partition]):
                if broker in racks:
                    self._add(partition, broker)

    def count_of(self, topic: str, broker: int) -> int:
        return len(self.on[topic][broker])

    def _add(self, partition: TopicPartition, broker: int, place: int | None = None) -> None:
        brokers = self.replicas[partition]
        brokers.insert(len(brokers) if place is None else place, broker)
        self.on[partition.topic][broker].add(partition)
        self.total[broker] += 1

    def _remove(self, partition: TopicPartition, broker: int) -> int:
        place = self.replicas[partition].index(broker)
        del self.replicas[partition][place]
        self.on[partition.topic][broker].discard(partition)
        self.total[broker] -= 1
        return place

    def _load(self, partition: TopicPartition, broker: int) -> tuple[int, int]:
        return self.count_of(partition.topic, broker), self.total[broker]

    def _same_rack(self, partition: TopicPartition, broker: int) -> int:
        """Return how many other replicas of the partition are in the broker's rack."""
        rack = self.racks[broker]
        if rack is None:
            return 0
        return sum(1 for other in self.replicas[partition] if other != broker and self.racks[other] == rack)

    def shrink(self, partition: TopicPartition, factor: int) -> None:
        """Remove replicas, the preferred leader last."""
        while len(self.replicas[partition]) > factor:
            followers = self.replicas[partition][1:]
            self._remove(
                partition,
                max(
                    followers,
                    key=lambda broker: (self._same_rack(partition, broker), *self._load(partition, broker), broker),
                ),
            )

    def fill(self, partition: TopicPartition, factor: int) -> None:
        while len(self.replicas[partition]) < factor:
            free = (broker for broker in self.racks if broker not in self.replicas[partition])
            self._add(
                partition,
                min(
                    free,
                    key=lambda broker: (self._same_rack(partition, broker), *self._load(partition, broker), broker),
                ),
            )

    def use_more_racks(self, partition: TopicPartition) -> None:
        while True:
            crowded = [broker for broker in self.replicas[partition] if self._same_rack(partition, broker)]
            used = {self.racks[broker] for broker in self.replicas[partition]}
            better = [broker for broker, rack in self.racks.items() if rack is not None and rack not in used]
            if not crowded or not better:
                return
            place = self._remove(partition, max(crowded, key=lambda broker: (*self._load(partition, broker), broker)))
            self._add(partition, min(better, key=lambda broker: (*self._load(partition, broker), broker)), place)

    def balance(self, topics: Sequence[str], count: Count) -> None:
        """Take replicas from brokers that have at least two more than others. No topic becomes less equal."""
        start = 0
        while True:
            step = self._step(topics, count, start)
            if step is None:
                return
            start, partition, full, empty = step
            self._add(partition, empty, self._remove(partition, full))

    def _step(self, topics: Sequence[str], count: Count, start: int) -> tuple[int, TopicPartition, int, int] | None:
        """Continue the search where the last step succeeded: earlier topics rarely have more to move."""
        for full, empty in _pairs(self.racks, count):
            for index in (*range(start, len(topics)), *range(start)):
                on = self.on[topics[index]]
                if len(on[full]) <= len(on[empty]):
                    continue
                fitting = [candidate for candidate in on[full] - on[empty] if self._keeps_racks(candidate, full, empty)]
                if fitting:
                    return index, min(fitting), full, empty
        return None

    def _keeps_racks(self, partition: TopicPartition, old: int, new: int) -> bool:
        if self.racks[new] == self.racks[old]:
            return True
        others = [self.racks[broker] for broker in self.replicas[partition] if broker != old]
        return self.racks[new] not in others or self.racks[old] in others

    def balance_leaders(self) -> None:
        led: dict[str, Counter[int]] = defaultdict(Counter)
        total: Counter[int] = Counter()
        for partition, brokers in self.replicas.items():
            led[partition.topic][brokers[0]] += 1
            total[brokers[0]] += 1
        by_topic: dict[str, list[TopicPartition]] = defaultdict(list)
        for partition in self.replicas:
            by_topic[partition.topic].append(partition)
        for topic, partitions in by_topic.items():
            self._hand_over(partitions, led[topic].__getitem__, led, total)
        self._hand_over(list(self.replicas), total.__getitem__, led, total)

    def _hand_over(
        self,
        partitions: Sequence[TopicPartition],
        count: Count,
        led: Mapping[str, Counter[int]],
        total: Counter[int],
    ) -> None:
        led_by: dict[int, dict[TopicPartition, None]] = defaultdict(dict)  # An ordered set.
        for led_partition in partitions:
            led_by[self.replicas[led_partition][0]][led_partition] = None
        in_vain: set[tuple[int, int]] = set()  # Checking again at each step would take most of the time.
        while True:
            for full, empty in _pairs(self.racks, count):
                if (full, empty) in in_vain:
                    continue
                partition = next(
                    (candidate for candidate in led_by[full] if self._can_lead(candidate, full, empty, led)), None
                )
                if partition is not None:
                    break
                in_vain.add((full, empty))
            else:
                return
            brokers = self.replicas[partition]
            brokers.remove(empty)
            brokers.insert(0, empty)
            del led_by[full][partition]
            led_by[empty][partition] = None
            for counter in (led[partition.topic], total):
                counter[full] -= 1
                counter[empty] += 1

    def _can_lead(self, partition: TopicPartition, full: int, empty: int, led: Mapping[str, Counter[int]]) -> bool:
        counts = led[partition.topic]
        return empty in self.replicas[partition] and counts[full] > counts[empty]


def _pairs(brokers: Iterable[int], count: Count) -> Iterable[tuple[int, int]]:
    """Return pairs of brokers with too much and too little, the greatest differences first."""
    ordered = sorted(brokers, key=lambda broker: (count(broker), broker))
    for full in reversed(ordered):
        for empty in ordered:
            if count(full) - count(empty) <= 1:
                break
            yield full, empty
