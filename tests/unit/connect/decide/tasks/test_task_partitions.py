from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.decide.tasks.task_partitions import (
    TASK_PARTITIONS,
    assign_partitions,
    format_partitions,
    parse_partitions,
    with_partitions,
)

COUNTS = st.dictionaries(st.text("abc.-", min_size=1, max_size=4), st.integers(0, 9), max_size=5)


@given(COUNTS, st.integers(1, 20))
def test_every_partition_has_one_task_and_loads_are_even(counts: dict[str, int], tasks: int) -> None:
    shares = assign_partitions(counts, tasks)
    expected = [TopicPartition(topic, partition) for topic in sorted(counts) for partition in range(counts[topic])]
    assert sorted(partition for share in shares for partition in share) == sorted(expected)
    assert len(shares) == min(tasks, len(expected))
    assert len({len(share) for share in shares} | {0}) <= 3
    if shares:
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


@given(COUNTS, st.integers(1, 20))
def test_an_assignment_survives_encoding(counts: dict[str, int], tasks: int) -> None:
    for share in assign_partitions(counts, tasks):
        assert sorted(parse_partitions(format_partitions(share))) == sorted(share)


def test_tasks_without_partitions_are_dropped() -> None:
    configs = with_partitions([{"file": "a"}, {"file": "a"}, {"file": "a"}], {"orders": 2})
    assert configs == [
        {"file": "a", TASK_PARTITIONS: '{"orders":[0]}'},
        {"file": "a", TASK_PARTITIONS: '{"orders":[1]}'},
    ]


@pytest.mark.parametrize("text", ["", "[]", '{"a":1}', '{"a":[-1]}', '{"a":[true]}', '{"a":["0"]}', "{"])
def test_invalid_assignments_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_partitions(text)
