"""Groups are mapped to the partitions that Kafka would choose."""

from __future__ import annotations

import pytest

from barnabas.coordinator.partitioner import coordinator_partition, java_string_hash


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("polygenelubricants", -2147483648),
        ("grüße", 98768023),
        ("😀", 1772899),
    ],
)
def test_the_hash_equals_javas(text: str, expected: int) -> None:
    assert java_string_hash(text) == expected


@pytest.mark.parametrize(("group", "partition"), [("g1", 42), ("simple", 26), ("polygenelubricants", 0)])
def test_partitions_are_those_that_a_real_node_used(group: str, partition: int) -> None:
    assert coordinator_partition(group, 50) == partition
