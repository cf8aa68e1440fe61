from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from barnabas.connect_spark.positions.checkpoints import (
    CheckpointState,
    agrees,
    fresh_checkpoint,
    note_planned,
    open_checkpoint,
    planned_checkpoint,
    read_state,
)

NOW = 1_795_000_000_000


def position_of(ends: list[Any]) -> Any:
    return ends[0]


def write(folder: Path, *, offsets: dict[int, Any], commits: list[int]) -> None:
    """Write the files that Spark leaves behind."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir(exist_ok=True)
    for batch, end in offsets.items():
        (folder / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{json.dumps(end)}")
    for batch in commits:
        (folder / "commits" / str(batch)).write_text("v1\n{}")


def reopened(folder: Path, truth: Any) -> bool:
    """Return whether the folder is used unchanged."""
    return open_checkpoint(folder, truth, position_of, now_ms=NOW + 1).is_resumed


def test_a_finished_batch_is_used_if_kafka_has_the_same_position(tmp_path: Path) -> None:
    folder = open_checkpoint(tmp_path / "c", {"t": {"0": 0}}, position_of, now_ms=NOW).folder
    write(folder, offsets={0: {"t": {"0": 5}}}, commits=[0])
    assert reopened(folder, {"t": {"0": 5}})


def test_one_unfinished_batch_is_used_because_it_is_repeated_unchanged(tmp_path: Path) -> None:
    folder = open_checkpoint(tmp_path / "c", {"t": {"0": 0}}, position_of, now_ms=NOW).folder
    write(folder, offsets={0: {"t": {"0": 5}}, 1: {"t": {"0": 9}}}, commits=[0])
    assert reopened(folder, {"t": {"0": 5}})


def test_a_batch_that_kafka_has_and_spark_has_not_finished_is_not_repeated(tmp_path: Path) -> None:
    folder = open_checkpoint(tmp_path / "c", {"t": {"0": 0}}, position_of, now_ms=NOW).folder
    write(folder, offsets={0: {"t": {"0": 5}}, 1: {"t": {"0": 9}}}, commits=[0])
    again = open_checkpoint(folder, {"t": {"0": 9}}, position_of, now_ms=NOW)
    assert not again.is_resumed
    assert not (folder / "offsets").exists()
    assert again.first_id > NOW + 1, "an id that was used must not be reused, whatever the clock shows"


def test_the_first_batch_is_repeated_only_from_its_start(tmp_path: Path) -> None:
    folder = open_checkpoint(tmp_path / "c", {"t": {"0": 3}}, position_of, now_ms=NOW).folder
    write(folder, offsets={0: {"t": {"0": 5}}}, commits=[])
    assert reopened(folder, {"t": {"0": 3}})
    write(folder, offsets={0: {"t": {"0": 5}}}, commits=[])
    assert not reopened(folder, {"t": {"0": 0}})


def test_other_partitions_are_a_different_position(tmp_path: Path) -> None:
    folder = open_checkpoint(tmp_path / "c", {"t": {"0": 0}}, position_of, now_ms=NOW).folder
    write(folder, offsets={0: {"t": {"0": 5}}}, commits=[0])
    assert not reopened(folder, {"t": {"0": 5, "1": 0}})


def test_an_inconsistent_folder_is_discarded(tmp_path: Path) -> None:
    for name, damage in {"ours": "barnabas.json", "offsets": "offsets/0"}.items():
        folder = open_checkpoint(tmp_path / name, {"t": {"0": 0}}, position_of, now_ms=NOW).folder
        write(folder, offsets={0: {"t": {"0": 5}}}, commits=[0])
        (folder / damage).write_text("half a li")
        assert read_state(folder) is None
        assert not reopened(folder, {"t": {"0": 5}})


def test_hidden_files_of_spark_are_ignored(tmp_path: Path) -> None:
    folder = open_checkpoint(tmp_path / "c", {"t": {"0": 0}}, position_of, now_ms=NOW).folder
    write(folder, offsets={0: {"t": {"0": 5}}}, commits=[0])
    (folder / "offsets" / ".1.7d1.tmp").write_text("")
    (folder / "offsets" / ".0.crc").write_bytes(b"crc")
    assert reopened(folder, {"t": {"0": 5}})


def test_a_source_continues_from_a_fabricated_checkpoint(tmp_path: Path) -> None:
    open_checkpoint(tmp_path / "c", [{"logOffset": 7}], position_of, now_ms=NOW, spark_ends=[{"logOffset": 7}])
    state = read_state(tmp_path / "c")
    assert state is not None
    assert (state.planned, state.finished, state.ends) == (0, 0, {0: [{"logOffset": 7}]})


def test_a_new_checkpoint_discards_the_old_contents(tmp_path: Path) -> None:
    folder = fresh_checkpoint(tmp_path / "c", now_ms=NOW).folder
    write(folder, offsets={0: 5}, commits=[0])
    assert not (fresh_checkpoint(folder, now_ms=NOW).folder / "offsets").exists()


@given(
    finished=st.integers(-1, 4), ahead=st.integers(-2, 3), truth=st.integers(0, 60), ends=st.lists(st.integers(1, 9))
)
def test_a_checkpoint_is_used_if_and_only_if_its_finished_batches_end_at_the_position(
    finished: int, ahead: int, truth: int, ends: list[int]
) -> None:
    planned = max(finished + ahead, -1)
    by_batch = {batch: [10 * (batch + 1)] for batch in (planned - 1, planned) if batch >= 0}
    state = CheckpointState(0, 1, planned if planned >= 0 else None, finished if finished >= 0 else None, by_batch)
    sound = planned - finished in (0, 1)
    assert agrees(state, truth, position_of) == (sound and truth == 10 * (finished + 1))


def test_a_batch_that_another_worker_began_is_planned_here(tmp_path: Path) -> None:
    start, ends = {"t": {"0": 5}}, [{"t": {"0": 9}}]
    fresh = open_checkpoint(tmp_path / "c", start, position_of, now_ms=NOW)
    planned = planned_checkpoint(fresh, start, ends, now_ms=NOW)
    state = read_state(planned.folder)
    assert state is not None
    assert (state.start, state.planned, state.finished, state.ends) == (start, 0, None, {0: ends})
    assert planned.is_resumed
    assert planned.first_id > NOW - 1
    assert reopened(planned.folder, start)
    assert planned_checkpoint(planned, start, ends, now_ms=NOW + 5) is planned


def test_another_plan_of_this_worker_that_was_never_noted_is_discarded(tmp_path: Path) -> None:
    start = {"t": {"0": 5}}
    fresh = open_checkpoint(tmp_path / "c", start, position_of, now_ms=NOW)
    note_planned(fresh.folder, 0, [{"t": {"0": 7}}])
    resumed = open_checkpoint(tmp_path / "c", start, position_of, now_ms=NOW + 1)
    planned = planned_checkpoint(resumed, start, [{"t": {"0": 9}}], now_ms=NOW + 1)
    state = read_state(planned.folder)
    assert state is not None
    assert state.ends == {0: [{"t": {"0": 9}}]}
    assert planned.first_id > resumed.first_id
