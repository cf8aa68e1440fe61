"""A future log becomes equal to the current one, despite any changes of the current one."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.storage.errors import StorageError
from barnabas.storage.future_log import FutureLogFailed, copy_to_future, is_complete
from barnabas.storage.partition_log import PartitionLog
from tests.unit.storage.log_driver import NOW_MS, append, batch, config, new_log, offsets_and_values

SMALL = config(segment_bytes=300)


def copy_all(current: PartitionLog, future: PartitionLog, *, max_bytes: int = 200) -> None:
    for _ in range(200):
        if not copy_to_future(current, future, max_bytes=max_bytes, now_ms=NOW_MS) and is_complete(current, future):
            return
    raise AssertionError("it never ends")


def same(current: PartitionLog, future: PartitionLog) -> bool:
    return (
        offsets_and_values(current) == offsets_and_values(future)
        and current.log_start_offset == future.log_start_offset
        and current.log_end_offset == future.log_end_offset
        and future.high_watermark == current.high_watermark
    )


def test_a_future_log_follows_in_steps_of_the_requested_size(tmp_path: Path) -> None:
    current, future = new_log(tmp_path / "one"), new_log(tmp_path / "two")
    for number in range(10):
        append(current, batch(b"%d" % number * 50))
    assert 0 < copy_to_future(current, future, max_bytes=300, now_ms=NOW_MS) <= 300
    assert not is_complete(current, future)
    copy_all(current, future)
    assert same(current, future)
    append(current, batch(b"later"), epoch=1)
    assert not is_complete(current, future)
    copy_all(current, future)
    assert same(current, future)
    assert future.epochs.entries == current.epochs.entries


def test_a_future_log_starts_where_the_current_one_starts(tmp_path: Path) -> None:
    current, future = new_log(tmp_path / "one", SMALL), new_log(tmp_path / "two", SMALL)
    for number in range(10):
        append(current, batch(b"%d" % number * 50))
    current.delete_records_before(4, now_ms=NOW_MS)
    copy_all(current, future)
    assert same(current, future)
    current.delete_records_before(8, now_ms=NOW_MS)
    copy_all(current, future)
    assert same(current, future)
    assert future.segments[0].base_offset > 4, "records below the start are removed there too"
    current.delete_records_before(10, now_ms=NOW_MS)
    copy_all(current, future)
    assert same(current, future)


def test_truncations_of_the_current_log_apply_to_the_future_log(tmp_path: Path) -> None:
    current, future = new_log(tmp_path / "one"), new_log(tmp_path / "two")
    for number in range(4):
        append(current, batch(b"%d" % number), epoch=1)
    copy_all(current, future)
    current.truncate_to(2, now_ms=NOW_MS)
    for number in range(4):
        append(current, batch(b"new %d" % number), epoch=3)
    assert not is_complete(current, future)
    copy_all(current, future)
    assert same(current, future)
    assert future.epochs.entries == [(1, 0), (3, 2)]


def test_a_restarted_current_log_is_followed(tmp_path: Path) -> None:
    current, future = new_log(tmp_path / "one"), new_log(tmp_path / "two")
    append(current, batch(b"x"), epoch=5)
    copy_all(current, future)
    current.truncate_fully_and_start_at(100, now_ms=NOW_MS)
    copy_all(current, future)
    assert same(current, future)
    assert future.log_end_offset == 100


def test_an_end_that_only_a_segments_name_contains_is_followed(tmp_path: Path) -> None:
    """Compaction removed all records of the last segments except the empty one."""
    current, future = new_log(tmp_path / "one"), new_log(tmp_path / "two")
    append(current, batch(b"x"))
    current.log_end_offset = 7
    current.roll(NOW_MS)
    copy_all(current, future)
    assert future.log_end_offset == 7
    append(current, batch(b"y"))
    copy_all(current, future)
    assert offsets_and_values(future) == [(0, b"x"), (7, b"y")]


def test_an_error_is_reported_for_the_failing_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    current, future = new_log(tmp_path / "one"), new_log(tmp_path / "two")
    append(current, batch(b"x"))

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwritev", full)
    with pytest.raises(FutureLogFailed):
        copy_to_future(current, future, max_bytes=100, now_ms=NOW_MS)
    monkeypatch.undo()
    current.active_segment.file.close()
    os.unlink(current.active_segment.path)
    with pytest.raises((OSError, StorageError)) as caught:
        copy_to_future(current, future, max_bytes=100, now_ms=NOW_MS)
    assert not isinstance(caught.value, FutureLogFailed)


_STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 3)),
    st.tuples(st.just("copy"), st.sampled_from([1, 100, 10_000])),
    st.tuples(st.just("lead again"), st.just(0)),
    st.tuples(st.just("delete"), st.integers(0, 10)),
    st.tuples(st.just("truncate"), st.integers(0, 5)),
    st.tuples(st.just("restart"), st.integers(0, 3)),
)


@given(st.lists(_STEPS, max_size=25))
def test_a_future_log_becomes_equal_after_any_changes(steps: list[tuple[str, int]]) -> None:
    """By Kafka's rules, two logs with equal epochs up to an offset are equal up to it.

    A truncated log therefore continues in a new epoch.
    """
    with TemporaryDirectory() as folder:
        current, future = new_log(Path(folder) / "one", SMALL), new_log(Path(folder) / "two", SMALL)
        epoch = 0
        for number, (step, size) in enumerate(steps):
            if step == "append":
                append(current, batch(*[b"%d" % number] * size), epoch=epoch)
            elif step == "copy":
                copy_to_future(current, future, max_bytes=size, now_ms=NOW_MS)
            elif step == "lead again":
                epoch += 1
                current.assign_epoch_start(epoch)
            elif step == "delete":
                offset = min(current.log_start_offset + size, current.high_watermark)
                current.delete_records_before(offset, now_ms=NOW_MS)
            elif step == "truncate":
                epoch += 1
                current.truncate_to(max(current.log_end_offset - size, current.log_start_offset), now_ms=NOW_MS)
            else:
                epoch += 1
                current.truncate_fully_and_start_at(current.log_end_offset + size, now_ms=NOW_MS)
        copy_all(current, future)
        assert same(current, future)
