"""Moves of ``cluster rebalance`` and ``cluster drain``: equal brokers and racks, no lost replica, few copies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.topic_partition import TopicPartition
from barnabas.placement.cluster_model import ReplicaAssignments, ReplicaMove
from barnabas.placement.replica_balance import BYTES_APART_MIN, drain, rebalance

GIB = 1 << 30
Replicas = dict[TopicPartition, tuple[int, ...]]


def topic(name: str, *replicas: tuple[int, ...]) -> Replicas:
    return {TopicPartition(name, index): brokers for index, brokers in enumerate(replicas)}


def state(
    replicas: Replicas,
    racks: Mapping[int, str | None] | Iterable[int],
    sizes: Mapping[TopicPartition, int] | None = None,
) -> ReplicaAssignments:
    known = racks if isinstance(racks, Mapping) else dict.fromkeys(racks)
    return ReplicaAssignments(
        known, replicas, sizes or {}, {partition: brokers[0] for partition, brokers in replicas.items()}
    )


def after(given: ReplicaAssignments, moves: Iterable[ReplicaMove]) -> Replicas:
    return {**given.replicas, **{move.partition: move.after for move in moves}}


def counts(replicas: Replicas, name: str | None = None) -> Counter[int]:
    return Counter(broker for tp, brokers in replicas.items() if name in (None, tp.topic) for broker in brokers)


def copies(moves: Iterable[ReplicaMove]) -> int:
    return sum(len(move.adds) for move in moves)


def test_a_balanced_cluster_stays_unchanged() -> None:
    assert rebalance(state(topic("a", (1, 2), (2, 3), (3, 1)), (1, 2, 3))) == []


def test_a_new_broker_receives_its_share_and_no_more() -> None:
    before = state(topic("a", *[(1, 2)] * 6), (1, 2, 3))
    moves = rebalance(before)
    assert copies(moves) == 4
    assert counts(after(before, moves)) == {1: 4, 2: 4, 3: 4}
    assert Counter(brokers[0] for brokers in after(before, moves).values()) == {1: 2, 2: 2, 3: 2}


def test_many_small_topics_are_spread_together() -> None:
    before = state({tp: replicas for n in range(9) for tp, replicas in topic(f"t{n}", (1,)).items()}, (1, 2, 3))
    moves = rebalance(before)
    assert copies(moves) == 6
    assert counts(after(before, moves)) == {1: 3, 2: 3, 3: 3}


def test_racks_come_first() -> None:
    before = state(topic("a", (1, 2), (3, 4)), {1: "x", 2: "x", 3: "y", 4: "y"})
    for brokers in after(before, rebalance(before)).values():
        assert len({broker in (1, 2) for broker in brokers}) == 2


@pytest.mark.parametrize(
    "replicas",
    [
        [(1, 2), (1, 2), (2, 3), (2, 3), (1, 3), (1, 3)],
        [(1, 2), (1, 2), (2, 3), (2, 3), (3, 4), (4, 3), (1, 4), (4, 1)],  # 1 and 3 have no common partition.
    ],
)
def test_leaders_are_balanced_without_copies(replicas: list[tuple[int, int]]) -> None:
    before = state(topic("a", *replicas), {broker for pair in replicas for broker in pair})
    moves = rebalance(before)
    assert copies(moves) == 0
    assert set(Counter(brokers[0] for brokers in after(before, moves).values()).values()) == {2}


def test_bytes_are_balanced_where_counts_are_equal() -> None:
    replicas = topic("a", (1,), (2,), (1,), (2,))
    sizes = dict(zip(replicas, (5 * GIB, GIB, 4 * GIB, GIB), strict=True))
    before = state(replicas, (1, 2), sizes)
    moves = rebalance(before)
    placed = after(before, moves)
    assert counts(placed) == {1: 2, 2: 2}
    there = {broker: sum(sizes[tp] for tp, brokers in placed.items() if broker in brokers) for broker in (1, 2)}
    assert sorted(there.values()) == [5 * GIB, 6 * GIB]
    assert sum(move.copied_bytes for move in moves) == 5 * GIB


def test_small_differences_in_bytes_cause_no_move() -> None:
    replicas = topic("a", (1,), (2,), (1,), (2,))
    sizes = dict(zip(replicas, (BYTES_APART_MIN - 2, 1, 0, 0), strict=True))
    assert rebalance(state(replicas, (1, 2), sizes)) == []


def test_fixed_partitions_and_closed_brokers_stay_unchanged() -> None:
    replicas = topic("a", (1,), (1,), (1,), (1,))
    fixed = replace(state(replicas, (1, 2)), fixed=frozenset(replicas))
    assert rebalance(fixed) == []
    assert rebalance(replace(fixed, fixed=frozenset(), closed=frozenset({2}))) == []
    half = replace(fixed, fixed=frozenset([TopicPartition("a", 0), TopicPartition("a", 1)]))
    assert {move.partition.partition for move in rebalance(half)} == {2, 3}


def test_a_dead_broker_keeps_its_replicas() -> None:
    before = state(topic("a", (1, 9), (2, 9), (1, 9), (1, 9)), (1, 2))
    moves = rebalance(before)
    assert copies(moves) == 1
    assert all(9 in brokers for brokers in after(before, moves).values())


def test_only_replicas_of_a_drained_broker_move() -> None:
    before = state(topic("a", (1, 2), (2, 3), (3, 1), (1, 2), (1, 2)), (1, 2, 4))
    moves = drain(before, {3})
    assert {move.partition.partition for move in moves if move.adds} == {1, 2}
    assert counts(after(before, moves))[3] == 0
    assert counts(after(before, moves))[4] == 2
    with pytest.raises(ValueError, match="a-1 has 2 replicas, and no other broker is left for the one on 3"):
        drain(state(topic("a", (1, 2), (2, 3)), (2,)), {3})


BROKERS = st.sets(st.integers(1, 7), min_size=3, max_size=7)


@st.composite
def clusters(draw: st.DrawFn, *, has_racks: bool | None = None) -> ReplicaAssignments:
    brokers = draw(BROKERS)
    racked = draw(st.booleans()) if has_racks is None else has_racks
    racks = {broker: draw(st.sampled_from("xyz")) if racked else None for broker in sorted(brokers)}
    replicas: Replicas = {}
    assignment = st.lists(st.sampled_from(sorted(brokers)), min_size=1, max_size=3, unique=True).map(tuple)
    for name in ("a", "b"):
        factor = draw(st.integers(1, 3))
        replicas |= topic(name, *draw(st.lists(assignment, max_size=10)))
        replicas |= {
            tp: tuple(dict.fromkeys((*assigned, *sorted(brokers))))[:factor]
            for tp, assigned in replicas.items()
            if tp.topic == name
        }
    sizes = {partition: draw(st.integers(0, 40)) * BYTES_APART_MIN for partition in replicas}
    return state(replicas, racks, sizes)


def check_spread(before: ReplicaAssignments, placed: Replicas) -> None:
    """No replica is lost or on a broker twice, and racks are at least as many as before."""
    for partition, brokers in placed.items():
        assert len(set(brokers)) == len(brokers) == len(before.replicas[partition])
        known_racks = {rack for rack in before.racks.values() if rack is not None}
        if known_racks:
            used = {before.racks[broker] for broker in brokers if broker in before.racks}
            assert len(used) >= len(
                {before.racks[broker] for broker in before.replicas[partition] if broker in before.racks}
            )


@given(clusters())
def test_any_rebalanced_cluster_is_balanced_and_stays_unchanged(before: ReplicaAssignments) -> None:
    moves = rebalance(before)
    assert rebalance(before) == moves
    placed = after(before, moves)
    check_spread(before, placed)
    assert set(counts(placed)) <= set(before.racks)
    racks = set(before.racks.values())
    for brokers in placed.values():
        if None not in racks:
            assert len({before.racks[broker] for broker in brokers}) == min(len(brokers), len(racks))
    if None in racks:
        for name in ("a", "b", None):
            held = [counts(placed, name)[broker] for broker in before.racks]
            assert max(held) - min(held) <= 1
    assert rebalance(replace(before, replicas=placed)) == []


@given(clusters(has_racks=False))
def test_no_fewer_copies_could_make_the_counts_equal(before: ReplicaAssignments) -> None:
    """Without bytes and with one topic: as many copies as full brokers have replicas too many."""
    replicas = {tp: assigned for tp, assigned in before.replicas.items() if tp.topic == "a"}
    if not replicas:
        return
    moves = rebalance(replace(before, replicas=replicas, sizes={}))
    held = counts(replicas)
    least, rest = divmod(held.total(), len(before.racks))
    excess = sorted((held[broker] - least for broker in before.racks), reverse=True)
    assert copies(moves) == sum(max(0, above_least - (index < rest)) for index, above_least in enumerate(excess))


@given(clusters(), st.data())
def test_repeated_planning_in_between_terminates(before: ReplicaAssignments, data: st.DataObject) -> None:
    moves = rebalance(before)
    made = data.draw(st.integers(0, len(moves)))
    between = replace(before, replicas=after(before, moves[:made]))
    rest = rebalance(between)
    assert rebalance(replace(between, replicas=after(between, rest))) == []


@given(clusters(has_racks=False), st.data())
def test_repeated_planning_in_between_copies_the_remaining_replicas(
    before: ReplicaAssignments, data: st.DataObject
) -> None:
    """For counts, each move is one step nearer to the end; for bytes and racks this is not guaranteed."""
    before = replace(
        before, sizes={}, replicas={tp: assigned for tp, assigned in before.replicas.items() if tp.topic == "a"}
    )
    moves = rebalance(before)
    made = data.draw(st.integers(0, len(moves)))
    rest = rebalance(replace(before, replicas=after(before, moves[:made])))
    assert copies(rest) == copies(moves[made:])


@given(clusters(), st.data())
def test_a_drained_broker_is_empty_and_no_other_replica_moves(before: ReplicaAssignments, data: st.DataObject) -> None:
    leaving = data.draw(st.sampled_from(sorted(before.racks)))
    left = {broker: rack for broker, rack in before.racks.items() if broker != leaving}
    if any(leaving in brokers and len(brokers) > len(left) for brokers in before.replicas.values()):
        return
    stage = replace(before, racks=left)
    moves = drain(stage, {leaving})
    placed = after(before, moves)
    check_spread(stage, placed)
    assert counts(placed)[leaving] == 0
    assert copies(moves) == counts(dict(before.replicas))[leaving]
    made = data.draw(st.integers(0, len(moves)))
    between = replace(stage, replicas=after(before, moves[:made]))
    rest = drain(between, {leaving})
    assert [set(move.after) for move in rest if move.adds] == [set(move.after) for move in moves[made:] if move.adds]
