"""What ``cluster rebalance`` and ``cluster drain`` move: equal brokers and racks, no replica lost, few copies."""

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
    return ReplicaAssignments(known, replicas, sizes or {}, {each: brokers[0] for each, brokers in replicas.items()})


def after(given: ReplicaAssignments, moves: Iterable[ReplicaMove]) -> Replicas:
    return {**given.replicas, **{each.partition: each.after for each in moves}}


def counts(replicas: Replicas, name: str | None = None) -> Counter[int]:
    return Counter(each for tp, brokers in replicas.items() if name in (None, tp.topic) for each in brokers)


def copies(moves: Iterable[ReplicaMove]) -> int:
    return sum(len(each.adds) for each in moves)


def test_what_is_well_stays() -> None:
    assert rebalance(state(topic("a", (1, 2), (2, 3), (3, 1)), (1, 2, 3))) == []


def test_a_broker_that_comes_gets_its_share_and_no_more() -> None:
    before = state(topic("a", *[(1, 2)] * 6), (1, 2, 3))
    moves = rebalance(before)
    assert copies(moves) == 4
    assert counts(after(before, moves)) == {1: 4, 2: 4, 3: 4}
    assert Counter(brokers[0] for brokers in after(before, moves).values()) == {1: 2, 2: 2, 3: 2}


def test_many_small_topics_are_spread_together() -> None:
    before = state({tp: each for n in range(9) for tp, each in topic(f"t{n}", (1,)).items()}, (1, 2, 3))
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
        [(1, 2), (1, 2), (2, 3), (2, 3), (3, 4), (4, 3), (1, 4), (4, 1)],  # 1 and 3 have no partition in common.
    ],
)
def test_leaders_are_evened_and_nothing_is_copied(replicas: list[tuple[int, int]]) -> None:
    before = state(topic("a", *replicas), {each for pair in replicas for each in pair})
    moves = rebalance(before)
    assert copies(moves) == 0
    assert set(Counter(brokers[0] for brokers in after(before, moves).values()).values()) == {2}


def test_bytes_are_evened_where_counts_are_equal() -> None:
    replicas = topic("a", (1,), (2,), (1,), (2,))
    sizes = dict(zip(replicas, (5 * GIB, GIB, 4 * GIB, GIB), strict=True))
    before = state(replicas, (1, 2), sizes)
    moves = rebalance(before)
    placed = after(before, moves)
    assert counts(placed) == {1: 2, 2: 2}
    there = {broker: sum(sizes[tp] for tp, brokers in placed.items() if broker in brokers) for broker in (1, 2)}
    assert sorted(there.values()) == [5 * GIB, 6 * GIB]
    assert sum(each.copied_bytes for each in moves) == 5 * GIB


def test_little_bytes_are_not_worth_a_move() -> None:
    replicas = topic("a", (1,), (2,), (1,), (2,))
    sizes = dict(zip(replicas, (BYTES_APART_MIN - 2, 1, 0, 0), strict=True))
    assert rebalance(state(replicas, (1, 2), sizes)) == []


def test_what_is_fixed_and_who_is_closed_stay() -> None:
    replicas = topic("a", (1,), (1,), (1,), (1,))
    fixed = replace(state(replicas, (1, 2)), fixed=frozenset(replicas))
    assert rebalance(fixed) == []
    assert rebalance(replace(fixed, fixed=frozenset(), closed=frozenset({2}))) == []
    half = replace(fixed, fixed=frozenset([TopicPartition("a", 0), TopicPartition("a", 1)]))
    assert {each.partition.partition for each in rebalance(half)} == {2, 3}


def test_a_dead_broker_keeps_what_it_has() -> None:
    before = state(topic("a", (1, 9), (2, 9), (1, 9), (1, 9)), (1, 2))
    moves = rebalance(before)
    assert copies(moves) == 1
    assert all(9 in brokers for brokers in after(before, moves).values())


def test_only_what_is_on_a_drained_broker_moves() -> None:
    before = state(topic("a", (1, 2), (2, 3), (3, 1), (1, 2), (1, 2)), (1, 2, 4))
    moves = drain(before, {3})
    assert {each.partition.partition for each in moves if each.adds} == {1, 2}
    assert counts(after(before, moves))[3] == 0
    assert counts(after(before, moves))[4] == 2
    with pytest.raises(ValueError, match="a-1 has 2 replicas, and no other broker is left for the one on 3"):
        drain(state(topic("a", (1, 2), (2, 3)), (2,)), {3})


