"""Checkpoints, leader epochs, producer snapshots, partition.metadata, and the pool of descriptors."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.storage.cleaner_offset_map import BYTES_PER_SLOT, CleanerOffsetMap
from barnabas.storage.cleaner_thread import Throttle
from barnabas.storage.errors import CorruptFileError
from barnabas.storage.file_pool import FilePool, PooledFile
from barnabas.storage.leader_epoch_checkpoint import LeaderEpochCheckpoint
from barnabas.storage.offset_checkpoint import read_offsets, write_offsets
from barnabas.storage.partition_metadata import read_partition_metadata, write_partition_metadata
from barnabas.storage.producer_snapshot import ProducerSnapshotEntry, read_snapshot, write_snapshot


def test_an_offset_checkpoint_has_kafkas_text_format(tmp_path: Path) -> None:
    path = tmp_path / "recovery-point-offset-checkpoint"
    offsets = {TopicPartition("a", 0): 5, TopicPartition("b-c", 12): 2**40}
    write_offsets(str(path), offsets)
    assert path.read_text() == f"0\n2\na 0 5\nb-c 12 {2**40}\n"
    assert read_offsets(str(path)) == offsets


@pytest.mark.parametrize("text", ["1\n0\n", "0\n2\na 0 5\n", "0\n1\na 0\n", "0\n1\na 0 x\n", "0\n", "0\nx\n"])
def test_a_malformed_checkpoint_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "checkpoint"
    path.write_text(text)
    with pytest.raises(CorruptFileError):
        read_offsets(str(path))


def test_a_missing_or_empty_checkpoint_has_no_entries(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    assert read_offsets(str(path)) == {}
    path.touch()
    assert read_offsets(str(path)) == {}


@pytest.fixture
def epochs(tmp_path: Path) -> LeaderEpochCheckpoint:
    return LeaderEpochCheckpoint(str(tmp_path / "leader-epoch-checkpoint"))


def test_an_epoch_is_assigned_once_and_removes_contradicting_entries(epochs: LeaderEpochCheckpoint) -> None:
    assert epochs.assign(1, 0)
    assert epochs.assign(3, 10)
    assert not epochs.assign(3, 12)
    assert epochs.assign(5, 20)
    assert epochs.entries == [(1, 0), (3, 10), (5, 20)]
    assert epochs.assign(4, 15)
    assert epochs.entries == [(1, 0), (3, 10), (4, 15)]
    assert epochs.assign(7, 10)
    assert epochs.entries == [(1, 0), (7, 10)]


def test_epochs_are_read_back_and_truncated_at_both_ends(epochs: LeaderEpochCheckpoint) -> None:
    for epoch, start in ((1, 0), (3, 10), (5, 20)):
        epochs.assign(epoch, start)
    epochs.flush()
    assert Path(epochs.path).read_text() == "0\n3\n1 0\n3 10\n5 20\n"
    reopened = LeaderEpochCheckpoint(epochs.path)
    assert reopened.entries == epochs.entries
    reopened.truncate_from_start(15)
    assert reopened.entries == [(3, 15), (5, 20)]
    reopened.truncate_from_end(20)
    assert reopened.entries == [(3, 15)]
    reopened.clear()
    reopened.flush()
    assert Path(epochs.path).read_text() == "0\n0\n"


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.tuples(st.integers(1, 3), st.integers(1, 9)), min_size=1, max_size=10), wanted=st.integers(-1, 40)
)
def test_the_end_of_an_epoch_agrees_with_a_list_of_all_offsets(
    tmp_path: Path, steps: list[tuple[int, int]], wanted: int
) -> None:
    epochs = LeaderEpochCheckpoint(str(tmp_path / "none"))
    epoch, of_offset = 0, []
    for more, count in steps:
        epoch += more
        epochs.assign(epoch, len(of_offset))
        of_offset += [epoch] * count
    found = epochs.end_offset_for(wanted, len(of_offset))
    if wanted == -1 or wanted > epoch:
        assert found == (-1, -1)
    else:
        floor = max((known for known in of_offset if known <= wanted), default=wanted)
        end = next((offset for offset, known in enumerate(of_offset) if known > wanted), len(of_offset))
        assert found == (floor, end)


def test_epochs_that_are_found_again_are_not_written(epochs: LeaderEpochCheckpoint) -> None:
    """A full disk, or one that only can be read, does not prevent the start of a node whose epochs are known."""
    epochs.assign(3, 0)
    epochs.assign(5, 20)
    epochs.flush()
    before = os.stat(epochs.path)
    reopened = LeaderEpochCheckpoint(epochs.path)
    reopened.truncate_from_end(10)
    reopened.assign(5, 20)
    assert not reopened.flush()
    assert os.stat(epochs.path).st_ino == before.st_ino
    reopened.truncate_from_end(10)
    assert reopened.flush()
    reopened.assign(5, 20)
    assert reopened.flush()
    assert LeaderEpochCheckpoint(epochs.path).entries == [(3, 0), (5, 20)]


def test_a_damaged_epoch_checkpoint_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    for text in ("0\n2\n5 0\n3 10\n", "0\n1\nx y\n"):
        path.write_text(text)
        with pytest.raises(CorruptFileError):
            LeaderEpochCheckpoint(str(path))


def test_the_topic_id_is_stored_as_kafka_writes_it(tmp_path: Path) -> None:
    topic_id = Uuid.from_string("1xEqrELiS12rnsLekATG6Q")
    write_partition_metadata(str(tmp_path), topic_id)
    assert (tmp_path / "partition.metadata").read_text() == "version: 0\ntopic_id: 1xEqrELiS12rnsLekATG6Q"
    assert read_partition_metadata(str(tmp_path)) == topic_id
    (tmp_path / "partition.metadata").write_text("")
    assert read_partition_metadata(str(tmp_path)) is None
    for text in ("version: 1\ntopic_id: 1xEqrELiS12rnsLekATG6Q", "version: 0\n", "version: 0\ntopic_id: x"):
        (tmp_path / "partition.metadata").write_text(text)
        with pytest.raises(CorruptFileError):
            read_partition_metadata(str(tmp_path))


def test_any_damaged_byte_of_a_producer_snapshot_is_noticed(tmp_path: Path) -> None:
    entry = ProducerSnapshotEntry(5, 1, 10, 100, 2, 1_700_000_000_000, 3, -1)
    write_snapshot(str(tmp_path), 101, [entry], sync=False)
    path = tmp_path / "00000000000000000101.snapshot"
    assert read_snapshot(str(path)) == [entry]
    content = path.read_bytes()
    for at in range(len(content)):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(CorruptFileError):
            read_snapshot(str(path))
        path.write_bytes(content[:at])
        with pytest.raises(CorruptFileError):
            read_snapshot(str(path))


def test_the_pool_closes_the_least_recently_used_file(tmp_path: Path) -> None:
    pool = FilePool(files_max=3)
    files = [PooledFile(pool, str(tmp_path / str(index))) for index in range(5)]
    for file in files:
        Path(file.path).touch()
    for file in files[:3]:
        os.write(file.fd(), b"x")
    files[3].fd()
    files[1].fd()
    files[2].fd()
    files[4].fd()
    assert len(pool) == 3
    assert files[4].is_open
    for file in files:
        os.fstat(file.fd())
    assert len(pool) == 3
    pool.close_all()
    assert len(pool) == 0
    assert not any(file.is_open for file in files)


def test_a_missing_file_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        PooledFile(FilePool(), str(tmp_path / "missing")).fd()


@settings(max_examples=40)
@given(puts=st.lists(st.binary(max_size=3), max_size=200))
def test_the_cleaners_map_agrees_with_a_dict(puts: list[bytes]) -> None:
    offset_map, model = CleanerOffsetMap(BYTES_PER_SLOT * 400), {}
    for offset, key in enumerate(puts):
        offset_map.put(key, offset)
        model[key] = offset
    assert offset_map.size == len(model)
    assert all(offset_map.get(key) == offset for key, offset in model.items())
    assert offset_map.get(b"a key of another length") == -1


def test_the_cleaners_map_is_full_before_its_memory_is() -> None:
    offset_map = CleanerOffsetMap(BYTES_PER_SLOT * 100)
    for key in range(offset_map.keys_max):
        assert not offset_map.is_full
        offset_map.put(b"%d" % key, key)
    assert offset_map.is_full
    assert offset_map.keys_max == 90


def test_the_throttle_sleeps_after_fast_reads() -> None:
    now, slept = 0.0, []

    def sleep(seconds: float) -> None:
        nonlocal now
        slept.append(seconds)
        now += seconds

    throttle = Throttle(1000, monotonic=lambda: now, sleep=sleep)
    throttle.pass_bytes(500)
    assert slept == []
    now = 0.4
    throttle.pass_bytes(500)
    assert slept == [pytest.approx(0.6)]
    now += 1
    throttle.pass_bytes(500)
    assert len(slept) == 1
