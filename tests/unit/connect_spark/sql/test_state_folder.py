"""Which folder of a query's state a start continues with, and which ones it removes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.plugins.api import TerminalError
from barnabas.connect_spark.positions.checkpoints import note_finished, note_planned
from barnabas.connect_spark.sql.pipeline_positions import RunPosition
from barnabas.connect_spark.sql.state_folder import StateFolder, StateRun

P0, P1 = TopicPartition("shop-orders", 0), TopicPartition("shop-orders", 1)
FACTS: dict[str, Any] = {"sources": ["orders"], "operators": [], "filters": []}


def offsets(first: int, second: int) -> dict[str, dict[TopicPartition, int]]:
    return {"orders": {P0: first, P1: second}}


def spark_ends(first: int, second: int) -> list[Any]:
    return [{"shop-orders": {"0": first, "1": second}}]


@pytest.fixture
def states(tmp_path: Path) -> StateFolder:
    return StateFolder(tmp_path, "orders")


def run_of(states: StateFolder, *ends: tuple[int, int], finished: int) -> StateRun:
    """Return a run that began at 0, planned batches with these ends, and finished those up to ``finished``."""
    run = states.begin(FACTS, offsets(0, 0), now_ms=1000)
    for number, end in enumerate(ends):
        note_planned(run.checkpoint.folder, number, spark_ends(*end))
        if number <= finished:
            note_finished(run.checkpoint.folder, number)
    return run


def resumed(
    states: StateFolder, run: StateRun, batch: int, known: Mapping[str, Mapping[TopicPartition, int]], table: int | None
) -> int:
    """Return the last delivered batch, of a run whose position has ``batch``, while the table has ``table``."""
    delivered_id = None if table is None else run.position.run + table
    return states.resume(RunPosition(run.position.run, batch), FACTS, known, delivered_id).delivered


@pytest.mark.parametrize(
    ("batch", "known"), [(1, offsets(4, 8)), (1, offsets(4, 5)), (0, offsets(4, 5)), (0, offsets(3, 5))]
)
def test_positions_of_which_a_crash_has_left_some_do_not_stop_a_pipeline(
    states: StateFolder, batch: int, known: dict[str, dict[TopicPartition, int]]
) -> None:
    run = run_of(states, (3, 5), (4, 8), finished=0)
    assert resumed(states, run, batch, known, None) == batch
    assert resumed(states, run, batch, known, 1) == 1


@pytest.mark.parametrize(("batch", "known"), [(-1, {}), (-1, offsets(0, 5)), (0, {"orders": {P1: 5}})])
def test_the_same_holds_for_the_first_batch(
    states: StateFolder, batch: int, known: dict[str, dict[TopicPartition, int]]
) -> None:
    run = run_of(states, (3, 5), finished=-1)
    assert resumed(states, run, batch, known, None) == batch
    assert resumed(states, run, batch, known, 0) == 0


@pytest.mark.parametrize(
    ("ends", "finished", "batch", "known"),
    [
        ([(3, 5), (4, 8)], 1, 1, offsets(3, 5)),
        ([(3, 5), (4, 8)], 1, 1, {"orders": {P0: 4}}),
        ([(3, 5), (4, 8)], 0, 0, offsets(2, 5)),
        ([(3, 5)], -1, -1, offsets(2, 5)),
    ],
)
def test_positions_that_a_user_has_set_are_refused(
    states: StateFolder,
    ends: list[tuple[int, int]],
    finished: int,
    batch: int,
    known: dict[str, dict[TopicPartition, int]],
) -> None:
    run = run_of(states, *ends, finished=finished)
    with pytest.raises(TerminalError, match="of the input orders is .* and the state of the query has read up to"):
        resumed(states, run, batch, known, None)


def test_a_run_without_a_planned_batch_begins_where_its_inputs_are(states: StateFolder) -> None:
    run = run_of(states, finished=-1)
    assert resumed(states, run, -1, offsets(9, 9), None) == -1


def test_runs_that_never_finished_a_batch_are_removed_when_another_begins(states: StateFolder, tmp_path: Path) -> None:
    kept = run_of(states, (3, 5), finished=0).position.run
    for _ in range(3):
        latest = run_of(states, (3, 5), finished=-1).position.run
    assert {path.name for path in (tmp_path / "orders").iterdir()} == {str(kept), str(latest)}
    states.remove_earlier(latest)
    assert {path.name for path in (tmp_path / "orders").iterdir()} == {str(latest)}
