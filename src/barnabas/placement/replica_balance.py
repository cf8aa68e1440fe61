"""The moves that balance the load of brokers, or that empty some of them.

``rebalance`` follows these rules, the strongest first, and moves only what they require:

1. each partition keeps its number of replicas, on brokers that are alive, and on as many racks as possible;
2. each topic is spread equally over all brokers, then all topics together: counts differ by one at most;
3. the bytes of each broker are within a tenth of the mean, if rule 2 permits it, and if each byte of difference removed
   costs at most four copied bytes;
4. preferred leaders are spread equally over all brokers, by topic and together. That copies nothing.

``drain`` replaces the replicas on the brokers to be emptied, and no others, by the same rules.

Rules 3 and 4 are goals, not guarantees. The same input has the same result. Moves are in the order of choice, and each
choice starts from the placement after the previous moves: a new plan after some of them continues from there. For
counts it has exactly the remaining moves; for bytes it may have a few others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from itertools import islice

from barnabas.common.topic_partition import TopicPartition
from barnabas.placement.cluster_model import Candidates, ClusterModel, ReplicaAssignments, ReplicaMove, unequal_pairs
from barnabas.placement.leader_balance import balance_leaders

__all__ = ["BYTES_APART_MIN", "drain", "rebalance"]

BYTES_APART_MIN = 16 << 20
"""Brokers whose bytes differ by less are equal: it is a part of a segment."""
_TOLERANCE = 0.1
_PRICE = 0.25
_TRIED_SWAPS = 32


def rebalance(state: ReplicaAssignments) -> list[ReplicaMove]:
    """Return the moves. Partitions in ``state.fixed`` count, and don't move."""
    placement = ClusterModel(state)
    for partition in placement.movable:
        _use_more_racks(placement, partition)
    topics = dict.fromkeys(partition.topic for partition in placement.movable)
    made = -1
    while made != placement.replaced_count:  # Racks may prevent a step until another one is done.
        made = placement.replaced_count
        for topic in topics:
            _balance_topic(placement, topic)
        _balance_counts(placement)
        _balance_bytes(placement)
    balance_leaders(placement, placement.movable)
    return placement.moves()


def drain(state: ReplicaAssignments, leaving: Collection[int]) -> list[ReplicaMove]:
    """Return the moves. ``state.racks`` has the brokers for replicas. Raise ValueError if a partition needs more.

    If the preferred leader leaves, remaining and new replicas are equally good.
    """
    placement = ClusterModel(state)
    touched = [
        partition for partition in placement.movable if not set(leaving).isdisjoint(placement.replicas[partition])
    ]
    for partition in touched:
        for old in [broker for broker in placement.replicas[partition] if broker in leaving]:
            free = [broker for broker in placement.brokers if broker not in (*placement.replicas[partition], *leaving)]
            if not free:
                count = len(placement.replicas[partition])
                raise ValueError(f"{partition} has {count} replicas, and no other broker is left for the one on {old}")
            new = min(
                free,
                key=lambda broker: (
                    placement.same_rack(partition, broker, old),
                    *placement.load(partition.topic, broker),
                ),
            )
            placement.replace(partition, old, new)
    balance_leaders(placement, touched)
    return placement.moves()


def _use_more_racks(placement: ClusterModel, partition: TopicPartition) -> None:
    racks, topic = placement.state.racks, partition.topic
    while True:
        brokers = placement.replicas[partition]
        crowded = [
            broker for broker in brokers if broker in placement.brokers and placement.same_rack(partition, broker)
        ]
        used = {racks.get(broker) for broker in brokers}
        better = [broker for broker in placement.brokers if racks[broker] not in used]
        if not crowded or not better:
            return
        old = max(crowded, key=lambda broker: placement.load(topic, broker))
        placement.replace(partition, old, min(better, key=lambda broker: placement.load(topic, broker)))


def _balance_topic(placement: ClusterModel, topic: str) -> None:
    candidates = Candidates(placement, placement.can_replace, topic)

    def ordered() -> list[int]:
        return sorted(placement.brokers, key=lambda broker: placement.load(topic, broker))

    _hand_over(placement, candidates, placement.topic_counts[topic].__getitem__, ordered)


