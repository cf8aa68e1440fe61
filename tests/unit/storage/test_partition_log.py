"""A partition log as its leader uses it: appending, rolling, reading, moving its start."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.topic_config import TopicConfig
from barnabas.protocol.record_batch import BatchView, TimestampType, iter_batches
from barnabas.storage.errors import StorageError
from barnabas.storage.file_pool import FilePool
from barnabas.storage.partition_log import PartitionLog
from barnabas.storage.segment import Segment
from tests.unit.storage.log_driver import (
    NOW_MS,
    all_records,
    append,
    batch,
    config,
    new_log,
    offsets_and_values,
    reload,
)


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    return new_log(tmp_path)


def test_a_new_log_is_a_directory_with_the_topics_id_and_nothing_else(log: PartitionLog) -> None:
    assert os.listdir(log.directory) == ["partition.metadata"]
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark, log.last_stable_offset) == (0, 0, 0, 0)
    assert log.read(0, 1000).records == b""


def test_appended_batches_receive_the_next_offsets_and_the_leaders_epoch(log: PartitionLog) -> None:
    assert append(log, batch(b"a", b"b"), epoch=3)[:2] == (0, 1)
    assert append(log, batch(b"c"), epoch=4)[:2] == (2, 2)
    views = list(iter_batches(log.read(0, 1000).records))
    assert [(view.base_offset, view.last_offset, view.leader_epoch) for view in views] == [(0, 1, 3), (2, 2, 4)]
    assert offsets_and_values(log) == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_the_producers_bytes_after_the_stamp_are_stored_unchanged(log: PartitionLog) -> None:
    sent = batch(b"a", b"b")
    append(log, sent)
    assert bytes(log.read(0, 1000).records)[16:] == sent[16:]


def test_an_appended_record_can_be_read_from_the_file_immediately(log: PartitionLog) -> None:
    append(log, batch(b"a"))
    assert Path(log.active_segment.path).stat().st_size == log.size_bytes() == log.active_segment.size


def test_a_fetch_begins_with_the_whole_batch_that_holds_its_offset(log: PartitionLog) -> None:
    append(log, batch(b"a", b"b", b"c"))
    append(log, batch(b"d"))
    assert BatchView(log.read(2, 1000).records).base_offset == 0
    assert BatchView(log.read(3, 1000).records).base_offset == 3


def test_a_fetch_is_limited_to_its_size_but_returns_the_whole_first_batch(log: PartitionLog) -> None:
    sent = batch(b"a" * 100)
    append(log, sent)
    append(log, sent)
    size = len(sent)
    assert len(log.read(0, size + 10).records) == size + 10
    assert log.read(0, size - 1).records == b""
    assert len(log.read(0, size - 1, min_one_message=True).records) == size
    assert len(log.read(0, 0, min_one_message=True).records) == size


def test_a_fetch_stops_at_the_offset_it_may_read_up_to(log: PartitionLog) -> None:
    for value in (b"a", b"b", b"c"):
        append(log, batch(value))
    views = list(iter_batches(log.read(0, 1000, max_offset=2).records))
    assert [view.base_offset for view in views] == [0, 1]
    assert log.read(2, 1000, max_offset=2).records == b""
    assert log.read(3, 1000, max_offset=2).records == b""


def test_a_fetch_outside_of_the_log_is_refused(log: PartitionLog) -> None:
    append(log, batch(b"a"))
    assert log.read(1, 1000).records == b""
    for offset in (-1, 2):
        with pytest.raises(ApiException) as caught:
            log.read(offset, 1000)
        assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_large_fetches_stay_valid_when_the_log_is_truncated_under_them(tmp_path: Path) -> None:
    log = new_log(tmp_path, config(max_message_bytes=1 << 20))
    for _ in range(4):
        append(log, batch(os.urandom(100_000)))
    fetched = log.read(0, 1 << 20).records
    before = bytes(fetched)
    log.truncate_to(1, now_ms=NOW_MS)
    assert bytes(fetched) == before
    assert len(list(iter_batches(fetched))) == 4
    assert log.log_end_offset == 1


def test_a_segment_is_rolled_when_the_next_batch_does_not_fit(tmp_path: Path) -> None:
    sent = batch(b"x" * 100)
    log = new_log(tmp_path, config(segment_bytes=3 * len(sent)))
    for _ in range(7):
        append(log, sent)
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6]
    assert [segment.size for segment in log.segments] == [3 * len(sent), 3 * len(sent), len(sent)]
    assert len(all_records(log)) == 7


def test_a_batch_larger_than_a_segment_is_refused(tmp_path: Path) -> None:
    sent = batch(b"x" * 200)
    log = new_log(tmp_path, config(segment_bytes=len(sent)))
    append(log, sent)
    append(log, sent)
    assert [segment.base_offset for segment in log.segments] == [0, 1]
    with pytest.raises(ApiException) as caught:
        append(log, batch(b"x" * 201))
    assert caught.value.code == ErrorCode.RECORD_LIST_TOO_LARGE


def test_a_segment_is_rolled_when_its_first_record_is_too_old(tmp_path: Path) -> None:
    log = new_log(tmp_path, config(segment_ms=1000))
    append(log, batch(b"a", timestamp=NOW_MS))
    append(log, batch(b"b", timestamp=NOW_MS + 1000))
    append(log, batch(b"c", timestamp=NOW_MS + 1001))
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_a_compacted_log_rolls_early_enough_for_its_maximum_compaction_lag(tmp_path: Path) -> None:
    log = new_log(tmp_path, config(cleanup_policy=["compact"], max_compaction_lag_ms=500))
    append(log, batch(b"a", timestamp=NOW_MS))
    append(log, batch(b"b", timestamp=NOW_MS + 501))
    assert [segment.base_offset for segment in log.segments] == [0, 1]


def test_an_index_entry_is_written_about_every_interval(tmp_path: Path) -> None:
    log = new_log(tmp_path, config(index_interval_bytes=500))
    sent = batch(b"x" * 140, timestamp=NOW_MS)
    for index in range(30):
        append(log, batch(b"x" * 140, timestamp=NOW_MS + index))
    segment = log.active_segment
    per_entry = 500 // len(sent) + 1
    assert segment.offset_index.count == segment.time_index.count == (30 - 1) // per_entry
    assert segment.offset_index.lookup(29) % len(sent) == 0


def test_reading_from_every_offset_finds_the_right_batch_with_and_without_index(tmp_path: Path) -> None:
    for interval in (1, 300, 1 << 20):
        log = new_log(tmp_path / str(interval), config(segment_bytes=2000, index_interval_bytes=interval))
        for index in range(60):
            append(log, batch(*[b"%d" % index] * (index % 3 + 1)))
        for offset in range(log.log_end_offset):
            view = BatchView(log.read(offset, 1 << 20, min_one_message=True).records)
            assert view.base_offset <= offset <= view.last_offset


def test_a_reader_at_the_end_finds_the_last_batch_without_a_search(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for index in range(40):
        append(log, batch(b"%d" % index, b"x"))
    walked: list[int] = []
    walk = Segment.walk

    def counted(segment: Segment, position: int = 0) -> Iterator[tuple[int, int, int, int]]:
        for found in walk(segment, position):
            walked.append(found[2])
            yield found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Segment, "walk", counted)
        assert log.active_segment.find(79) == log.active_segment.find(78)
        assert walked == [78, 78]
        assert log.active_segment.find(80) is None
        found = log.active_segment.find(77)
    assert found is not None
    assert found[2:] == (76, 77)


def test_the_last_batch_is_found_after_a_truncation_and_further_appends(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for index in range(10):
        append(log, batch(b"%d" % index))
    log.truncate_to(4, now_ms=NOW_MS)
    assert [log.active_segment.find(offset) is None for offset in (3, 4)] == [False, True]
    for count in (1, 2, 3):
        append(log, batch(*[b"again"] * count))
        found = log.active_segment.find(log.log_end_offset - 1)
        assert found is not None
        assert found[2:] == (log.log_end_offset - count, log.log_end_offset - 1)
    assert [value for _, value in offsets_and_values(log)] == [b"0", b"1", b"2", b"3", *[b"again"] * 6]


def test_log_append_time_replaces_the_producers_timestamps(tmp_path: Path) -> None:
    log = new_log(tmp_path, config(message_timestamp_type="LogAppendTime"))
    info = append(log, batch(b"a", b"b", timestamp=5), now_ms=NOW_MS + 7)
    assert info.log_append_time_ms == NOW_MS + 7
    view = BatchView(log.read(0, 1000).records)
    view.ensure_valid()
    assert view.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert {record.timestamp for record in view.records()} == {NOW_MS + 7}
    assert log.active_segment.max_timestamp == NOW_MS + 7


def test_refused_batches_leave_no_trace(log: PartitionLog) -> None:
    damaged = bytearray(batch(b"abc"))
    damaged[-2] ^= 1
    too_large = batch(b"x" * 2_000_000)
    for sent, code in ((bytes(damaged), ErrorCode.CORRUPT_MESSAGE), (too_large, ErrorCode.MESSAGE_TOO_LARGE)):
        with pytest.raises(ApiException) as caught:
            append(log, sent)
        assert caught.value.code == code
    assert log.log_end_offset == 0
    assert os.listdir(log.directory) == ["partition.metadata"]


def test_a_compacted_topic_refuses_records_without_a_key(tmp_path: Path) -> None:
    log = new_log(tmp_path, config(cleanup_policy=["compact"]))
    with pytest.raises(ApiException) as caught:
        append(log, batch(b"a", keys=[None]))
    assert caught.value.code == ErrorCode.INVALID_RECORD


def test_settings_may_change_between_two_appends(log: PartitionLog) -> None:
    append(log, batch(b"a" * 500))
    log.config = config(max_message_bytes=100)
    with pytest.raises(ApiException):
        append(log, batch(b"a" * 500))
    log.config = TopicConfig()
    append(log, batch(b"a" * 500))
    assert log.log_end_offset == 2


def test_a_failed_write_is_truncated_and_the_log_continues(log: PartitionLog, monkeypatch: pytest.MonkeyPatch) -> None:
    append(log, batch(b"a"))
    size = log.size_bytes()

    def disk_full(fd: int, buffers: list[bytes], position: int) -> int:
        os.pwrite(fd, b"half of it", position)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", disk_full)
        with pytest.raises(StorageError):
            append(log, batch(b"b"))
    assert Path(log.active_segment.path).stat().st_size == size
    append(log, batch(b"c"))
    assert offsets_and_values(log) == [(0, b"a"), (1, b"c")]


def test_a_short_write_of_the_kernel_is_completed(log: PartitionLog, monkeypatch: pytest.MonkeyPatch) -> None:
    def only_a_part(fd: int, buffers: list[bytes], position: int) -> int:
        return os.pwrite(fd, b"".join(buffers)[:20], position)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", only_a_part)
        append(log, batch(b"abc"))
    append(log, batch(b"d"))
    assert offsets_and_values(log) == [(0, b"abc"), (1, b"d")]


def test_the_high_watermark_only_rises_and_never_above_the_logs_end(log: PartitionLog) -> None:
    log.append_as_leader(batch(b"a", b"b"), leader_epoch=0, now_ms=NOW_MS)
    assert log.high_watermark == 0
    assert log.maybe_advance_high_watermark(1)
    assert not log.maybe_advance_high_watermark(0)
    assert log.maybe_advance_high_watermark(99)
    assert log.high_watermark == 2


def test_a_past_leadership_removes_no_epoch(log: PartitionLog) -> None:
    """A starting broker reads in the metadata log its past leaderships. Its log knows the epochs that followed."""
    append(log, batch(b"a"), epoch=1)
    append(log, batch(b"b"), epoch=4)
    for epoch in (0, 1, 3):
        log.assign_epoch_start(epoch)
    assert log.epochs.entries == [(1, 0), (4, 1)]
    log.assign_epoch_start(5)
    assert log.epochs.entries == [(1, 0), (4, 1), (5, 2)]


def test_the_end_of_an_epoch_is_where_the_next_one_began(log: PartitionLog) -> None:
    append(log, batch(b"a"), epoch=2)
    append(log, batch(b"b", b"c"), epoch=5)
    assert log.end_offset_for_epoch(2) == (2, 1)
    assert log.end_offset_for_epoch(3) == (2, 1)
    assert log.end_offset_for_epoch(5) == (5, 3)
    assert log.end_offset_for_epoch(1) == (1, 0)
    assert log.end_offset_for_epoch(6) == (-1, -1)


def test_deleting_records_moves_the_start_and_drops_whole_segments_below_it(tmp_path: Path) -> None:
    sent = batch(b"x" * 50)
    log = new_log(tmp_path, config(segment_bytes=2 * len(sent)))
    for _ in range(5):
        append(log, sent)
    assert log.delete_records_before(3, now_ms=NOW_MS) == 3
    assert log.log_start_offset == 3
    assert [segment.base_offset for segment in log.segments] == [2, 4]
    assert [record.offset for record in all_records(log)] == [3, 4]
    with pytest.raises(ApiException) as caught:
        log.read(2, 1000)
    assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_deleting_records_up_to_minus_one_means_the_high_watermark(log: PartitionLog) -> None:
    append(log, batch(b"a", b"b"))
    log.append_as_leader(batch(b"c"), leader_epoch=0, now_ms=NOW_MS)
    assert log.delete_records_before(-1, now_ms=NOW_MS) == 2


def test_records_above_the_high_watermark_and_of_compacted_topics_are_not_deleted(log: PartitionLog) -> None:
    append(log, batch(b"a"))
    with pytest.raises(ApiException) as caught:
        log.delete_records_before(2, now_ms=NOW_MS)
    assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    log.config = config(cleanup_policy=["compact"])
    with pytest.raises(ApiException) as caught:
        log.delete_records_before(1, now_ms=NOW_MS)
    assert caught.value.code == ErrorCode.POLICY_VIOLATION


def test_truncation_removes_whole_batches_and_their_state(tmp_path: Path) -> None:
    sent = batch(b"x" * 50, b"y" * 50)
    log = new_log(tmp_path, config(segment_bytes=2 * len(sent), index_interval_bytes=1))
    for epoch in range(6):
        append(log, sent, epoch=epoch)
    log.truncate_to(5, now_ms=NOW_MS)
    assert log.log_end_offset == 4
    assert log.high_watermark == 4
    assert log.latest_epoch == 1
    assert len(all_records(log)) == 4
    append(log, sent, epoch=9)
    assert log.log_end_offset == 6
    assert len(all_records(log)) == 6


@pytest.mark.parametrize("calls", range(12))
@pytest.mark.parametrize("offset", [0, 1, 2, 5])
def test_a_truncation_that_a_crash_interrupts_leaves_no_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offset: int, calls: int
) -> None:
    """Records after a gap are records that were to be removed."""
    sent = batch(b"x" * 50, b"y" * 50)
    log = new_log(tmp_path, config(segment_bytes=len(sent), index_interval_bytes=1))
    for _ in range(4):
        append(log, sent)
    left = iter(range(calls))

    def counted(call: Callable[..., None]) -> Callable[..., None]:
        def made(*arguments: object) -> None:
            if next(left, None) is None:
                raise OSError(5, "the process ends here")
            call(*arguments)

        return made

    with monkeypatch.context() as patch, suppress(OSError):
        for name in ("rename", "unlink", "ftruncate", "truncate"):
            patch.setattr(os, name, counted(getattr(os, name)))
        log.truncate_to(offset, now_ms=NOW_MS)
    opened, _ = reload(log.directory, is_same_boot=True)
    offsets = [record.offset for record in all_records(opened)]
    assert offsets == list(range(len(offsets)))
    assert opened.damaged == []


def test_an_epoch_without_records_at_the_log_end_is_forgotten(tmp_path: Path) -> None:
    """Its leader died before it wrote, and another one led from there on: no other replica knows this epoch."""
    log = new_log(tmp_path)
    append(log, batch(b"a"), epoch=3)
    log.assign_epoch_start(4)
    log.truncate_to(1, now_ms=NOW_MS)
    assert (log.log_end_offset, log.latest_epoch) == (1, 3)


def test_an_epoch_without_records_is_forgotten_when_an_older_record_is_copied_at_its_start(tmp_path: Path) -> None:
    """The broker led epoch 1, lost its last records in a power failure, and follows the leader that has them."""
    leader, log = new_log(tmp_path / "leader"), new_log(tmp_path / "follower")
    for value, epoch in ((b"a", 0), (b"b", 0), (b"c", 1)):
        append(leader, batch(value), epoch=epoch)
    append(log, batch(b"a"), epoch=0)
    log.assign_epoch_start(1)
    log.append_as_follower(leader.read(1, 100).records, now_ms=NOW_MS)
    assert log.epochs.entries == [(0, 0)]
    log.append_as_follower(leader.read(2, 100).records, now_ms=NOW_MS)
    assert log.epochs.entries == leader.epochs.entries == [(0, 0), (1, 2)]


@pytest.mark.parametrize("offset", [0, 1, 2, 3, 5])
def test_a_truncation_is_durable_before_anything_is_appended(
    tmp_path: Path, offset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a power failure may restore an old segment beside the new ones of a later epoch."""
    sent = batch(b"x" * 50)
    log = new_log(tmp_path, config(segment_bytes=2 * len(sent)))
    for _ in range(6):
        append(log, sent)
    log.flush(NOW_MS)
    calls: list[str] = []

    def recorded(name: str, call: Callable[..., None]) -> Callable[..., None]:
        def record(target: Any, *arguments: Any) -> None:
            path = os.readlink(f"/proc/self/fd/{target}") if isinstance(target, int) else str(target)
            calls.append(f"{name} {os.path.relpath(path, log.directory)}")
            call(target, *arguments)

        return record

    for name in ("fsync", "rename", "unlink"):
        monkeypatch.setattr(os, name, recorded(name, getattr(os, name)))
    log.truncate_to(offset, now_ms=NOW_MS)
    changes = [index for index, call in enumerate(calls) if call.startswith(("rename", "unlink")) and ".log" in call]
    assert changes
    assert "fsync ." in calls[changes[-1] :]
    renamed = [call.split()[1] for call in calls if call.startswith("rename") and call.endswith(".cleaned")]
    for name in renamed:
        assert calls.index(f"fsync {name}") < calls.index(f"rename {name}")


