from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from barnabas.common.errors import InvariantViolated
from barnabas.protocol.record_batch_builder import RecordBatchBuilder
from barnabas.raft.control_records import build_control_batch, leader_change
from barnabas.raft.ready import AppendedBatch
from barnabas.raft.replica_key import OffsetAndEpoch, ReplicaKey
from barnabas.server.metadata_log.record_serde import MetadataRecordSerde
from barnabas.storage import segment as segment_module
from barnabas.storage.damaged_files import DamagedLogError
from barnabas.storage.metadata_log import METADATA_LOG_DIRECTORY, MetadataLog
from barnabas.storage.snapshot_file import RawSnapshotWriter, SnapshotWriter, list_snapshots

LOG = "00000000000000000000.log"


def batch(
    base_offset: int, count: int = 1, *, epoch: int = 1, size: int = 10, timestamp_ms: int = 1000
) -> AppendedBatch:
    builder = RecordBatchBuilder(base_offset=base_offset, leader_epoch=epoch)
    for offset in range(base_offset, base_offset + count):
        builder.append(offset, timestamp_ms, None, bytes(10))
    return AppendedBatch(
        base_offset=base_offset,
        last_offset=base_offset + count - 1,
        epoch=epoch,
        timestamp_ms=timestamp_ms,
        data=builder.build(),
        is_control=False,
    )


def control_batch(base_offset: int, epoch: int) -> AppendedBatch:
    record = leader_change(1, [ReplicaKey(1)], [ReplicaKey(1)])
    data = build_control_batch([record], base_offset=base_offset, leader_epoch=epoch, timestamp_ms=1000)
    return AppendedBatch(
        base_offset=base_offset, last_offset=base_offset, epoch=epoch, timestamp_ms=1000, data=data, is_control=True
    )


def filled(directory: Path, batches: int = 5, **options: Any) -> MetadataLog:
    """Write batches of two records: offsets 0-1, 2-3 and so on."""
    log = MetadataLog(str(directory), **options)
    for index in range(batches):
        log.append(batch(2 * index, 2))
    return log


def offsets(log: MetadataLog, start: int = 0) -> list[int]:
    return [view.base_offset for view in log.batches(start)]


def snapshot(log: MetadataLog, offset: int, epoch: int = 1) -> OffsetAndEpoch:
    snapshot_id = OffsetAndEpoch(offset, epoch)
    raw = RawSnapshotWriter(log.directory, snapshot_id, "token")
    SnapshotWriter(raw, last_contained_log_timestamp=0, now_ms=0, serde=MetadataRecordSerde()).freeze()
    log.snapshots = list_snapshots(log.directory)
    return snapshot_id


def test_a_new_log_has_the_files_that_kafka_creates(tmp_path: Path) -> None:
    filled(tmp_path).close()
    names = sorted(os.listdir(tmp_path / METADATA_LOG_DIRECTORY))
    assert names == [
        "00000000000000000000.index",
        LOG,
        "00000000000000000000.timeindex",
        "00000000000000000010.snapshot",
        "leader-epoch-checkpoint",
        "partition.metadata",
        "recovery-point",  # This file is ours: Kafka ignores it.
    ]
    content = (tmp_path / METADATA_LOG_DIRECTORY / "partition.metadata").read_text()
    assert content == "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"


def test_a_read_returns_whole_batches_and_at_least_one(tmp_path: Path) -> None:
    log = filled(tmp_path)
    size = len(batch(0, 2).data)
    assert len(log.read(3, 1)) == size
    assert len(log.read(3, 3 * size)) == 3 * size
    assert len(log.read(3, 1 << 20)) == 4 * size
    assert log.read(10, 1 << 20) == b""


def test_a_read_stops_before_the_end_offset(tmp_path: Path) -> None:
    log = filled(tmp_path)
    assert [view.base_offset for view in log.batches(2, 6)] == [2, 4]


def test_an_append_must_follow_the_end(tmp_path: Path) -> None:
    with pytest.raises(InvariantViolated, match="does not follow the log end 10"):
        filled(tmp_path).append(batch(11))


