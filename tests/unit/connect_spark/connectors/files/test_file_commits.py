from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.plugins.api import OffsetRange, TerminalError
from barnabas.connect_spark.connectors.files.file_commits import FileCommits, Files, batch_name

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Crash(Exception):
    """The simulated end of the process."""


class CrashingFiles(Files):
    """File operations that crash before one of the steps, or in the middle of a removal."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def _step(self) -> None:
        if self._left == 0:
            self._left = -1  # A retry in the same process succeeds.
            raise Crash
        self._left -= 1

    def write(self, path: Path, text: str) -> None:
        self._step()
        super().write(path, text)

    def move(self, source: Path, target: Path) -> None:
        self._step()
        super().move(source, target)

    def remove(self, path: Path) -> None:
        self._step()
        super().remove(path)


def write_batch(commits: FileCommits, task: int, start: int, end: int) -> None:
    """Write a batch as a task does, with two files of Spark."""
    ranges = {P0: OffsetRange(start, end)}
    name = batch_name(task, ranges)
    staged = commits.begin(name, ranges)
    if staged is None:
        return
    for index, folder in enumerate(("a", "b/c")):
        (staged / folder).mkdir(parents=True)
        (staged / folder / f"part-0000{index}-uuid.c000.json").write_text(f"{start} to {end} in {folder}\n")
        (staged / folder / f".part-0000{index}.crc").write_text("sum")
    (staged / "_SUCCESS").write_text("")
    commits.commit(name, ranges)


def data(root: Path) -> list[str]:
    """Return the contents for a reader that ignores names beginning with ``_`` or a dot."""
    return sorted(
        path.read_text()
        for path in root.rglob("*")
        if path.is_file() and not any(part.startswith(("_", ".")) for part in path.relative_to(root).parts)
    )


def fresh(root: Path) -> FileCommits:
    commits = FileCommits(root, "c")
    commits.prepare()
    return commits


def test_a_batch_becomes_files_named_after_its_records(tmp_path: Path) -> None:
    write_batch(fresh(tmp_path / "x"), 0, 0, 5)
    write_batch(fresh(tmp_path / "y"), 0, 0, 5)
    names = [sorted(p.name for p in (tmp_path / folder).rglob("c-0-*")) for folder in "xy"]
    assert names[0] == names[1]
    assert len(names[0]) == 2
    assert fresh(tmp_path / "x").positions() == {P0: 5}


@given(crashes=st.lists(st.integers(0, 12), max_size=6))
def test_every_record_is_written_once_at_whatever_step_the_process_dies(crashes: list[int]) -> None:
    """Batches have five records; after each crash the task restarts at the positions in the folder."""
    root = Path(tempfile.mkdtemp())
    try:
        left = list(crashes)
        done = 0
        while done < 20:
            try:
                commits = FileCommits(root, "c", CrashingFiles(left.pop()) if left else None)
                commits.prepare()
                commits.forget_staging(0)
                done = commits.positions().get(P0, 0)
                while done < 20:
                    write_batch(commits, 0, done, done + 5)
                    done += 5
            except Crash:
                seen = data(root)
                assert len(seen) == len(set(seen))
                done = 0
        expected = [f"{start} to {start + 5} in {folder}\n" for start in range(0, 20, 5) for folder in ("a", "b/c")]
        assert data(root) == sorted(expected)
        assert not list((root / "_barnabas" / "c" / "pending").iterdir())
    finally:
        shutil.rmtree(root)


@given(steps=st.integers(0, 14))
def test_a_write_that_is_retried_in_the_same_process_is_written_once(steps: int) -> None:
    root = Path(tempfile.mkdtemp())
    try:
        commits = FileCommits(root, "c", CrashingFiles(steps))
        commits.prepare()
        for start, end in ((0, 5), (5, 9)):
            try:
                write_batch(commits, 0, start, end)
            except Crash:
                write_batch(commits, 0, start, end)
        assert data(root) == sorted(f"{span} in {folder}\n" for span in ("0 to 5", "5 to 9") for folder in ("a", "b/c"))
    finally:
        shutil.rmtree(root)


def test_the_slower_of_two_tasks_that_write_a_partition_is_refused(tmp_path: Path) -> None:
    first, second = fresh(tmp_path), fresh(tmp_path)
    write_batch(first, 0, 0, 5)
    with pytest.raises(TerminalError, match="has all offsets before 5 already: another task writes the same partition"):
        write_batch(second, 1, 0, 7)
    assert len(data(tmp_path)) == 2


def test_a_task_that_was_started_elsewhere_commits_nothing_more(tmp_path: Path) -> None:
    ranges = {P0: OffsetRange(0, 5)}
    name = batch_name(0, ranges)
    presumed_dead = fresh(tmp_path)
    staged = presumed_dead.begin(name, ranges)
    assert staged is not None
    staged.mkdir()
    (staged / "part-00000-uuid.json").write_text("0 to 5\n")
    fresh(tmp_path).forget_staging(0)
    with pytest.raises(TerminalError, match="this task was started elsewhere"):
        presumed_dead.commit(name, ranges)
    assert presumed_dead.positions() == {}


def test_connectors_in_one_folder_have_separate_positions(tmp_path: Path) -> None:
    write_batch(fresh(tmp_path), 0, 0, 5)
    other = FileCommits(tmp_path, "../c")
    other.prepare()
    assert other.positions() == {}
    assert not (tmp_path / "c").exists()


def test_positions_can_be_set_and_deleted_manually(tmp_path: Path) -> None:
    commits = FileCommits(tmp_path, "c")
    commits.set_positions({P0: 7, P1: 9})
    commits.set_positions({P0: None, P1: 3})
    assert commits.positions() == {P1: 3}
    assert json.loads((tmp_path / "_barnabas/c/positions.json").read_text()) == {"t": {"1": 3}}


def test_names_of_batches_sort_in_the_order_of_the_batches() -> None:
    names = [batch_name(0, {P0: OffsetRange(start, start + 3)}) for start in range(0, 3000, 3)]
    assert names == sorted(names)
