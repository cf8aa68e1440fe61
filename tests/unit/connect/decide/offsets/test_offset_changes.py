"""What a change of positions would do: no record is both read again and skipped, and refused rows are named."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.decide.offsets.offset_changes import PartitionEnds, sink_changes, source_changes
from barnabas.connect.decide.offsets.sink_rows import sink_entry, sink_offsets
from barnabas.connect.entities import ConnectorOffset, OffsetChange

T0 = TopicPartition("t", 0)
ENDS = PartitionEnds(100, 200)


def _change(wanted: int | None, committed: int | None, reset: str = "earliest") -> OffsetChange:
    known = {} if committed is None else {T0: committed}
    (change,) = sink_changes([sink_entry(T0, wanted)], known, {T0: ENDS}, reset)
    return change


@given(
    st.none() | st.integers(0, 200),
    st.none() | st.integers(0, 300),
    st.sampled_from(["earliest", "latest", "none"]),
)
def test_a_change_moves_by_the_records_that_exist_between_both_positions(
    wanted: int | None, committed: int | None, reset: str
) -> None:
    change, begin = _change(wanted, committed, reset), 200 if reset == "latest" else 100
    read_before = {offset for offset in range(100, 200) if offset < (begin if committed is None else committed)}
    read_after = {offset for offset in range(100, 200) if offset < (begin if wanted is None else wanted)}
    assert (change.again, change.skipped) == (len(read_before - read_after), len(read_after - read_before))
    assert change.problem == ""
    assert (change.first, change.end) == (100, 200)


@given(st.none() | st.integers(0, 200), st.integers(0, 200))
def test_a_change_and_its_reverse_exchange_what_is_read_again_and_skipped(wanted: int | None, committed: int) -> None:
    if wanted is not None:
        there, back = _change(wanted, committed), _change(committed, wanted)
        assert (there.again, there.skipped) == (back.skipped, back.again)


@pytest.mark.parametrize(
    ("wanted", "problem"), [(-1, "Offset -1 is negative."), (201, "Offset 201 is after the end, which is 200.")]
)
def test_an_impossible_offset_is_refused(wanted: int, problem: str) -> None:
    change = _change(wanted, 150)
    assert (change.problem, change.again, change.skipped) == (problem, None, None)


@pytest.mark.parametrize(
    ("wanted", "reset", "note"),
    [
        (50, "earliest", "Records before 100 do not exist any more"),
        (None, "earliest", "begins at 100"),
        (None, "latest", "begins at 200"),
        (100, "earliest", ""),
    ],
)
def test_what_is_to_be_expected_is_said(wanted: int | None, reset: str, note: str) -> None:
    found = _change(wanted, 150, reset).note
    assert note in found
    assert bool(note) == bool(found)


def _row(partition: dict[str, Any] | None, offset: dict[str, Any] | None) -> ConnectorOffset:
    return ConnectorOffset(partition, offset)


def test_refused_rows_are_named_and_the_others_are_counted() -> None:
    good = sink_entry(T0, 120)
    rows = [
        sink_entry(T0, 110),
        _row(None, {"kafka_offset": 1}),
        _row({"kafka_topic": "t", "kafka_partition": "x"}, None),
        _row({"kafka_topic": "t", "kafka_partition": 1}, {"kafka_offset": 5}),
        _row({"kafka_topic": "t", "kafka_partition": 2}, {"offset": 5}),
        good,
    ]
    changes = sink_changes(rows, {T0: 150}, {T0: ENDS}, "earliest")
    assert [change.problem for change in changes] == [
        "A later row has this partition.",
        "The partition for a sink connector offset cannot be null or missing",
        "Kafka partitions must be integers, not 'x'",
        "Topic t has no partition 1, or this worker may not describe it.",
        "The offset for a sink connector should either be null or contain the key 'kafka_offset'",
        "",
    ]
    assert (changes[-1].before, changes[-1].again) == ({"kafka_offset": 150}, 30)
    assert sink_offsets([rows[0], good]) == {T0: 120}


def test_the_position_of_a_deleted_partition_can_be_deleted() -> None:
    (change,) = sink_changes([sink_entry(T0, None)], {T0: 5}, {}, "earliest")
    assert (change.problem, change.after) == ("", None)
    assert "its position is deleted" in change.note


def test_a_source_shows_positions_before_and_after() -> None:
    known = [_row({"filename": "a"}, {"position": 7})]
    rows = [_row({"filename": "a"}, {"position": 0}), _row({"filename": "b"}, {"position": 1}), _row(None, None)]
    first, second, third = source_changes(rows, known)
    assert (first.before, first.after, first.again, first.note) == ({"position": 7}, {"position": 0}, None, "")
    assert (second.before, "may not know it" in second.note) == (None, True)
    assert "needs a partition" in third.problem


def test_positions_that_no_spark_source_can_read_are_refused() -> None:
    partition = {"spark.source": "s"}
    known = [_row(partition, {"offset": "{}"})]
    bad, good = [source_changes([_row(partition, offset)], known)[0] for offset in ({"position": 1}, {"offset": "{}"})]
    assert "must have only offset, with Spark's offset as JSON text" in bad.problem
    assert good.problem == ""
