from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.storage.damaged_files import DamagedLogError, LogDamage
from barnabas.storage.errors import StorageError
from barnabas.storage.leader_epoch_checkpoint import LEADER_EPOCH_CHECKPOINT
from barnabas.storage.metadata_log import METADATA_LOG_DIRECTORY, MetadataLog
from barnabas.storage.metadata_log_loss import describe_loss
from barnabas.storage.recovery_point import RECOVERY_POINT
from barnabas.storage.segment import segment_path
from barnabas.storage.snapshot_file import list_snapshots, snapshot_path
from tests.unit.storage.test_metadata_log import LOG, batch, control_batch, filled, offsets, snapshot

SIZE = len(batch(0, 2).data)
SEGMENT_BYTES = 300
EPOCH = range(12, 16)
"""The bytes of a batch that its checksum does not cover."""


def files(directory: Path) -> dict[str, bytes]:
    folder = directory / METADATA_LOG_DIRECTORY
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def log_files(directory: Path) -> list[Path]:
    return sorted((directory / METADATA_LOG_DIRECTORY).glob("*.log"))


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.chmod(0o600)
    path.write_bytes(data)


def forget_recovery_point(directory: Path) -> None:
    (directory / METADATA_LOG_DIRECTORY / RECOVERY_POINT).unlink(missing_ok=True)
    for path in (directory / METADATA_LOG_DIRECTORY).glob("*.snapshot"):
        path.unlink()


def damage_of(directory: Path, **options: Any) -> DamagedLogError:
    """Return the refusal to open this log, which must leave every file unchanged."""
    before = files(directory)
    with pytest.raises(DamagedLogError) as raised:
        MetadataLog(str(directory), **options)
    assert files(directory) == before
    return raised.value


def damage_of_flipped_bit(directory: Path, position: int, bit: int) -> LogDamage:
    filled(directory, 8).close()
    forget_recovery_point(directory)
    path = directory / METADATA_LOG_DIRECTORY / LOG
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << bit
    path.write_bytes(content)
    return damage_of(directory).damage


# --- valid batches follow


def test_a_flipped_bit_with_valid_batches_after_it_is_damage(tmp_path: Path) -> None:
    filled(tmp_path, 8).close()
    forget_recovery_point(tmp_path)
    flip(tmp_path / METADATA_LOG_DIRECTORY / LOG, 3 * SIZE + 70)
    error = damage_of(tmp_path)
    damage = error.damage
    assert (damage.path, damage.position, damage.offset, damage.known_end) == (
        str(tmp_path / METADATA_LOG_DIRECTORY / LOG),
        3 * SIZE,
        6,
        16,
    )
    assert str(error) == (
        f"{damage.path}: at position {3 * SIZE}: the checksum is wrong; offsets 6 to 15 cannot be read, "
        "and 4 valid batches after it extend to offset 15"
    )


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    place=st.integers(0, 6), position=st.integers(0, SIZE - 1).filter(lambda at: at not in EPOCH), bit=st.integers(0, 7)
)
def test_every_flipped_bit_before_the_last_batch_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, place: int, position: int, bit: int
) -> None:
    damage = damage_of_flipped_bit(tmp_path_factory.mktemp("log"), place * SIZE + position, bit)
    assert (damage.position, damage.offset) == (place * SIZE, 2 * place)


@pytest.mark.parametrize("place", range(7))
@pytest.mark.parametrize("position", EPOCH)
def test_every_flipped_bit_of_an_epoch_is_noticed_without_a_checksum(
    tmp_path_factory: pytest.TempPathFactory, place: int, position: int
) -> None:
    for bit in range(8):
        damage = damage_of_flipped_bit(tmp_path_factory.mktemp("log"), place * SIZE + position, bit)
        assert damage.position in ((place - 1) * SIZE, place * SIZE, (place + 1) * SIZE), "its batch or a neighbour"


@pytest.mark.parametrize("place", range(7))
def test_a_flipped_bit_of_an_offset_does_not_move_the_end_of_the_recovery(
    tmp_path_factory: pytest.TempPathFactory, place: int
) -> None:
    """The checksum does not cover the base offset either."""
    for position, bit in product(range(8), range(8)):
        damage = damage_of_flipped_bit(tmp_path_factory.mktemp("log"), place * SIZE + position, bit)
        assert (damage.offset, damage.known_end) == (2 * place, 16), (position, bit)