def test_reading_continues_across_segments(tmp_path: Path) -> None:
    log = filled(tmp_path, 20, segment_bytes=300)
    assert len([name for name in os.listdir(log.directory) if name.endswith(".log")]) > 5
    assert offsets(log) == list(range(0, 40, 2))
    log.close()
    again = MetadataLog(str(tmp_path), segment_bytes=300)
    assert (offsets(again), again.end_offset) == (list(range(0, 40, 2)), 40)


def test_an_old_segment_is_rolled(tmp_path: Path) -> None:
    log = MetadataLog(str(tmp_path), segment_ms=1000)
    log.append(batch(0, timestamp_ms=1000))
    log.append(batch(1, timestamp_ms=2000))
    log.append(batch(2, timestamp_ms=2001))
    assert sorted(name for name in os.listdir(log.directory) if name.endswith(".log")) == [
        LOG,
        "00000000000000000002.log",
    ]


def test_a_new_segment_does_not_read_the_indexes_of_a_lost_one(tmp_path: Path) -> None:
    log = filled(tmp_path)
    for extension, data in ((".index", b"\x01" * 5), (".timeindex", b"\x01" * 25)):
        Path(log.directory, f"{log.end_offset:020d}{extension}").write_bytes(data)
    log.roll(1000)
    base_offset = log.end_offset
    log.append(batch(base_offset))
    log.close()
    assert offsets(MetadataLog(str(tmp_path)), base_offset) == [base_offset]