def _balance_counts(placement: ClusterModel) -> None:
    """Balance counts. No topic becomes less equal."""
    candidates = Candidates(placement, partial(_evens_topic, placement))

    def ordered() -> list[int]:
        return sorted(placement.brokers, key=lambda broker: (placement.bytes[broker], broker))

    _hand_over(placement, candidates, placement.count, ordered)


def _hand_over(
    placement: ClusterModel, candidates: Candidates, count: Callable[[int], int], ordered: Callable[[], list[int]]
) -> None:
    """Move replicas from brokers with many to those with few, as long as they differ by two and a move is possible."""
    in_vain: set[tuple[int, int]] = set()

    def step() -> bool:
        for full, empty in unequal_pairs(ordered(), count):
            if (full, empty) in in_vain:
                continue
            gap = placement.bytes[full] - placement.bytes[empty]
            partition = candidates.take(full, empty, gap // 2)
            if partition is not None:
                placement.replace(partition, full, empty)
                return True
            in_vain.add((full, empty))
        return False

    while step():
        pass


def _evens_topic(placement: ClusterModel, partition: TopicPartition, full: int, empty: int) -> bool:
    counts = placement.topic_counts[partition.topic]
    return counts[full] > counts[empty] and placement.can_replace(partition, full, empty)


def _balance_bytes(placement: ClusterModel) -> None:
    if not placement.brokers:
        return
    mean = sum(placement.bytes[broker] for broker in placement.brokers) / len(placement.brokers)
    low, high = mean * (1 - _TOLERANCE), mean * (1 + _TOLERANCE)
    in_vain: set[tuple[int, int]] = set()

    def step() -> bool:
        for full, empty in unequal_pairs(placement.brokers, placement.bytes.__getitem__, BYTES_APART_MIN):
            if (full, empty) in in_vain or (placement.bytes[full] <= high and placement.bytes[empty] >= low):
                continue
            there, back = _best_exchange(placement, full, empty)
            if there is None:
                in_vain.add((full, empty))
                continue
            placement.replace(there, full, empty)
            if back is not None:
                placement.replace(back, empty, full)
            in_vain.difference_update([pair for pair in in_vain if not {full, empty}.isdisjoint(pair)])
            return True
        return False

    while step():
        pass


def _best_exchange(
    placement: ClusterModel, full: int, empty: int
) -> tuple[TopicPartition | None, TopicPartition | None]:
    """Return the replica to move from the full broker to the empty one, and the one to return; None without benefit."""
    excess = (placement.bytes[full] - placement.bytes[empty]) // 2
    best: tuple[float, TopicPartition, TopicPartition | None] | None = None

    def consider(there: TopicPartition, back: TopicPartition | None) -> None:
        nonlocal best
        size, returned = placement.size(there), 0 if back is None else placement.size(back)
        price = abs(excess - (size - returned)) + _PRICE * (size + returned)
        if price < 0.95 * excess and (best is None or price < best[0]):
            best = price, there, back

    if placement.count(full) > placement.count(empty):
        lone = next((lone for lone in placement.near(full, excess) if _evens_topic(placement, lone, full, empty)), None)
        if lone is not None:
            consider(lone, None)
    for there in islice(placement.near(full, excess), _TRIED_SWAPS):
        if not placement.can_replace(there, full, empty):
            continue
        wanted = max(0, placement.size(there) - excess)
        back = next(
            (
                other
                for other in islice(placement.near(empty, wanted), _TRIED_SWAPS)
                if _can_swap(placement, there, other, full, empty)
            ),
            None,
        )
        if back is not None:
            consider(there, back)
    return (None, None) if best is None else best[1:]


def _can_swap(placement: ClusterModel, there: TopicPartition, back: TopicPartition, full: int, empty: int) -> bool:
    if there == back or not placement.can_replace(back, empty, full):
        return False
    return there.topic == back.topic or (
        _evens_topic(placement, there, full, empty) and _evens_topic(placement, back, empty, full)
    )
