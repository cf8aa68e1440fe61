"""The ranges of a batch planned by the worker, and its checkpoint before, during and after the batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.topic_partition import TopicPartition
from barnabas.connect_spark.positions.checkpoints import Checkpoint, open_checkpoint, read_state
from barnabas.connect_spark.positions.group_positions import kafka_json
from barnabas.connect_spark.positions.kafka_ranges import DataLost, KafkaBatches, next_ends

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)

_PARTITIONS = st.dictionaries(
    st.integers(0, 9).map(lambda number: TopicPartition("t", number)),
    st.tuples(*(st.integers(0, 1000),) * 3).map(sorted),
    min_size=1,
)


@given(partitions=_PARTITIONS, most=st.integers(1, 3000))
def test_a_batch_never_moves_back_or_past_an_end_and_hardly_exceeds_its_limit(
    partitions: dict[TopicPartition, list[int]], most: int
) -> None:
    starts = {partition: start for partition, (_, start, _) in partitions.items()}
    bounds = {partition: (first, end) for partition, (first, _, end) in partitions.items()}
    ends = next_ends(starts, bounds, most)
    assert all(starts[partition] <= ends[partition] <= bounds[partition][1] for partition in starts)
    records = sum(ends.values()) - sum(starts.values())
    assert records <= most + len(starts)
    assert records > 0 or all(starts[partition] == bounds[partition][1] for partition in starts)


@given(partitions=_PARTITIONS, most=st.integers(1, 3000))
def test_every_partition_with_new_records_advances(partitions: dict[TopicPartition, list[int]], most: int) -> None:
    starts = {partition: start for partition, (_, start, _) in partitions.items()}
    bounds = {partition: (first, end) for partition, (first, _, end) in partitions.items()}
    ends = next_ends(starts, bounds, most)
    assert {partition for partition in starts if ends[partition] > starts[partition]} == {
        partition for partition in starts if bounds[partition][1] > starts[partition]
    }


def test_a_large_backlog_receives_the_larger_share() -> None:
    assert next_ends({ONE: 0, TWO: 10}, {ONE: (0, 900), TWO: (0, 110)}, 100) == {ONE: 90, TWO: 20}


@pytest.mark.parametrize("bounds", [(6, 9), (0, 4)])
def test_deleted_records_are_not_skipped_silently(bounds: tuple[int, int]) -> None:
    with pytest.raises(DataLost, match=r"t-0: the next offset is 5, but the partition has"):
        next_ends({ONE: 5}, {ONE: bounds}, 100)


class Reader:
    """A session that only records the requested options."""

    def __init__(self) -> None:
        self.requested: dict[str, Any] = {}

    @property
    def read(self) -> Reader:
        return self

    def format(self, name: str) -> Reader:
        return self

    def options(self, **options: Any) -> Reader:
        return self

    def option(self, name: str, value: Any) -> Reader:
        self.requested[name] = value
        return self

    def load(self) -> dict[str, Any]:
        return dict(self.requested)


class Scene:
    """Batches of one partition; the test moves its end."""

    def __init__(self, folder: Path, *, committed: int = 0) -> None:
        self.folder = folder
        self.end = 0
        self.batches: list[tuple[int, str]] = []
        self.noted: list[int] = []
        self.error: Exception | None = None
        self.begin(committed)

    def begin(self, committed: int) -> None:
        """Begin as a task whose consumer group has this position."""
        truth = kafka_json({ONE: committed})
        self.checkpoint: Checkpoint = open_checkpoint(self.folder, truth, lambda ends: ends[0], now_ms=1000)
        self.steps = KafkaBatches(
            Reader(),  # type: ignore[arg-type]
            {},
            {ONE: committed},
            lambda: {ONE: (0, self.end)},
            100,
            self.checkpoint,
            self.process,
            lambda rows, _: self.noted.append(rows),
        )

    def process(self, frame: Any, number: int, handle: Any) -> None:
        assert handle.ends(number) is not None
        assert number == 0 or not self.checkpoint.is_resumed or handle.ends(number - 1) is not None
        self.batches.append((number, frame["endingOffsets"]))
        if self.error is not None:
            raise self.error


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path / "checkpoint")


def test_without_new_records_no_batch_starts(scene: Scene) -> None:
    scene.steps.step()
    assert (scene.batches, scene.steps.last) == ([], None)


def test_batches_are_consecutive_and_recorded_as_spark_records_them(scene: Scene) -> None:
    for scene.end in (5, 5, 8):
        scene.steps.step()
    assert scene.batches == [(0, '{"t": {"0": 5}}'), (1, '{"t": {"0": 8}}')]
    assert scene.noted == [5, 3]
    state = read_state(scene.folder)
    assert state is not None
    assert (state.planned, state.finished, state.ends[1]) == (1, 1, [{"t": {"0": 8}}])


def test_a_failed_batch_is_repeated_with_the_same_end_and_number(scene: Scene) -> None:
    scene.end = 5
    scene.steps.step()
    scene.end, scene.error = 7, RuntimeError("no disk")
    with pytest.raises(RuntimeError, match="no disk"):
        scene.steps.step()
    scene.end, scene.error = 50, None
    scene.begin(committed=5)
    scene.steps.step()
    scene.steps.step()
    assert scene.batches == [(0, '{"t": {"0": 5}}'), *[(1, '{"t": {"0": 7}}')] * 2, (2, '{"t": {"0": 50}}')]


def test_a_checkpoint_that_differs_from_the_group_position_is_not_used(scene: Scene) -> None:
    scene.end = 5
    scene.steps.step()
    scene.begin(committed=3)
    assert not scene.checkpoint.is_resumed
    scene.steps.step()
    assert scene.batches[-1] == (0, '{"t": {"0": 5}}')
    assert scene.noted == [5, 2]


def test_a_folder_keeps_the_last_ten_batches(scene: Scene) -> None:
    for scene.end in range(1, 15):
        scene.steps.step()
    names = sorted(int(path.name) for path in (scene.folder / "offsets").iterdir())
    assert names == list(range(4, 14))
    assert read_state(scene.folder) is not None