def test_truncation_removes_batches_and_their_epochs(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.append(control_batch(10, 3))
    log.truncate_to(6)
    assert (log.end_offset, log.epochs, offsets(log)) == (6, [(1, 0)], [0, 2, 4])
    log.append(control_batch(6, 4))
    log.flush()
    assert MetadataLog(str(tmp_path)).epochs == [(1, 0), (4, 6)]


def test_truncation_across_segments(tmp_path: Path) -> None:
    log = filled(tmp_path, 20, segment_bytes=300)
    log.truncate_to(4)
    assert offsets(log) == [0, 2]


def test_the_log_restarts_after_a_fetched_snapshot(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.restart_at(snapshot(log, 100, 7))
    assert (log.start_offset, log.end_offset, log.epochs) == (100, 100, [])
    log.append(batch(100, epoch=7))
    log.close()
    again = MetadataLog(str(tmp_path))
    assert (again.start_offset, again.end_offset, again.epochs, offsets(again, 100)) == (100, 101, [(7, 100)], [100])


def test_a_crash_between_a_fetched_snapshot_and_the_restart_of_the_log_is_repaired(tmp_path: Path) -> None:
    log = filled(tmp_path)
    snapshot(log, 100, 7)
    log.close()
    again = MetadataLog(str(tmp_path))
    assert (again.start_offset, again.end_offset) == (100, 100)


@pytest.mark.parametrize("snapshot_offset", [4, 6])
def test_a_longer_log_that_diverges_from_a_fetched_snapshot_is_dropped(tmp_path: Path, snapshot_offset: int) -> None:
    """A former leader fetched what the next one committed, and died before it dropped its own records."""
    log = filled(tmp_path)  # 0-9 in epoch 1.
    fetched = snapshot(log, snapshot_offset, 2)
    log.close()
    again = MetadataLog(str(tmp_path))
    assert (again.start_offset, again.end_offset, again.epochs) == (snapshot_offset, snapshot_offset, [])
    assert (again.last_epoch, again.latest_snapshot_id) == (2, fetched)


def test_older_records_that_follow_a_snapshot_are_dropped(tmp_path: Path) -> None:
    log = filled(tmp_path, 2)
    log.restart_at(snapshot(log, 100, 1))
    log.append(batch(100, 2))  # In epoch 1.
    log.flush()
    os.rename(
        tmp_path / METADATA_LOG_DIRECTORY / "00000000000000000100-0000000001.checkpoint",
        tmp_path / METADATA_LOG_DIRECTORY / "00000000000000000100-0000000003.checkpoint",
    )
    log.close()
    again = MetadataLog(str(tmp_path))
    assert (again.start_offset, again.end_offset, again.last_epoch) == (100, 100, 3)


def test_a_log_that_holds_the_records_of_its_snapshot_is_kept(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.append(control_batch(10, 2))
    snapshot(log, 6, 1)
    snapshot(log, 11, 2)
    log.append(control_batch(11, 4))
    log.close()
    again = MetadataLog(str(tmp_path))
    assert (again.start_offset, again.end_offset, again.epochs) == (0, 12, [(1, 0), (2, 10), (4, 11)])


def test_a_log_that_restarts_after_a_snapshot_has_no_older_snapshots(tmp_path: Path) -> None:
    log = filled(tmp_path)
    snapshot(log, 4)
    fetched = snapshot(log, 100, 7)
    log.restart_at(fetched)
    assert list(log.snapshots) == list(list_snapshots(log.directory)) == [fetched]


def test_deleting_the_beginning_removes_whole_segments_only(tmp_path: Path) -> None:
    log = filled(tmp_path, 20, segment_bytes=300)
    log.delete_before(17)
    assert log.start_offset == 17
    assert min(int(name[:20]) for name in os.listdir(log.directory) if name.endswith(".log")) <= 17
    assert log.epochs == [(1, 17)]
    assert log.read(16, 100) == b""


def test_a_log_that_ends_with_its_snapshot_knows_its_last_epoch_when_opened(tmp_path: Path) -> None:
    """Otherwise a voter would claim epoch 0, grant any vote, and be directed to truncate committed records."""
    log = filled(tmp_path)
    snapshot_id = snapshot(log, 10)
    log.delete_before(10)
    log.close()
    again = MetadataLog(str(tmp_path))
    assert (again.start_offset, again.end_offset, again.epochs) == (10, 10, [(1, 10)])
    assert again.latest_snapshot_id == snapshot_id


def test_without_the_epochs_before_its_snapshot_the_log_starts_after_it(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.append(batch(10, 2, epoch=2))
    log.append(batch(12, 2, epoch=2))
    snapshot(log, 4)
    snapshot_id = snapshot(log, 12, epoch=2)
    log.close()
    (tmp_path / METADATA_LOG_DIRECTORY / "leader-epoch-checkpoint").write_text("0\n1\n1 0\n")
    again = MetadataLog(str(tmp_path))
    assert (again.start_offset, again.end_offset, again.epochs) == (12, 14, [(2, 12)])
    assert list(again.snapshots) == [snapshot_id]
    assert list(list_snapshots(again.directory)) == [snapshot_id]


def test_snapshots_before_the_start_of_the_log_are_removed_when_it_is_opened(tmp_path: Path) -> None:
    """Power failed during their removal. A leader would use their epochs, and send followers to snapshots they have."""
    log = filled(tmp_path, 10)
    log.roll(1000)
    for index in range(10, 20):
        log.append(batch(2 * index, 2))
    latest = snapshot(log, 20)
    log.delete_before(20)
    snapshot(log, 0, epoch=0)
    snapshot(log, 4)
    log.close()
    (tmp_path / METADATA_LOG_DIRECTORY / "leader-epoch-checkpoint").write_text("0\n1\n1 0\n")
    again = MetadataLog(str(tmp_path))
    assert (again.start_offset, again.end_offset) == (20, 40)
    assert list(again.snapshots) == list(list_snapshots(again.directory)) == [latest]


def test_the_bootstrap_snapshot_stays_while_the_log_begins_at_0(tmp_path: Path) -> None:
    log = filled(tmp_path)
    bootstrap = snapshot(log, 0, epoch=0)
    log.close()
    assert list(MetadataLog(str(tmp_path)).snapshots) == [bootstrap]


def test_records_of_a_killed_process_are_flushed_before_they_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The power may fail after the second start: the records that a voter acknowledged must then still exist."""
    filled(tmp_path)
    synced: list[int] = []
    real = os.fdatasync

    def fdatasync(fd: int) -> None:
        synced.append(os.fstat(fd).st_size)
        real(fd)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    again = MetadataLog(str(tmp_path))
    assert again.end_offset == 10
    assert again.size_bytes in synced


def test_control_batches_after_the_newest_snapshot_are_found_when_opening(tmp_path: Path) -> None:
    log = MetadataLog(str(tmp_path))
    log.append(control_batch(0, 1))
    log.append(batch(1, 9))
    log.append(control_batch(10, 2))
    snapshot(log, 10)
    log.close()
    assert MetadataLog(str(tmp_path)).control_batch_offsets == [10]


def test_a_flush_covers_earlier_appends(tmp_path: Path) -> None:
    log = filled(tmp_path)
    flush = log.start_flush()
    log.append(batch(10))
    assert flush.end_offset == 10
    assert log.has_unflushed
    flush.run()
    log.flush()
    assert not log.has_unflushed


def test_opening_reads_only_batches_after_the_newest_snapshot(tmp_path: Path) -> None:
    log = filled(tmp_path, 300)
    snapshot(log, 500)
    log.close()
    path = tmp_path / METADATA_LOG_DIRECTORY / LOG
    damaged = bytearray(path.read_bytes())
    damaged[70] ^= 0xFF  # In the first batch, which the snapshot contains.
    path.write_bytes(damaged)
    again = MetadataLog(str(tmp_path))
    assert (again.end_offset, again.recovered_from) == (600, None)


@pytest.mark.parametrize("name", ["00000000000000000000.index", "00000000000000000000.timeindex"])
def test_a_missing_or_damaged_index_is_rebuilt(tmp_path: Path, name: str) -> None:
    filled(tmp_path, 300).close()
    path = tmp_path / METADATA_LOG_DIRECTORY / name
    before = path.read_bytes()
    for content in (None, b"\xff" * len(before)):
        path.unlink() if content is None else path.write_bytes(content)
        again = MetadataLog(str(tmp_path))
        assert (again.end_offset, again.recovered_from) == (600, None)
        again.close()
        assert path.read_bytes() == before


def test_an_index_from_before_a_truncation_loses_nothing(tmp_path: Path) -> None:
    """It was never synced: after a power failure it may be outdated, and point into the middle of a batch."""
    log = filled(tmp_path, 300)
    log.close()
    index = tmp_path / METADATA_LOG_DIRECTORY / "00000000000000000000.index"
    before = index.read_bytes()
    log = MetadataLog(str(tmp_path))
    log.truncate_to(0)
    for offset in range(0, 600, 3):
        log.append(batch(offset, 3, epoch=2))
    snapshot(log, 300, epoch=2)
    log.close()
    index.write_bytes(before)
    again = MetadataLog(str(tmp_path))
    assert (again.end_offset, again.recovered_from) == (600, None)


@pytest.mark.parametrize("chunk", [100, 1 << 20])
def test_records_after_damage_that_a_snapshot_covers_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    """Also after a follower requested the unreadable records."""
    monkeypatch.setattr(segment_module, "_WALK_CHUNK", chunk)
    log = filled(tmp_path, 300)
    snapshot(log, 600)
    log.close()
    path = tmp_path / METADATA_LOG_DIRECTORY / "00000000000000000000.log"
    content = bytearray(path.read_bytes())
    content[1000:1512] = bytes(512)
    path.write_bytes(content)
    again = MetadataLog(str(tmp_path))
    assert (again.end_offset, again.recovered_from) == (600, None)
    again.append(batch(600, 3))
    with pytest.raises(DamagedLogError, match="no batch"):
        again.read(30, 1 << 20)
    assert [view.base_offset for view in again.batches(600)] == [600]


def test_a_damaged_index_of_an_old_segment_is_rebuilt_too(tmp_path: Path) -> None:
    log = filled(tmp_path, 600, segment_bytes=20_000)
    snapshot(log, 1000)
    log.close()
    path = tmp_path / METADATA_LOG_DIRECTORY / "00000000000000000000.index"
    before = path.read_bytes()
    path.write_bytes(b"\xff" * len(before))
    again = MetadataLog(str(tmp_path), segment_bytes=20_000)
    assert again.end_offset == 1200
    again.close()
    assert path.read_bytes() == before