def test_truncating_below_the_first_segment_restarts_the_log(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch(b"a"))
    log.truncate_fully_and_start_at(40, now_ms=NOW_MS)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (40, 40, 40)
    assert append(log, batch(b"b")).first_offset == 40


def test_a_follower_keeps_the_leaders_offsets_and_epochs(tmp_path: Path) -> None:
    leader = new_log(tmp_path / "leader")
    for epoch, value in ((1, b"a"), (1, b"b"), (4, b"c")):
        append(leader, batch(value), epoch=epoch)
    follower = new_log(tmp_path / "follower")
    follower.append_as_follower(leader.read(0, 1000).records, now_ms=NOW_MS)
    assert offsets_and_values(follower) == offsets_and_values(leader)
    assert follower.epochs.entries == leader.epochs.entries
    with pytest.raises(ApiException):
        follower.append_as_follower(leader.read(0, 1000).records, now_ms=NOW_MS)


def test_descriptors_stay_bounded_however_many_logs_are_in_use(tmp_path: Path) -> None:
    pool = FilePool(files_max=10)
    logs = [new_log(tmp_path / str(index), pool=pool) for index in range(50)]
    for round_ in range(3):
        for log in logs:
            append(log, batch(b"%d" % round_))
        assert len(pool) <= 10
    assert all([value for _, value in offsets_and_values(log)] == [b"0", b"1", b"2"] for log in logs)
    assert len(pool) <= 10


