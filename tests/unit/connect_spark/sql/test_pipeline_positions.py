"""A pipeline's positions among Connect's, and those that a user may set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.plugins.api import TerminalError
from barnabas.connect_spark.sql.pipeline_batch import PipelineBatch, offsets_of
from barnabas.connect_spark.sql.pipeline_positions import (
    BATCH,
    STATE,
    PlannedBatch,
    RunPosition,
    check_altered,
    input_pairs,
    read_batch,
    read_inputs,
    read_run,
)

P0, P1 = TopicPartition("shop-orders", 0), TopicPartition("shop-orders", 1)
INPUTS = {"orders": "shop-orders"}


def reader(*pairs: tuple[Mapping[str, Any], Mapping[str, Any] | None]) -> Any:
    return lambda key: next((offset for partition, offset in pairs if partition == key), None)


def test_offsets_of_inputs_are_read_as_they_were_written() -> None:
    offsets = {"orders": {P0: 7, P1: 0}}
    assert read_inputs(reader(*input_pairs(offsets)), {"orders": [P0, P1]}) == offsets
    assert read_inputs(reader(), {"orders": [P0]}) == {"orders": {}}


def test_the_run_and_the_planned_batch_are_read_as_they_were_written() -> None:
    planned = PlannedBatch(9, {"orders": {P0: 1}}, {"orders": {P0: 3, P1: 4}})
    assert read_batch(reader(planned.pair)) == planned
    assert read_run(reader(RunPosition(5, -1).pair)) == RunPosition(5, -1)
    assert read_batch(reader()) is None
    assert read_run(reader()) is None


@pytest.mark.parametrize("offset", [{"run": 1}, {"run": 1, "batch": "2"}, {"run": True, "batch": 1}])
def test_a_damaged_run_is_refused(offset: dict[str, object]) -> None:
    with pytest.raises(TerminalError, match="Reset or alter it"):
        read_run(reader((STATE, offset)))


def test_a_damaged_batch_is_refused() -> None:
    with pytest.raises(TerminalError, match="is damaged"):
        read_batch(reader((BATCH, {"id": 1, "starts": "[]", "ends": "{}"})))


@pytest.mark.parametrize(
    ("partition", "offset"),
    [
        ({"input": "orders", "topic": "shop-orders", "partition": 0}, {"offset": 5}),
        ({"input": "gone", "topic": "x", "partition": 0}, None),
        (STATE, None),
        (BATCH, None),
    ],
)
def test_offsets_of_inputs_are_set_and_all_positions_deleted(
    partition: dict[str, object], offset: dict[str, object] | None
) -> None:
    check_altered([(partition, offset)], INPUTS)


@pytest.mark.parametrize(
    ("partition", "offset", "message"),
    [
        (STATE, {"run": 1, "batch": 1}, "can only be deleted"),
        ({"input": "orders", "topic": "other", "partition": 0}, {"offset": 5}, "must be like"),
        ({"input": "orders", "topic": "shop-orders"}, {"offset": 5}, "must be like"),
        ({"input": "orders", "topic": "shop-orders", "partition": 0}, {"offset": -1}, "the offset of this pipeline"),
    ],
)
def test_other_positions_are_refused(partition: dict[str, object], offset: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_altered([(partition, offset)], INPUTS)


def test_a_batch_writes_what_has_changed_and_the_first_one_everything() -> None:
    starts, ends = {"orders": {P0: 1, P1: 4}}, {"orders": {P0: 3, P1: 4}}
    batch = PipelineBatch(1, starts, ends, RunPosition(5, 2))
    assert batch.pairs == [*input_pairs({"orders": {P0: 3}}), RunPosition(5, 2).pair]
    assert PipelineBatch(1, starts, ends, is_first=True).pairs == input_pairs(ends)
    assert batch.records == 2


def test_of_two_sources_of_an_input_the_one_behind_counts() -> None:
    ends = [{"shop-orders": {"0": 3, "1": 9}}, {"shop-orders": {"0": 5, "1": 8}}]
    assert offsets_of(["orders", "orders"], ends) == {"orders": {P0: 3, P1: 8}}


@pytest.mark.parametrize(
    ("known", "is_unwritten"),
    [
        ({}, True),
        ({P0: 1, P1: 4}, True),
        ({P0: 3, P1: 4}, True),
        ({P0: 1, P1: 9}, True),
        ({P0: 3, P1: 9}, False),
        ({P0: 2, P1: 4}, False),
        ({P0: 3, P1: 5}, False),
    ],
)
def test_a_crash_may_leave_some_of_the_positions_after_a_batch(
    known: dict[TopicPartition, int], is_unwritten: bool
) -> None:
    planned = PlannedBatch(9, {"orders": {P0: 1, P1: 4}}, {"orders": {P0: 3, P1: 9}})
    assert planned.is_unwritten({"orders": known}) is is_unwritten


def test_a_partition_that_was_added_in_a_batch_has_no_position_before() -> None:
    planned = PlannedBatch(9, {"orders": {P0: 1}}, {"orders": {P0: 1, P1: 4}})
    assert planned.is_unwritten({"orders": {P0: 1}})
    assert not planned.is_unwritten({"orders": {P0: 1, P1: 4}})
    assert not planned.is_unwritten({"orders": {P0: 1, P1: 2}})