@pytest.mark.parametrize("batches", [4, 6])
def test_a_batch_with_a_wrong_offset_after_a_snapshot_is_lost_and_not_skipped(tmp_path: Path, batches: int) -> None:
    log = filled(tmp_path, batches)
    snapshot(log, 6)
    log.close()
    for path in (tmp_path / METADATA_LOG_DIRECTORY).glob("*.snapshot"):
        path.unlink()
    (tmp_path / METADATA_LOG_DIRECTORY / RECOVERY_POINT).unlink(missing_ok=True)
    flip(tmp_path / METADATA_LOG_DIRECTORY / LOG, 3 * SIZE + 4)
    damage = damage_of(tmp_path).damage
    assert (damage.offset, damage.known_end) == (6, 2 * batches)


def test_records_lost_after_a_wrong_offset_are_listed_with_their_true_offsets(tmp_path: Path) -> None:
    filled(tmp_path, 6).close()
    forget_recovery_point(tmp_path)
    flip(tmp_path / METADATA_LOG_DIRECTORY / LOG, 3 * SIZE + 4)
    lines = list(describe_loss(str(tmp_path), damage_of(tmp_path).damage))
    assert [int(line.split()[0]) for line in lines] == list(range(6, 12))


def test_an_epoch_that_no_leader_began_is_damage(tmp_path: Path) -> None:
    log = filled(tmp_path, 8)
    log.append(control_batch(16, 5))
    log.append(batch(17, epoch=5))
    log.append(batch(18, epoch=5))
    log.close()
    forget_recovery_point(tmp_path)
    path = tmp_path / METADATA_LOG_DIRECTORY / LOG
    content = bytearray(path.read_bytes())
    content[8 * SIZE + 15] = 1  # The control batch seems to belong to the previous epoch.
    path.write_bytes(content)
    damage = damage_of(tmp_path).damage
    assert (damage.offset, damage.reason) == (17, "the leader epoch 5 follows 1")


def test_a_higher_epoch_of_one_batch_is_damage_of_that_batch(tmp_path: Path) -> None:
    filled(tmp_path, 8).close()
    flip(tmp_path / METADATA_LOG_DIRECTORY / LOG, 3 * SIZE + 13)
    damage = damage_of(tmp_path).damage
    assert (damage.position, damage.offset) == (3 * SIZE, 6)
    assert damage.reason == "the leader epoch 1048577 follows 1"


def test_a_valid_batch_in_a_later_segment_proves_damage(tmp_path: Path) -> None:
    filled(tmp_path, 20, segment_bytes=SEGMENT_BYTES).close()
    forget_recovery_point(tmp_path)
    first, *_, last = log_files(tmp_path)
    data = first.read_bytes()
    first.write_bytes(data[:SIZE] + bytes(len(data) - SIZE))
    damage = damage_of(tmp_path, segment_bytes=SEGMENT_BYTES).damage
    assert (damage.path, damage.position, damage.offset, damage.known_end) == (str(first), SIZE, 2, 40)
    assert last.exists()


MIDDLE_FAULTS: dict[str, Callable[[Path, Path], object]] = {
    "missing": lambda path, other: path.unlink(),
    "empty": lambda path, other: path.write_bytes(b""),
    "zeros": lambda path, other: path.write_bytes(bytes(path.stat().st_size)),
    "truncated": lambda path, other: path.write_bytes(path.read_bytes()[:-7]),
    "one batch short": lambda path, other: path.write_bytes(path.read_bytes()[:-SIZE]),
    "garbage": lambda path, other: path.write_bytes(b"\x5a" * path.stat().st_size),
    "of another log": lambda path, other: shutil.copy(other, path),
}