def test_flushing_makes_the_recovery_point_the_logs_end(tmp_path: Path) -> None:
    log = new_log(tmp_path, config(flush_messages=3))
    append(log, batch(b"a", b"b"))
    assert log.recovery_point == 0
    append(log, batch(b"c"))
    assert log.recovery_point == 3
    append(log, batch(b"d"))
    assert log.flush(NOW_MS) == log.recovery_point == 4


def test_rolled_segments_can_be_flushed_without_the_active_one(tmp_path: Path) -> None:
    sent = batch(b"x" * 50)
    log = new_log(tmp_path, config(segment_bytes=2 * len(sent)))
    for _ in range(5):
        append(log, sent)
    assert log.flush_rolled()
    assert log.recovery_point == 4
    assert not log.flush_rolled()


def test_a_log_truncated_during_a_flush_is_durable_only_up_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = batch(b"x" * 50)
    log = new_log(tmp_path, config(segment_bytes=2 * len(sent)))
    for _ in range(5):
        append(log, sent)
    monkeypatch.setattr(PartitionLog, "_flush_segments", lambda self, _: self.truncate_to(3, now_ms=NOW_MS))
    assert not log.flush_rolled()
    assert (log.log_end_offset, log.recovery_point) == (3, 0)


def test_a_follower_skips_partial_batches_and_those_of_a_later_epoch(tmp_path: Path) -> None:
    leader = new_log(tmp_path / "leader")
    for epoch in (1, 1, 4):
        append(leader, batch(b"abcdef"), epoch=epoch)
    records = bytes(leader.read(0, 1000).records)
    size = len(records) // 3
    follower = new_log(tmp_path / "follower")
    assert follower.append_as_follower(records[: size + 70], now_ms=NOW_MS) == size
    assert follower.append_as_follower(records[size:], now_ms=NOW_MS, leader_epoch=3) == size
    assert (follower.log_end_offset, follower.latest_epoch) == (2, 1)
    assert follower.append_as_follower(records[2 * size : -1], now_ms=NOW_MS) == 0