BROKERS = st.sets(st.integers(1, 7), min_size=3, max_size=7)


@st.composite
def clusters(draw: st.DrawFn, *, has_racks: bool | None = None) -> ReplicaAssignments:
    brokers = draw(BROKERS)
    racked = draw(st.booleans()) if has_racks is None else has_racks
    racks = {each: draw(st.sampled_from("xyz")) if racked else None for each in sorted(brokers)}
    replicas: Replicas = {}
    one = st.lists(st.sampled_from(sorted(brokers)), min_size=1, max_size=3, unique=True).map(tuple)
    for name in ("a", "b"):
        factor = draw(st.integers(1, 3))
        replicas |= topic(name, *draw(st.lists(one, max_size=10)))
        replicas |= {
            tp: tuple(dict.fromkeys((*each, *sorted(brokers))))[:factor]
            for tp, each in replicas.items()
            if tp.topic == name
        }
    sizes = {each: draw(st.integers(0, 40)) * BYTES_APART_MIN for each in replicas}
    return state(replicas, racks, sizes)


def check_spread(before: ReplicaAssignments, placed: Replicas) -> None:
    """No replica is lost or on a broker twice, and racks are not fewer than before."""
    for partition, brokers in placed.items():
        assert len(set(brokers)) == len(brokers) == len(before.replicas[partition])
        told = {rack for rack in before.racks.values() if rack is not None}
        if told:
            used = {before.racks[each] for each in brokers if each in before.racks}
            assert len(used) >= len({before.racks[each] for each in before.replicas[partition] if each in before.racks})


@given(clusters())
def test_any_rebalanced_cluster_is_equal_and_stays(before: ReplicaAssignments) -> None:
    moves = rebalance(before)
    assert rebalance(before) == moves
    placed = after(before, moves)
    check_spread(before, placed)
    assert set(counts(placed)) <= set(before.racks)
    racks = set(before.racks.values())
    for brokers in placed.values():
        if None not in racks:
            assert len({before.racks[each] for each in brokers}) == min(len(brokers), len(racks))
    if None in racks:
        for name in ("a", "b", None):
            held = [counts(placed, name)[each] for each in before.racks]
            assert max(held) - min(held) <= 1
    assert rebalance(replace(before, replicas=placed)) == []


@given(clusters(has_racks=False))
def test_no_fewer_copies_could_make_the_counts_equal(before: ReplicaAssignments) -> None:
    """Without bytes and with one topic: as many copies as there are replicas too many on full brokers."""
    replicas = {tp: each for tp, each in before.replicas.items() if tp.topic == "a"}
    if not replicas:
        return
    moves = rebalance(replace(before, replicas=replicas, sizes={}))
    held = counts(replicas)
    least, rest = divmod(held.total(), len(before.racks))
    excess = sorted((held[each] - least for each in before.racks), reverse=True)
    assert copies(moves) == sum(max(0, each - (index < rest)) for index, each in enumerate(excess))


@given(clusters(), st.data())
def test_planning_again_in_between_comes_to_an_end(before: ReplicaAssignments, data: st.DataObject) -> None:
    moves = rebalance(before)
    made = data.draw(st.integers(0, len(moves)))
    between = replace(before, replicas=after(before, moves[:made]))
    rest = rebalance(between)
    assert rebalance(replace(between, replicas=after(between, rest))) == []


@given(clusters(has_racks=False), st.data())
def test_planning_again_in_between_copies_what_is_left(before: ReplicaAssignments, data: st.DataObject) -> None:
    """For counts, each move is one step nearer to the end; for bytes and racks that is not promised."""
    before = replace(before, sizes={}, replicas={tp: each for tp, each in before.replicas.items() if tp.topic == "a"})
    moves = rebalance(before)
    made = data.draw(st.integers(0, len(moves)))
    rest = rebalance(replace(before, replicas=after(before, moves[:made])))
    assert copies(rest) == copies(moves[made:])


@given(clusters(), st.data())
def test_a_drained_broker_is_empty_and_no_other_replica_moves(before: ReplicaAssignments, data: st.DataObject) -> None:
    leaving = data.draw(st.sampled_from(sorted(before.racks)))
    left = {each: rack for each, rack in before.racks.items() if each != leaving}
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
    assert [set(each.after) for each in rest if each.adds] == [set(each.after) for each in moves[made:] if each.adds]