@pytest.mark.parametrize("fault", MIDDLE_FAULTS)
@pytest.mark.parametrize("knows_recovery_point", [True, False])
def test_a_missing_segment_in_the_middle_is_not_skipped(tmp_path: Path, fault: str, knows_recovery_point: bool) -> None:
    filled(tmp_path, 20, segment_bytes=SEGMENT_BYTES).close()
    if not knows_recovery_point:
        forget_recovery_point(tmp_path)
    paths = log_files(tmp_path)
    MIDDLE_FAULTS[fault](paths[2], paths[4])
    damage = damage_of(tmp_path, segment_bytes=SEGMENT_BYTES).damage
    assert int(paths[2].stem) <= damage.offset <= int(paths[3].stem)
    assert damage.path in (str(paths[2]), str(paths[3]))
    assert damage.known_end == 40


@pytest.mark.parametrize("fault", MIDDLE_FAULTS)
def test_a_missing_first_segment_is_not_skipped(tmp_path: Path, fault: str) -> None:
    filled(tmp_path, 20, segment_bytes=SEGMENT_BYTES).close()
    forget_recovery_point(tmp_path)
    paths = log_files(tmp_path)
    MIDDLE_FAULTS[fault](paths[0], paths[4])
    assert damage_of(tmp_path, segment_bytes=SEGMENT_BYTES).damage.known_end == 40


# --- nothing valid follows


def test_a_torn_tail_is_truncated_with_a_log_line_of_file_offset_bytes_and_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    filled(tmp_path, 8).close()
    path = tmp_path / METADATA_LOG_DIRECTORY / LOG
    path.write_bytes(path.read_bytes() + bytes(batch(16, 2).data)[:-5])
    with caplog.at_level(logging.WARNING):
        log = MetadataLog(str(tmp_path))
    assert (log.end_offset, log.recovered_from) == (16, 16)
    assert caplog.messages == [
        f"{path}: truncated at position {8 * SIZE}, offset 16: the segment ends inside a batch. "
        f"Removed {SIZE - 5} bytes that were never flushed"
    ]
    log.append(batch(16, 2))
    log.close()
    assert MetadataLog(str(tmp_path)).recovered_from is None


def test_a_tail_of_zeros_is_truncated(tmp_path: Path) -> None:
    filled(tmp_path, 8).close()
    path = tmp_path / METADATA_LOG_DIRECTORY / LOG
    path.write_bytes(path.read_bytes() + bytes(4096))
    assert MetadataLog(str(tmp_path)).end_offset == 16


def test_without_recovery_information_a_damaged_last_batch_is_a_torn_tail(tmp_path: Path) -> None:
    """A log that Kafka wrote, or that was never closed: no file records that the last write was complete."""
    filled(tmp_path, 8).close()
    forget_recovery_point(tmp_path)
    flip(tmp_path / METADATA_LOG_DIRECTORY / LOG, 7 * SIZE + 70)
    assert MetadataLog(str(tmp_path)).end_offset == 14


def test_a_damaged_last_batch_is_damage_when_it_was_flushed(tmp_path: Path) -> None:
    log = filled(tmp_path, 8)
    log.flush()
    flip(tmp_path / METADATA_LOG_DIRECTORY / LOG, 7 * SIZE + 70)
    damage = damage_of(tmp_path).damage
    assert (damage.offset, damage.known_end) == (14, 16)
    assert "recovery-point the log was flushed up to offset 16" in damage.evidence


