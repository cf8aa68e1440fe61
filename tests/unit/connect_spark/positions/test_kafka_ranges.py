"""What a batch reads that is planned here, and what its checkpoint says before, while and after it runs."""

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
def test_a_batch_never_goes_back_nor_beyond_an_end_and_is_hardly_larger_than_asked(
    partitions: dict[TopicPartition, list[int]], most: int
) -> None:
    starts = {each: start for each, (_, start, _) in partitions.items()}
    bounds = {each: (first, end) for each, (first, _, end) in partitions.items()}
    ends = next_ends(starts, bounds, most)
    assert all(starts[each] <= ends[each] <= bounds[each][1] for each in starts)
    records = sum(ends.values()) - sum(starts.values())
    assert records <= most + len(starts)
    assert records > 0 or all(starts[each] == bounds[each][1] for each in starts)


@given(partitions=_PARTITIONS, most=st.integers(1, 3000))
def test_every_partition_with_something_new_moves_on(partitions: dict[TopicPartition, list[int]], most: int) -> None:
    starts = {each: start for each, (_, start, _) in partitions.items()}
    bounds = {each: (first, end) for each, (first, _, end) in partitions.items()}
    ends = next_ends(starts, bounds, most)
    assert {each for each in starts if ends[each] > starts[each]} == {
        each for each in starts if bounds[each][1] > starts[each]
    }


def test_a_large_backlog_gets_the_larger_share() -> None:
    assert next_ends({ONE: 0, TWO: 10}, {ONE: (0, 900), TWO: (0, 110)}, 100) == {ONE: 90, TWO: 20}


@pytest.mark.parametrize("bounds", [(6, 9), (0, 4)])
def test_records_that_are_gone_are_not_passed_over(bounds: tuple[int, int]) -> None:
    with pytest.raises(DataLost, match=r"t-0: offset 5 comes next, and the partition has"):
        next_ends({ONE: 5}, {ONE: bounds}, 100)


class Reader:
    """A session that only knows what it was asked to read."""

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}

    @property
    def read(self) -> Reader:
        return self

    def format(self, name: str) -> Reader:
        return self

    def options(self, **options: Any) -> Reader:
        return self

    def option(self, name: str, value: Any) -> Reader:
        self.asked[name] = value
        return self

    def load(self) -> dict[str, Any]:
        return dict(self.asked)


class Scene:
    """Batches of one partition, whose end the test moves."""

    def __init__(self, folder: Path, *, committed: int = 0) -> None:
        self.folder = folder
        self.end = 0
        self.batches: list[tuple[int, str]] = []
        self.noted: list[int] = []
        self.error: Exception | None = None
        self.begin(committed)

    def begin(self, committed: int) -> None:
        """As a task does that starts with this position in its consumer group."""
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


def test_without_news_there_is_no_batch(scene: Scene) -> None:
    scene.steps.step()
    assert (scene.batches, scene.steps.last) == ([], None)


def test_batches_follow_each_other_and_are_noted_as_spark_notes_them(scene: Scene) -> None:
    for scene.end in (5, 5, 8):
        scene.steps.step()
    assert scene.batches == [(0, '{"t": {"0": 5}}'), (1, '{"t": {"0": 8}}')]
    assert scene.noted == [5, 3]
    state = read_state(scene.folder)
    assert state is not None
    assert (state.planned, state.finished, state.ends[1]) == (1, 1, [{"t": {"0": 8}}])


def test_a_batch_that_failed_is_repeated_with_the_same_end_and_number(scene: Scene) -> None:
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


def test_where_the_group_says_otherwise_the_checkpoint_is_not_used(scene: Scene) -> None:
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
    names = sorted(int(each.name) for each in (scene.folder / "offsets").iterdir())
    assert names == list(range(4, 14))
    assert read_state(scene.folder) is not None
