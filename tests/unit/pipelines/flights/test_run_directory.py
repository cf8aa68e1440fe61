from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.pipelines.errors import PipelineError
from barnabas.pipelines.flights.run_directory import RunDirectory
from barnabas.pipelines.flights.starting_point import RunRecord, RunState

RECORD = RunRecord("kafka:9092", "flights", 10, 4, RunState.STREAMING, "an-id")


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[RunDirectory]:
    directory = RunDirectory(tmp_path / "run")
    yield directory
    directory.close()


def test_a_record_is_read_back_by_the_next_run(directory: RunDirectory) -> None:
    directory.open()
    assert directory.record() is None
    directory.write_record(RECORD)
    directory.close()
    assert RunDirectory(directory.path).record() == RECORD


@pytest.mark.parametrize("text", ["", "{", "[]", '{"state": "streaming"}', '{"state": "unheard of"}'])
def test_an_unreadable_record_counts_as_missing(directory: RunDirectory, text: str) -> None:
    directory.open()
    (directory.path / "run.json").write_text(text)
    assert directory.record() is None


def test_a_second_run_in_the_same_folder_is_refused_while_the_first_runs(directory: RunDirectory) -> None:
    directory.open()
    with pytest.raises(PipelineError, match=r"another run works in .*--run-directory"):
        RunDirectory(directory.path).open()
    directory.close()
    directory.open()


def test_opening_clears_the_scratch_of_a_killed_run_and_nothing_else(directory: RunDirectory) -> None:
    directory.open()
    (directory.scratch / "half").write_text("")
    (directory.path / "trash").mkdir()
    (directory.path / "flights").mkdir()
    directory.close()
    directory.open()
    assert list(directory.scratch.iterdir()) == []
    assert not (directory.path / "trash").exists()
    assert (directory.path / "flights").exists()


def test_forget_results_removes_tables_database_and_plot_but_not_the_data_of_the_node(directory: RunDirectory) -> None:
    directory.open()
    kept = [directory.node, directory.worker]
    gone = [directory.flights, directory.delays, directory.landed]
    for folder in kept + gone:
        folder.mkdir()
        (folder / "file").write_text("")
    directory.plot.write_text("")
    directory.database.write_text("")
    directory.forget_results()
    assert [folder.exists() for folder in kept + gone] == [True, True, False, False, False]
    assert not directory.plot.exists()
    assert not directory.database.exists()


def test_a_folder_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PipelineError, match=r"can't work in .*file.run.*--run-directory"):
        RunDirectory(tmp_path / "file" / "run").open()


def test_a_full_disk_is_detected_before_anything_is_started(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 3 * 1024**2}))
    with pytest.raises(PipelineError, match="3 MB free.*needs 500 MB"):
        directory.open()


def test_a_disk_that_filled_up_during_the_run_is_detected(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory.open()
    assert not directory.is_full()
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 13 * 1024**2}))
    assert directory.is_full()


def test_the_record_is_human_readable(directory: RunDirectory) -> None:
    directory.open()
    directory.write_record(RECORD)
    written = json.loads((directory.path / "run.json").read_text())
    assert written["state"] == "streaming"
    assert [path.name for path in directory.path.glob(".*.new")] == []