@pytest.mark.parametrize("size", [0, 1, SIZE, 7 * SIZE, 8 * SIZE - 1])
def test_a_log_shorter_than_its_recovery_point_is_damaged(tmp_path: Path, size: int) -> None:
    filled(tmp_path, 8).close()
    path = tmp_path / METADATA_LOG_DIRECTORY / LOG
    path.write_bytes(path.read_bytes()[:size])
    damage = damage_of(tmp_path).damage
    assert (damage.path, damage.offset, damage.known_end) == (str(path), size // SIZE * 2, 16)


def test_a_log_that_lost_all_segments_is_damaged(tmp_path: Path) -> None:
    filled(tmp_path, 8).close()
    path = tmp_path / METADATA_LOG_DIRECTORY / LOG
    path.unlink()
    damage = damage_of(tmp_path).damage
    assert (damage.path, damage.reason, damage.known_end) == (str(path), "the log does not have a segment", 16)


def test_the_end_recorded_by_a_clean_close_replaces_a_missing_recovery_point(tmp_path: Path) -> None:
    filled(tmp_path, 8).close()
    (tmp_path / METADATA_LOG_DIRECTORY / RECOVERY_POINT).unlink()
    flip(tmp_path / METADATA_LOG_DIRECTORY / LOG, 7 * SIZE + 70)
    assert damage_of(tmp_path).damage.evidence == "the log was closed with the end offset 16"


# --- power loss


def test_after_a_restart_of_the_machine_unflushed_records_may_be_torn_anywhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = MetadataLog(str(tmp_path), boot="one")
    for index in range(4):
        log.append(batch(2 * index, 2))
    log.flush()
    for index in range(4, 8):
        log.append(batch(2 * index, 2))
    flip(tmp_path / METADATA_LOG_DIRECTORY / LOG, 5 * SIZE + 70)
    with pytest.raises(DamagedLogError):
        MetadataLog(str(tmp_path), boot="one")
    again = MetadataLog(str(tmp_path), boot="two")
    assert again.end_offset == 10
    kept = tmp_path / METADATA_LOG_DIRECTORY / f"{LOG}.damaged"
    assert kept.stat().st_size == 3 * SIZE
    assert f"that were never flushed and kept as {kept}" in caplog.text


@pytest.mark.parametrize("is_empty", [True, False])
def test_after_a_restart_of_the_machine_the_log_ends_at_a_segment_that_lost_its_tail(
    tmp_path: Path, is_empty: bool
) -> None:
    log = MetadataLog(str(tmp_path), boot="one", segment_bytes=4 * SIZE)
    for index in range(3):
        log.append(batch(2 * index, 2))
    log.flush()
    for index in range(3, 6):
        log.append(batch(2 * index, 2))
    first, second = log_files(tmp_path)
    os.truncate(first, 3 * SIZE)
    if is_empty:
        os.truncate(second, 0)
    again = MetadataLog(str(tmp_path), boot="two", segment_bytes=4 * SIZE)
    assert (again.end_offset, log_files(tmp_path)) == (6, [first])
    again.append(batch(6, 2))
    again.append(batch(8, 2))
    assert offsets(again) == [0, 2, 4, 6, 8]
    again.close()
    assert offsets(MetadataLog(str(tmp_path), boot="two")) == [0, 2, 4, 6, 8]


def test_after_a_restart_of_the_machine_torn_flushed_records_are_still_damage(tmp_path: Path) -> None:
    log = MetadataLog(str(tmp_path), boot="one")
    for index in range(8):
        log.append(batch(2 * index, 2))
    log.flush()
    flip(tmp_path / METADATA_LOG_DIRECTORY / LOG, 5 * SIZE + 70)
    with pytest.raises(DamagedLogError):
        MetadataLog(str(tmp_path), boot="two")


# --- the recovery point


def test_the_recovery_point_follows_flushes_and_truncations(tmp_path: Path) -> None:
    log = filled(tmp_path, 8)
    point = tmp_path / METADATA_LOG_DIRECTORY / RECOVERY_POINT
    assert b" 00000000000000000000 " in point.read_bytes()
    log.flush()
    assert b" 00000000000000000016 " in point.read_bytes()
    log.truncate_to(10)
    assert b" 00000000000000000010 " in point.read_bytes()
    assert MetadataLog(str(tmp_path)).end_offset == 10


def test_a_flush_started_before_a_truncation_does_not_count_after_it(tmp_path: Path) -> None:
    log = filled(tmp_path, 8)
    flush = log.start_flush()
    log.truncate_to(10)
    flush.run()
    assert MetadataLog(str(tmp_path)).end_offset == 10


@pytest.mark.parametrize("content", [b"", bytes(67), b"garbage", b"0 x 00000000000000000999 00000000\n"])
def test_an_unreadable_recovery_point_is_ignored(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    filled(tmp_path, 8).close()
    point = tmp_path / METADATA_LOG_DIRECTORY / RECOVERY_POINT
    point.write_bytes(content)
    MetadataLog(str(tmp_path)).close()
    assert b" 00000000000000000016 " in point.read_bytes()
    assert f"{point}: not a recovery point" in caplog.text


# --- snapshots


def test_the_newest_snapshot_covers_damage_before_its_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Without an index the check begins at the start of the segment and finds the damage."""
    log = filled(tmp_path, 20)
    latest = snapshot(log, 20)
    log.close()
    index = tmp_path / METADATA_LOG_DIRECTORY / "00000000000000000000.index"
    index.write_bytes(b"\xff" * 16)
    path = tmp_path / METADATA_LOG_DIRECTORY / LOG
    flip(path, 3 * SIZE + 70)
    with caplog.at_level(logging.ERROR):
        again = MetadataLog(str(tmp_path))
    assert (again.start_offset, again.end_offset, offsets(again, 20)) == (20, 40, list(range(20, 40, 2)))
    assert (
        f"{path}: at position {3 * SIZE} (offset 6): the checksum is wrong; the snapshot {latest} holds" in caplog.text
    )
    assert (tmp_path / METADATA_LOG_DIRECTORY / f"{LOG}.damaged").stat().st_size == 20 * SIZE
    again.append(batch(40, 2))
    again.close()
    assert offsets(MetadataLog(str(tmp_path)), 20) == list(range(20, 42, 2))


@pytest.mark.parametrize("fault", ["missing", "empty", "zeros", "one batch short", "garbage"])
def test_a_segment_that_the_snapshot_covers_may_be_lost(tmp_path: Path, fault: str) -> None:
    log = filled(tmp_path, 20, segment_bytes=SEGMENT_BYTES)
    snapshot(log, 30)
    log.close()
    paths = log_files(tmp_path)
    MIDDLE_FAULTS[fault](paths[1], paths[1])
    again = MetadataLog(str(tmp_path), segment_bytes=SEGMENT_BYTES)
    assert (again.start_offset, again.end_offset, offsets(again, 30)) == (30, 40, list(range(30, 40, 2)))
    again.close()
    assert MetadataLog(str(tmp_path), segment_bytes=SEGMENT_BYTES).start_offset == 30


def test_a_log_fully_covered_by_a_snapshot_continues_after_it(tmp_path: Path) -> None:
    log = filled(tmp_path, 10)
    snapshot(log, 20)
    log.close()
    path = tmp_path / METADATA_LOG_DIRECTORY / LOG
    path.write_bytes(bytes(path.stat().st_size))
    again = MetadataLog(str(tmp_path))
    assert (again.start_offset, again.end_offset, again.epochs) == (20, 20, [(1, 20)])


def damage_snapshot(log: MetadataLog, offset: int) -> Path:
    found = next(id_ for id_ in list_snapshots(log.directory) if id_.offset == offset)
    path = Path(snapshot_path(log.directory, found))
    flip(path, path.stat().st_size // 2)
    return path


def test_a_damaged_snapshot_is_moved_aside_if_the_log_contains_its_records(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = filled(tmp_path, 20)
    snapshot(log, 10)
    snapshot(log, 20)
    log.close()
    path = damage_snapshot(log, 20)
    with caplog.at_level(logging.ERROR):
        again = MetadataLog(str(tmp_path))
    assert ([id_.offset for id_ in again.snapshots], again.end_offset) == ([10], 40)
    assert str(path) in caplog.text
    assert not path.exists()
    assert Path(f"{path}.damaged").exists()


def test_a_damaged_snapshot_that_nothing_covers_is_damage(tmp_path: Path) -> None:
    log = filled(tmp_path, 20, segment_bytes=SEGMENT_BYTES)
    snapshot(log, 20)
    log.delete_before(20)
    log.close()
    path = damage_snapshot(log, 20)
    damage = damage_of(tmp_path, segment_bytes=SEGMENT_BYTES).damage
    assert (damage.path, damage.offset, damage.known_end) == (str(path), 0, 40)
    assert "the log begins after its records" in damage.evidence


def test_a_damaged_snapshot_ahead_of_the_log_is_damage(tmp_path: Path) -> None:
    """It was fetched, and the process died before the log was dropped in its favour."""
    log = filled(tmp_path, 5)
    snapshot(log, 100, 7)
    log.close()
    damage_snapshot(log, 100)
    assert damage_of(tmp_path).damage.known_end == 100


def test_a_damaged_snapshot_without_any_segment_is_damage(tmp_path: Path) -> None:
    log = filled(tmp_path, 5)
    snapshot(log, 10)
    log.close()
    damage_snapshot(log, 10)
    forget_recovery_point(tmp_path)
    log_files(tmp_path)[0].unlink()
    with pytest.raises(DamagedLogError):
        MetadataLog(str(tmp_path))


@pytest.mark.parametrize("content", [b"", bytes(100), b"garbage" * 20])
def test_the_checkpoint_of_formatting_is_needed_while_the_log_names_no_voters(tmp_path: Path, content: bytes) -> None:
    log = MetadataLog(str(tmp_path))
    log.append(control_batch(0, 1))
    bootstrap = snapshot(log, 0, 0)
    log.close()
    path = Path(snapshot_path(log.directory, bootstrap))
    path.chmod(0o600)
    path.write_bytes(content)
    with pytest.raises(DamagedLogError, match="it was the only file with the voters") as raised:
        MetadataLog(str(tmp_path))
    assert raised.value.path == str(path)


# --- damage found later


@pytest.mark.parametrize("position", [9, 17, 70])
def test_a_batch_damaged_while_the_log_is_open_is_not_served(tmp_path: Path, position: int) -> None:
    log = filled(tmp_path, 8)
    log.flush()
    path = tmp_path / METADATA_LOG_DIRECTORY / LOG
    flip(path, 3 * SIZE + position)
    with pytest.raises(DamagedLogError) as raised:
        log.read(6, 1 << 20)
    assert (raised.value.damage.path, raised.value.damage.offset) == (str(path), 6)
    with pytest.raises(DamagedLogError):
        list(log.batches(0))


def test_a_segment_that_vanishes_while_the_log_is_open_is_damage(tmp_path: Path) -> None:
    log = filled(tmp_path, 20, segment_bytes=SEGMENT_BYTES)
    path = log_files(tmp_path)[1]
    path.unlink()
    with pytest.raises(DamagedLogError, match=path.name):
        list(log.batches(0))


# --- small files


@pytest.mark.parametrize("content", [b"", bytes(20), b"garbage", b"0\n1\nx y\n", b"9\n"])
def test_a_damaged_epoch_checkpoint_is_rebuilt_from_the_log(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    log = filled(tmp_path)
    log.append(control_batch(10, 3))
    log.close()
    path = tmp_path / METADATA_LOG_DIRECTORY / LEADER_EPOCH_CHECKPOINT
    path.write_bytes(content)
    again = MetadataLog(str(tmp_path))
    assert again.epochs == [(1, 0), (3, 10)]
    again.close()
    assert path.read_text() == "0\n2\n1 0\n3 10\n"
    assert not content or str(path) in caplog.text


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"version: 7\ntopic_id: x", b"version: 0\ntopic_id: other"])
def test_a_damaged_partition_metadata_is_written_again(tmp_path: Path, content: bytes) -> None:
    filled(tmp_path).close()
    path = tmp_path / METADATA_LOG_DIRECTORY / "partition.metadata"
    path.write_bytes(content)
    MetadataLog(str(tmp_path)).close()
    assert path.read_text() == "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_segment_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    filled(tmp_path).close()
    path = tmp_path / METADATA_LOG_DIRECTORY / LOG
    path.chmod(0)
    with pytest.raises(StorageError, match=f"{path}: Permission denied"):
        MetadataLog(str(tmp_path))


def test_a_segment_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    filled(tmp_path).close()
    path = tmp_path / METADATA_LOG_DIRECTORY / LOG
    path.unlink()
    path.symlink_to(path)  # Opening it fails for root, too.
    with pytest.raises(StorageError, match=f"{path}: Too many levels of symbolic links"):
        MetadataLog(str(tmp_path))


def test_segment_paths_are_named_like_kafkas() -> None:
    assert segment_path("d", 7, ".log") == "d/00000000000000000007.log"
