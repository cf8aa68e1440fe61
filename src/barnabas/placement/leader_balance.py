"""Balance preferred leaders over all brokers: first those of each topic, then all together.

A partition's preferred leader is one of its replicas. So a broker that leads too much often shares no partition with
one that leads too little. It passes one to a third broker, which passes one to the next: this module finds the shortest
such chain.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence

from barnabas.common.topic_partition import TopicPartition
from barnabas.placement.cluster_model import ClusterModel

__all__ = ["balance_leaders"]

May = Callable[[TopicPartition, int, int], bool]
Chain = list[tuple[TopicPartition, int, int]]


def balance_leaders(placement: ClusterModel, partitions: Sequence[TopicPartition]) -> None:
    """Balance leaders. Only ``partitions`` may change, and all count."""
    total: Counter[int] = Counter()
    by_topic: dict[str, Counter[int]] = defaultdict(Counter)
    for partition, brokers in placement.replicas.items():
        total[brokers[0]] += 1
        by_topic[partition.topic][brokers[0]] += 1
    of_topics: dict[str, list[TopicPartition]] = defaultdict(list)
    for partition in partitions:
        of_topics[partition.topic].append(partition)
    for topic, own in of_topics.items():
        _Leaders(placement, own, by_topic[topic], total, by_topic).balance(lambda *_: True)

    def topics_stay_equal(partition: TopicPartition, old: int, new: int) -> bool:
        counts = by_topic[partition.topic]
        return counts[old] > counts[new]

    _Leaders(placement, partitions, total, total, by_topic).balance(topics_stay_equal)


class _Leaders:
    """``counted`` has the counts to equalise: one of ``by_topic``, or ``total``."""

    def __init__(
        self,
        placement: ClusterModel,
        partitions: Iterable[TopicPartition],
        counted: Counter[int],
        total: Counter[int],
        by_topic: dict[str, Counter[int]],
    ) -> None:
        self._placement, self._counted, self._total, self._by_topic = placement, counted, total, by_topic
        # old leader -> possible new one -> partitions; an ordered set.
        self._could: dict[int, dict[int, dict[TopicPartition, None]]] = defaultdict(lambda: defaultdict(dict))
        for partition in partitions:
            self._list(partition)

    def balance(self, may: May) -> None:
        while (chain := self._shortest_chain(may)) is not None:
            for partition, old, new in chain:
                self._unlist(partition)
                self._placement.lead(partition, new)
                self._list(partition)
                for counter in (self._total, self._by_topic[partition.topic]):
                    counter[old] -= 1
                    counter[new] += 1

    def _list(self, partition: TopicPartition) -> None:
        leader, *others = self._placement.replicas[partition]
        for follower in others:
            self._could[leader][follower][partition] = None

    def _unlist(self, partition: TopicPartition) -> None:
        leader, *others = self._placement.replicas[partition]
        for follower in others:
            del self._could[leader][follower][partition]

    def _shortest_chain(self, may: May) -> Chain | None:
        brokers = self._placement.brokers
        ordered = sorted(brokers, key=lambda broker: (self._counted[broker], self._total[broker], broker))
        for full in reversed(ordered):
            if self._counted[full] - self._counted[ordered[0]] < 2:
                break
            chain = self._chain_from(full, may)
            if chain is not None:
                return chain
        return None

    def _chain_from(self, full: int, may: May) -> Chain | None:
        steps: dict[int, tuple[TopicPartition, int] | None] = {full: None}
        queue = deque([full])
        while queue:
            old = queue.popleft()
            if self._counted[old] <= self._counted[full] - 2:
                return _back(steps, old)
            for new in self._placement.brokers:
                if new in steps:
                    continue
                partition = next((candidate for candidate in self._could[old][new] if may(candidate, old, new)), None)
                if partition is not None:
                    steps[new] = partition, old
                    queue.append(new)
        return None


def _back(steps: dict[int, tuple[TopicPartition, int] | None], last: int) -> Chain:
    """Follow the chain from the last broker, so that no broker has two leaders too many in between."""
    chain: Chain = []
    while (step := steps[last]) is not None:
        partition, old = step
        chain.append((partition, old, last))
        last = old
    return chain
