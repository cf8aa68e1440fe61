"""Orders that Java 17 and Kafka 4.3.1 printed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.steps import whole
from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.assignor.hash_order import (
    OrderedFrozenSet,
    PartitionSet,
    SpreadHashes,
    capacity_of_copy,
    filled_capacity,
    grown_capacity,
    hash_order,
    hash_order_in_steps,
    in_order,
    in_table_order,
    in_timeline_order,
    java_sort_key,
    names_in_order,
    ordered,
    table_size,
    uuid_hash,
)
from barnabas.coordinator.partitioner import java_string_hash

NAMES = ["orders", "payments", "a", "b", "Aa", "BB", "users", "clicks", "audit", "m-1", "m-2", "m-3", "m-4", "m-5"]
TOPICS = [
    "OItGT6Z-mGlXcqicP_LGEg", "jY05PZcjh7I9smbl0OwHYA", "OX68poE32lMa81NFJfxVCA",
    "07Nvs7t8He86jfMh4YLx_Q", "t-A1PZcjh7I9smbl0OwHYA", "xIOHN2UFhor-ls9HsRvypQ",
]  # fmt: skip


def test_names_of_a_subscription_are_in_the_order_of_a_hash_set() -> None:
    assert names_in_order(NAMES) == (
        ["Aa", "BB", "a", "b", "payments", "users", "m-1", "m-3", "m-2", "m-5", "m-4", "audit", "clicks", "orders"]
    )


def test_members_are_in_the_order_of_a_timeline_table() -> None:
    assert whole(in_timeline_order(NAMES[:12])) == (
        ["clicks", "m-3", "BB", "Aa", "m-2", "audit", "b", "orders", "m-1", "payments", "users", "a"]
    )


def test_topics_are_in_the_order_of_their_hashes() -> None:
    topics = [Uuid.from_string(text) for text in TOPICS]
    in_table = hash_order(topics, SpreadHashes(uuid_hash), capacity_of_copy(len(topics)))
    assert [TOPICS.index(str(topic)) for topic in in_table] == [3, 5, 4, 1, 0, 2]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("AAAAAAAAAAAAAAAAAAAAAQ", 1), ("OX68poE32lMa81NFJfxVCA", -2025430856), ("07Nvs7t8He86jfMh4YLx_Q", -1279233920)],
)
def test_the_hash_of_a_topic_id_equals_kafkas(text: str, expected: int) -> None:
    assert uuid_hash(Uuid.from_string(text)) == expected & 0xFFFFFFFF


def test_partitions_are_in_the_order_of_their_bins() -> None:
    assert list(in_table_order(ordered([33, 1, 17, 40, 8, 70000, 5]))) == [33, 1, 17, 70000, 5, 40, 8]


def test_a_ninth_partition_of_a_bin_doubles_a_small_table() -> None:
    partitions = PartitionSet()
    for partition in range(0, 144, 16):
        partitions.add(partition)
    expected = [0, 32, 64, 96, 128, 16, 48, 80, 112]
    assert list(in_order(partitions.frozen())) == expected
    added = list(range(0, 144, 16))
    spread = SpreadHashes[int](int)
    assert hash_order(added, spread, filled_capacity(added, spread)) == expected


@pytest.mark.parametrize(("size", "capacity"), [(0, 1), (1, 1), (2, 2), (3, 4), (16, 16), (17, 32)])
def test_a_table_has_a_power_of_two_bins(size: int, capacity: int) -> None:
    assert table_size(size) == capacity


@pytest.mark.parametrize(("size", "begin", "capacity"), [(12, 16, 16), (13, 16, 32), (1, 1, 2), (2, 1, 4), (3, 1, 4)])
def test_a_table_grows_when_three_quarters_are_used(size: int, begin: int, capacity: int) -> None:
    assert grown_capacity(size, begin) == capacity


@given(st.lists(st.text(max_size=4), unique=True, max_size=50), st.sampled_from((1, 2, 16, 64)))
def test_steps_give_the_same_order(keys: list[str], capacity: int) -> None:
    spread = SpreadHashes(java_string_hash)
    assert whole(hash_order_in_steps(keys, spread, capacity)) == hash_order(keys, spread, capacity)


@given(st.lists(st.integers(0, 200), unique=True))
def test_a_set_keeps_the_order_that_it_was_given(partitions: list[int]) -> None:
    kept = ordered(partitions)
    assert kept == frozenset(partitions)
    assert list(in_order(kept)) == partitions
    assert isinstance(kept, OrderedFrozenSet) == (partitions != sorted(partitions))


@given(st.lists(st.integers(0, 200), unique=True), st.lists(st.integers(0, 200)))
def test_a_partition_set_contains_what_was_added_and_not_removed(added: list[int], removed: list[int]) -> None:
    partitions = PartitionSet()
    for partition in added:
        partitions.add(partition)
    for partition in removed:
        partitions.discard(partition)
    assert partitions.frozen() == frozenset(added) - frozenset(removed)
    assert len(partitions) == len(set(added) - set(removed))


def test_java_compares_strings_by_their_utf16_units() -> None:
    assert sorted(["\uff5e", "\U0001f600"], key=java_sort_key) == ["\U0001f600", "\uff5e"]
