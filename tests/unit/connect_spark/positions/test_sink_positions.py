"""The state of a batch, derived from the positions beside a sink's data."""

from __future__ import annotations

import pytest

from barnabas.connect.plugins.api import OffsetRange, TerminalError, TopicPartition
from barnabas.connect_spark.positions.sink_positions import is_written, refuse_unless_next

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
RANGES = {P0: OffsetRange(3, 5), P1: OffsetRange(0, 2)}


@pytest.mark.parametrize(
    ("noted", "expected"), [({P0: 5, P1: 2}, True), ({P0: 5}, False), ({P0: 5, P1: 0}, False), ({}, False)]
)
def test_a_batch_is_written_when_all_its_ends_are_recorded(noted: dict[TopicPartition, int], expected: bool) -> None:
    assert is_written(noted, RANGES) is expected


def test_an_empty_batch_never_counts_as_written() -> None:
    assert not is_written({P0: 5}, {})


@pytest.mark.parametrize("noted", [{}, {P0: 3}, {P0: 3, P1: 0}, {P0: 1}])
def test_a_batch_that_begins_at_or_after_the_end_of_the_data_is_accepted(noted: dict[TopicPartition, int]) -> None:
    refuse_unless_next(noted, RANGES, "the table")


def test_a_batch_whose_beginning_another_task_has_written_is_refused() -> None:
    with pytest.raises(TerminalError, match="begins at offset 3, but the table has all offsets before 4 already"):
        refuse_unless_next({P0: 4}, RANGES, "the table")
