"""Commits of files to an object store in memory, whichever of its calls the process dies at."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.plugins.api import OffsetRange, TerminalError
from barnabas.connect_spark.connectors.files.file_commits import batch_name
from barnabas.connect_spark.connectors.files.object_commits import ObjectCommits

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
STATE = "_barnabas/c/state.json"


class Crash(Exception):
    """The simulated end of the process."""


class MemoryStore:
    """Objects in memory. Before, or after, one of the changes the process ends."""

    url = "s3a://bucket/lake"

    def __init__(self) -> None:
        self.objects: dict[str, tuple[str, int]] = {}
        self.left = -1
        self._version = 0

    def _step(self) -> None:
        if self.left == 0:
            self.left = -1
            raise Crash
        self.left -= 1

    def read(self, path: str) -> tuple[str, str] | None:
        found = self.objects.get(path)
        return None if found is None else (found[0], str(found[1]))

    def replace(self, path: str, text: str, version: str | None) -> bool:
        self._step()
        found = self.read(path)
        if (None if found is None else found[1]) != version:
            return False
        self.put(path, text)
        self._step()
        return True

    def put(self, path: str, text: str) -> None:
        self._version += 1
        self.objects[path] = (text, self._version)

    def files(self, folder: str) -> list[str]:
        return sorted(path for path in self.objects if not folder or path.startswith(f"{folder}/"))

    def copy(self, source: str, target: str) -> bool:
        self._step()
        found = self.objects.get(source)
        if found is not None:
            self.put(target, found[0])
        self._step()
        return found is not None

    def delete_folder(self, folder: str) -> None:
        for path in self.files(folder):
            self._step()
            self.objects.pop(path, None)


def stage(store: MemoryStore, commits: ObjectCommits, task: int, start: int, end: int) -> str | None:
    """Write the files of a batch as Spark does, and return its name; None for a batch that is committed."""
    ranges = {P0: OffsetRange(start, end)}
    name = batch_name(task, ranges)
    url = commits.begin(name, ranges)
    if url is None:
        return None
    staged = url.removeprefix(f"{store.url}/")
    for index, folder in enumerate(("a", "b/c")):
        store.put(f"{staged}/{folder}/part-0000{index}-uuid.c000.json", f"{start} to {end} in {folder}")
    store.put(f"{staged}/_SUCCESS", "")
    return name


def write_batch(store: MemoryStore, commits: ObjectCommits, task: int, start: int, end: int) -> None:
    name = stage(store, commits, task, start, end)
    if name is not None:
        commits.commit(name, {P0: OffsetRange(start, end)})


def fresh(store: MemoryStore, task: int = 0) -> ObjectCommits:
    commits = ObjectCommits(store, "c", task)
    commits.prepare()
    return commits


def data(store: MemoryStore) -> list[str]:
    return sorted(text for path, (text, _) in store.objects.items() if not path.startswith("_"))


def test_a_batch_becomes_files_named_after_its_records() -> None:
    stores = [MemoryStore(), MemoryStore()]
    for store in stores:
        write_batch(store, fresh(store), 0, 0, 5)
    names = [[path for path in store.objects if not path.startswith("_")] for store in stores]
    assert names[0] == names[1]
    assert len(names[0]) == 2
    assert fresh(stores[0]).positions() == {P0: 5}
    assert [path for path in stores[0].objects if "staging" in path] == []


@given(crashes=st.lists(st.integers(0, 24), max_size=6))
def test_every_record_is_written_once_at_whatever_step_the_process_dies(crashes: list[int]) -> None:
    store, left, done = MemoryStore(), list(crashes), 0
    while done < 20:
        try:
            store.left = left.pop() if left else -1
            commits = fresh(store)
            done = commits.positions().get(P0, 0)
            while done < 20:
                write_batch(store, commits, 0, done, done + 5)
                done += 5
        except Crash:
            assert len(data(store)) == len(set(data(store)))
            done = 0
    store.left = -1
    fresh(store)
    expected = [f"{start} to {start + 5} in {folder}" for start in range(0, 20, 5) for folder in ("a", "b/c")]
    assert data(store) == sorted(expected)
    assert [path for path in store.objects if path.startswith("_")] == [STATE]


@given(steps=st.integers(0, 24))
def test_a_write_that_is_retried_in_the_same_process_is_written_once(steps: int) -> None:
    store = MemoryStore()
    commits = fresh(store)
    store.left = steps
    for start, end in ((0, 5), (5, 9)):
        try:
            write_batch(store, commits, 0, start, end)
        except Crash:
            write_batch(store, commits, 0, start, end)
    store.left = -1
    commits.positions()
    assert data(store) == sorted(f"{span} in {folder}" for span in ("0 to 5", "5 to 9") for folder in ("a", "b/c"))


def test_the_slower_of_two_tasks_that_write_a_partition_is_refused() -> None:
    store = MemoryStore()
    first, second = fresh(store), fresh(store, 1)
    write_batch(store, first, 0, 0, 5)
    with pytest.raises(TerminalError, match="has all offsets before 5 already: another task writes the same partition"):
        write_batch(store, second, 1, 0, 7)
    assert len(data(store)) == 2


def test_a_task_that_was_started_elsewhere_commits_nothing_more() -> None:
    store = MemoryStore()
    zombie = fresh(store)
    name = stage(store, zombie, 0, 0, 5)
    assert name is not None
    successor = fresh(store)  # Deletes what the other one has staged.
    with pytest.raises(TerminalError, match="task 0 of this connector was started elsewhere"):
        zombie.commit(name, {P0: OffsetRange(0, 5)})
    write_batch(store, successor, 0, 0, 5)
    assert len(data(store)) == 2


def test_tasks_that_commit_at_the_same_time_lose_nothing() -> None:
    store = MemoryStore()
    first, second = fresh(store), fresh(store, 1)
    name = stage(store, first, 0, 0, 5)
    assert name is not None
    second.set_positions({P1: 3})
    first.commit(name, {P0: OffsetRange(0, 5)})
    assert second.positions() == {P0: 5, P1: 3}
    second.set_positions({P0: None, P1: 4})
    assert first.positions() == {P1: 4}


def test_the_schema_is_kept_with_the_positions() -> None:
    store = MemoryStore()
    fresh(store).change_schema(lambda stored: "one" if stored is None else stored)
    fresh(store, 1).change_schema(lambda stored: f"{stored}, two")
    assert json.loads(store.objects[STATE][0])["schema"] == "one, two"


def test_only_data_files_of_the_connector_are_listed() -> None:
    store = MemoryStore()
    commits = fresh(store)
    write_batch(store, commits, 0, 0, 5)
    store.put("a/other.json", "of another program")
    found = commits.data_files("json")
    assert len(found) == 2
    assert all(url.startswith("s3a://bucket/lake/") for url in found)