def test_a_follower_writes_what_precedes_a_damaged_batch(tmp_path: Path) -> None:
    leader = new_log(tmp_path / "leader")
    append(leader, batch(b"a"))
    append(leader, batch(b"b"))
    records = bytearray(leader.read(0, 1000).records)
    records[-1] ^= 1
    follower = new_log(tmp_path / "follower")
    with pytest.raises(ApiException, match="checksum"):
        follower.append_as_follower(records, now_ms=NOW_MS)
    assert offsets_and_values(follower) == offsets_and_values(leader)[:1]


def test_an_empty_follower_that_starts_inside_a_batch_receives_all_of_it(tmp_path: Path) -> None:
    leader = new_log(tmp_path / "leader")
    append(leader, batch(b"a", b"b", b"c"))
    append(leader, batch(b"d"))
    follower = new_log(tmp_path / "follower")
    follower.truncate_fully_and_start_at(2, now_ms=NOW_MS)
    follower.append_as_follower(leader.read(2, 1000).records, now_ms=NOW_MS)
    assert (follower.log_start_offset, follower.log_end_offset, follower.high_watermark) == (2, 4, 2)
    assert bytes(follower.read(2, 1000).records) == bytes(leader.read(0, 1000).records)


def test_a_follower_flushes_as_often_as_its_topic_requires(tmp_path: Path) -> None:
    leader = new_log(tmp_path / "leader")
    append(leader, batch(b"a", b"b", b"c"))
    follower = new_log(tmp_path / "follower", config(flush_messages=3))
    follower.append_as_follower(leader.read(0, 1000).records, now_ms=NOW_MS)
    assert follower.recovery_point == 3


def test_a_log_truncated_below_its_start_starts_at_its_end(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for value in (b"a", b"b", b"c", b"d"):
        append(log, batch(value))
    log.maybe_advance_high_watermark(4)
    log.delete_records_before(3, now_ms=NOW_MS)
    log.truncate_to(2, now_ms=NOW_MS)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (2, 2, 2)
    assert append(log, batch(b"e")).first_offset == 2


def test_a_restarted_log_forgets_its_previous_state(log: PartitionLog) -> None:
    """Epochs of deleted records would mislead a follower about truncation, and producers about duplicates."""
    append(log, batch(b"x", producer_id=7, producer_epoch=0, base_sequence=0), epoch=3)
    log.roll(NOW_MS)
    append(log, batch(b"y"), epoch=4)
    log.truncate_fully_and_start_at(100, now_ms=NOW_MS)
    assert log.epochs.entries == []
    assert not log.has_producers
    assert (log.log_start_offset, log.log_end_offset) == (100, 100)
