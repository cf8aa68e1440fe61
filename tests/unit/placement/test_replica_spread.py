"""Placement of replicas: equally on all brokers, on different racks, with few moves."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.topic_partition import TopicPartition
from barnabas.placement.replica_spread import spread


def topic(name: str, *replicas: tuple[int, ...]) -> dict[TopicPartition, tuple[int, ...]]:
    return {TopicPartition(name, index): brokers for index, brokers in enumerate(replicas)}


def racks(*brokers: int) -> dict[int, str | None]:
    return dict.fromkeys(brokers)


def moves(before: dict[TopicPartition, tuple[int, ...]], after: dict[TopicPartition, tuple[int, ...]]) -> int:
    return sum(len(set(after[partition]) - set(before[partition])) for partition in before)


def test_a_balanced_cluster_stays_unchanged() -> None:
    current = topic("a", (1, 2), (2, 3), (3, 1))
    assert spread(current, racks(1, 2, 3)) == current


def test_only_replicas_of_a_removed_broker_move() -> None:
    current = topic("a", (1, 2), (2, 3), (3, 1))
    after = spread(current, racks(1, 2))
    assert after == topic("a", (1, 2), (2, 1), (2, 1)) or after == topic("a", (1, 2), (2, 1), (1, 2))
    assert moves(current, after) == 2


def test_a_new_broker_receives_its_share_and_no_more() -> None:
    current = topic("a", *[(1, 2)] * 6)
    after = spread(current, racks(1, 2, 3))
    assert moves(current, after) == 4
    assert Counter(broker for brokers in after.values() for broker in brokers) == {1: 4, 2: 4, 3: 4}
    assert Counter(brokers[0] for brokers in after.values()) == {1: 2, 2: 2, 3: 2}


def test_many_small_topics_are_spread_together() -> None:
    current: dict[TopicPartition, tuple[int, ...]] = {}
    for index in range(9):
        current |= topic(f"t{index}", (1,))
    after = spread(current, racks(1, 2, 3))
    assert Counter(brokers[0] for brokers in after.values()) == {1: 3, 2: 3, 3: 3}
    assert moves(current, after) == 6


def test_racks_come_before_staying() -> None:
    current = topic("a", (1, 2), (3, 4))
    after = spread(current, {1: "x", 2: "x", 3: "y", 4: "y"})
    for brokers in after.values():
        assert len({broker in (1, 2) for broker in brokers}) == 2


def test_more_and_fewer_replicas() -> None:
    current = topic("a", (1,), (2,), (3,))
    more = spread(current, racks(1, 2, 3), 3)
    assert all(sorted(brokers) == [1, 2, 3] for brokers in more.values())
    assert [brokers[0] for brokers in more.values()] == [1, 2, 3]
    assert spread(more, racks(1, 2, 3), 1) == current


def test_more_replicas_than_brokers_are_refused() -> None:
    with pytest.raises(ValueError, match="3 replicas can't be on 2 brokers"):
        spread(topic("a", (1,)), racks(1, 2), 3)


BROKERS = st.sets(st.integers(1, 9), min_size=3, max_size=9)


@given(st.data())
def test_any_spread_is_valid_and_equal(data: st.DataObject) -> None:
    before, after = data.draw(BROKERS), data.draw(BROKERS)
    has_racks = data.draw(st.booleans())
    where: dict[int, str | None] = {id_: data.draw(st.sampled_from("xyz")) if has_racks else None for id_ in after}
    replicas = st.lists(st.sampled_from(sorted(before)), min_size=1, max_size=3, unique=True).map(tuple)
    current: dict[TopicPartition, tuple[int, ...]] = {}
    for name in ("a", "b"):
        current |= topic(name, *data.draw(st.lists(replicas, max_size=12)))
    planned = spread(current, where)
    assert spread(current, where) == planned
    number_of_racks = len(set(where.values()))
    for partition, brokers in planned.items():
        assert len(set(brokers)) == len(brokers) == len(current[partition])
        assert set(brokers) <= after
        if has_racks:
            assert len({where[broker] for broker in brokers}) == min(len(brokers), number_of_racks)
    if not has_racks:
        for name in ("a", "b"):
            counts = Counter(broker for tp, brokers in planned.items() if tp.topic == name for broker in brokers)
            assert max(counts.values(), default=0) - min((counts[broker] for broker in after), default=0) <= 1
