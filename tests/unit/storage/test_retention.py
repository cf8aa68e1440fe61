"""Which segments are deleted, and when."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from barnabas.storage.partition_log import PartitionLog
from barnabas.storage.retention import apply_retention
from tests.unit.storage.log_driver import NOW_MS, all_records, append, batch, config, killed, new_log, reload

SENT = batch(b"x" * 100)
SIZE = len(SENT)


def filled(path: Path, count: int = 6, **settings: object) -> PartitionLog:
    """Two batches for each segment, one for each second."""
    log = new_log(path, config(segment_bytes=2 * SIZE, **settings))
    for index in range(count):
        append(log, batch(b"x" * 100, timestamp=NOW_MS + 1000 * index))
    return log


def bases(log: PartitionLog) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_segments_whose_newest_record_is_too_old_are_deleted(tmp_path: Path) -> None:
    log = filled(tmp_path, retention_ms=10_000)
    assert apply_retention(log, NOW_MS + 11_000) == 0
    assert apply_retention(log, NOW_MS + 11_001) == 1
    assert bases(log) == [2, 4]
    assert log.log_start_offset == 2


def test_a_log_with_only_old_segments_becomes_empty(tmp_path: Path) -> None:
    log = filled(tmp_path, retention_ms=10_000)
    assert apply_retention(log, NOW_MS + 60_000) == 3
    assert bases(log) == [6]
    assert (log.log_start_offset, log.log_end_offset) == (6, 6)
    assert apply_retention(log, NOW_MS + 120_000) == 0
    assert append(log, SENT).first_offset == 6


def test_a_newer_segment_protects_later_ones_but_not_earlier_ones(tmp_path: Path) -> None:
    log = new_log(tmp_path, config(segment_bytes=SIZE, retention_ms=1000))
    for age in (5000, 0, 5000):
        append(log, batch(b"x" * 100, timestamp=NOW_MS - age))
    append(log, SENT)
    assert apply_retention(log, NOW_MS) == 1
    assert bases(log) == [1, 2, 3]


def test_the_log_shrinks_to_its_size_by_whole_segments(tmp_path: Path) -> None:
    log = filled(tmp_path, retention_bytes=3 * SIZE, retention_ms=-1)
    assert apply_retention(log, NOW_MS) == 1
    assert log.size_bytes() == 4 * SIZE
    assert apply_retention(log, NOW_MS) == 0


def test_minus_one_keeps_everything(tmp_path: Path) -> None:
    log = filled(tmp_path, retention_ms=-1, retention_bytes=-1)
    assert apply_retention(log, NOW_MS * 2) == 0


def test_records_that_are_not_replicated_are_never_removed(tmp_path: Path) -> None:
    log = new_log(tmp_path, config(segment_bytes=2 * SIZE, retention_ms=0))
    for _ in range(6):
        log.append_as_leader(SENT, leader_epoch=0, now_ms=NOW_MS)
    log.maybe_advance_high_watermark(3)
    assert apply_retention(log, NOW_MS + 60_000) == 1
    assert bases(log) == [2, 4]


def test_a_compacted_log_is_not_shortened_by_age_or_size(tmp_path: Path) -> None:
    log = filled(tmp_path, cleanup_policy=["compact"], retention_ms=0, retention_bytes=0)
    assert apply_retention(log, NOW_MS + 60_000) == 0
    log.config = config(cleanup_policy=["compact", "delete"], segment_bytes=2 * SIZE, retention_ms=0)
    assert apply_retention(log, NOW_MS + 60_000) == 3


def test_segments_below_the_log_start_are_deleted_under_every_policy(tmp_path: Path) -> None:
    log = filled(tmp_path, cleanup_policy=["compact"])
    log.maybe_increment_log_start(3)
    assert apply_retention(log, NOW_MS) == 1
    assert bases(log) == [2, 4]


def test_without_timestamps_the_age_of_the_file_is_used(tmp_path: Path) -> None:
    log = new_log(tmp_path, config(segment_bytes=SIZE, retention_ms=1000, message_timestamp_before_max_ms=2**62))
    for _ in range(2):
        append(log, batch(b"x" * 100, timestamp=-1))
    old = log.segments[0]
    os.utime(old.path, (NOW_MS / 1000 - 5, NOW_MS / 1000 - 5))
    os.utime(log.segments[1].path, (NOW_MS / 1000, NOW_MS / 1000))
    assert apply_retention(log, NOW_MS) == 1


def test_files_are_renamed_immediately_and_removed_after_their_delay(tmp_path: Path) -> None:
    log = filled(tmp_path, retention_ms=10_000, file_delete_delay_ms=5000)
    now_ms = NOW_MS + 11_001
    apply_retention(log, now_ms)
    assert Path(log.directory, "00000000000000000000.log.deleted").exists()
    assert log.remove_retired_files(now_ms + 4999) == 0
    assert log.remove_retired_files(now_ms + 5000) == 1
    assert not [name for name in os.listdir(log.directory) if "deleted" in name]


@pytest.mark.parametrize("is_clean", [True, False])
def test_removed_segments_do_not_return_after_a_restart(tmp_path: Path, is_clean: bool) -> None:
    log = filled(tmp_path / "log", retention_ms=10_000)
    apply_retention(log, NOW_MS + 11_001)
    if is_clean:
        log.close(NOW_MS)
    restarted, _ = reload(killed(log, tmp_path / "copy"), log.config, is_clean=is_clean)
    assert (restarted.log_start_offset, restarted.log_end_offset) == (2, 6)
    assert [record.offset for record in all_records(restarted)] == [2, 3, 4, 5]


def test_producer_snapshots_are_removed_with_their_segments(tmp_path: Path) -> None:
    log = filled(tmp_path, retention_ms=10_000)
    apply_retention(log, NOW_MS + 14_000)
    snapshots = [int(name[:20]) for name in os.listdir(log.directory) if name.endswith(".snapshot")]
    assert snapshots == [4]


def test_a_flipped_bit_in_the_time_index_does_not_delete_young_records(tmp_path: Path) -> None:
    log = new_log(tmp_path, config(segment_bytes=1000, retention_ms=1000))
    for index in range(20):
        append(log, batch(b"value %d" % index, timestamp=NOW_MS + index))
    log.close(NOW_MS)
    path = Path(log.segments[0].path.replace(".log", ".timeindex"))
    content = bytearray(path.read_bytes())
    content[-9] = 0
    content[-10] = 0
    path.write_bytes(content)
    opened, _ = reload(log.directory, log.config, is_clean=True, recovery_point=20)
    opened.maybe_advance_high_watermark(20)
    assert opened.segments[0].max_timestamp < NOW_MS - 1000
    assert apply_retention(opened, NOW_MS + 500) == 0
    assert opened.segments[0].max_timestamp >= NOW_MS
    assert apply_retention(opened, NOW_MS + 5000) > 0
