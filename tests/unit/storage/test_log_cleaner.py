"""Compaction: which records stay, which are removed and when, and the state after a crash in the middle."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.common.topic_partition import TopicPartition
from barnabas.protocol.compression import Compression
from barnabas.protocol.record_batch import BatchView, iter_batches
from barnabas.storage.errors import CorruptSegmentError
from barnabas.storage.log_cleaner import CleanerStats, CleaningAborted, LogCleaner, clean_log, cleanable_range
from barnabas.storage.partition_log import PartitionLog
from tests.unit.storage.log_driver import (
    NOW_MS,
    TP,
    all_records,
    append,
    batch,
    config,
    end_transaction,
    killed,
    new_log,
    offsets_and_values,
    reload,
)

HOUR_MS = 3_600_000
COMPACT = config(cleanup_policy=["compact"], delete_retention_ms=HOUR_MS, index_interval_bytes=200)


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    return new_log(tmp_path / "log", COMPACT)


def put(log: PartitionLog, *pairs: tuple[bytes, bytes | None], **header: object) -> None:
    append(log, batch(*[value for _, value in pairs], keys=[key for key, _ in pairs], **header))  # type: ignore[arg-type]


def clean(log: PartitionLog, *, first_dirty: int | None = None, now_ms: int = NOW_MS, **options: Any) -> CleanerStats:
    """Roll, then compact everything but the new active segment."""
    log.roll(now_ms)
    log.maybe_advance_high_watermark(log.log_end_offset)
    return clean_log(log, cleanable_range(log, first_dirty, now_ms), now_ms=now_ms, **options)


def contents(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in all_records(log)]


def batches(log: PartitionLog) -> list[tuple[int, int, int]]:
    """(base offset, last offset, records) of each batch."""
    fetched = b"".join(bytes(segment.read(0, segment.size)) for segment in log.segments)
    return [(view.base_offset, view.last_offset, view.count) for view in iter_batches(fetched)]


# Retained records


def test_only_the_last_value_of_each_key_stays_at_its_offset(log: PartitionLog) -> None:
    put(log, (b"a", b"1"), (b"b", b"1"), (b"c", b"1"))
    put(log, (b"a", b"2"))
    put(log, (b"b", b"2"), (b"a", b"3"))
    clean(log)
    assert contents(log) == [(2, b"c", b"1"), (4, b"b", b"2"), (5, b"a", b"3")]
    assert batches(log) == [(0, 2, 1), (4, 5, 2)]
    assert log.log_end_offset == 6


def test_the_active_segment_is_neither_changed_nor_read(log: PartitionLog) -> None:
    put(log, (b"a", b"1"))
    log.roll(NOW_MS)
    put(log, (b"a", b"2"))
    cleanable = cleanable_range(log, None, NOW_MS)
    assert (cleanable.first_dirty, cleanable.end) == (0, 1)
    clean_log(log, cleanable, now_ms=NOW_MS)
    assert contents(log) == [(0, b"a", b"1"), (1, b"a", b"2")]


def test_batches_without_removed_records_are_copied_unchanged(log: PartitionLog) -> None:
    put(log, (b"a", b"1"), (b"b", b"1"))
    before = bytes(log.read(0, 1000).records)
    clean(log)
    assert bytes(log.read(0, 1000).records) == before


@pytest.mark.parametrize("compression", list(Compression))
def test_a_smaller_batch_keeps_its_compression_and_is_valid(log: PartitionLog, compression: Compression) -> None:
    put(log, (b"a", b"1" * 500), (b"b", b"1" * 500), (b"c", b"1"), compression=compression)
    put(log, (b"b", b"2"), compression=compression)
    clean(log)
    view = BatchView(log.read(0, 1 << 20).records)
    view.ensure_valid()
    assert (view.compression, view.count, view.base_offset, view.last_offset) == (compression, 2, 0, 2)
    assert [record.value for record in view.records()] == [b"1" * 500, b"1"]


def test_the_greatest_timestamp_of_a_batch_is_that_of_its_remaining_records(log: PartitionLog) -> None:
    stamps = [NOW_MS + 1, NOW_MS + 9, NOW_MS + 5]
    append(log, batch(b"1", b"1", b"1", keys=[b"a", b"b", b"c"], timestamps=stamps))
    put(log, (b"b", b"2"))
    clean(log)
    assert BatchView(log.read(0, 1 << 20).records).max_timestamp == NOW_MS + 5
    assert [record.timestamp for record in all_records(log)] == [NOW_MS + 1, NOW_MS + 5, NOW_MS]


def test_offsets_of_removed_records_are_skipped_by_readers(log: PartitionLog) -> None:
    for value in (b"1", b"2", b"3"):
        put(log, (b"a", value))
    put(log, (b"b", b"1"))
    clean(log)
    for offset in (0, 1, 2):
        assert BatchView(log.read(offset, 1000, min_one_message=True).records).base_offset == 2


def test_segments_are_merged_while_they_fit_into_one(tmp_path: Path) -> None:
    sent_size = len(batch(b"x" * 100))
    log = new_log(tmp_path, config(cleanup_policy=["compact"], segment_bytes=4 * sent_size))
    for index in range(24):
        put(log, (b"key %02d" % (index % 2), b"x" * 90))
    assert len(log.segments) >= 5
    stats = clean(log)
    assert [record.key for record in all_records(log)] == [b"key 00", b"key 01"]
    before = len(log.segments)
    clean(log, first_dirty=stats.end_offset)
    assert before > 2
    assert len(log.segments) == 2
    assert log.segments[0].base_offset == 0


def test_segments_without_remaining_records_have_no_empty_batches(tmp_path: Path) -> None:
    """Fetches do not cross segments: librdkafka takes ten responses without a record for a too large message."""
    log = new_log(tmp_path, config(cleanup_policy=["compact"], segment_bytes=300))
    for index in range(20):
        put(log, (b"a", b"%02d" % index * 50))
    stats = clean(log)
    assert batches(log) == [(19, 19, 1)]
    assert log.read(0, 1000).records == log.read(19, 1000).records
    assert stats.end_offset == 20
    assert batches(reload(log.directory, log.config)[0]) == [(19, 19, 1)]


def test_the_last_batch_of_a_cleaning_stays_even_when_it_is_empty(tmp_path: Path) -> None:
    log = new_log(tmp_path, config(cleanup_policy=["compact"], segment_bytes=300, delete_retention_ms=0))
    put(log, (b"a", b"1" * 100))
    put(log, (b"b", b"2" * 100))
    put(log, (b"b", None))
    clean(log)
    assert batches(log) == [(0, 0, 1), (2, 2, 1)]
    clean(log, first_dirty=0, now_ms=NOW_MS + 1)
    assert batches(log) == [(0, 0, 1), (2, 2, 0)]


def test_producer_snapshots_are_removed_with_their_segments(tmp_path: Path) -> None:
    log = new_log(tmp_path, config(cleanup_policy=["compact"], segment_bytes=300))
    for _ in range(12):
        put(log, (b"a", b"x" * 100))
    clean(log)
    bases = {segment.base_offset for segment in log.segments}
    snapshots = {int(path.name[:20]) for path in Path(log.directory).glob("*.snapshot")}
    assert snapshots <= bases
    assert max(snapshots) == log.log_end_offset


# Tombstones


def test_a_tombstone_removes_its_key_and_stays_until_its_delete_horizon(log: PartitionLog) -> None:
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", None))
    put(log, (b"c", b"1"))
    stats = clean(log, now_ms=NOW_MS)
    assert contents(log) == [(1, b"b", b"1"), (2, b"a", None), (3, b"c", b"1")]
    horizons = [view.delete_horizon_ms for view in iter_batches(log.read(0, 1000).records)]
    assert horizons == [None, NOW_MS + HOUR_MS, None]
    assert [record.timestamp for record in all_records(log)] == [NOW_MS] * 3

    put(log, (b"d", b"1"))
    stats = clean(log, first_dirty=stats.end_offset, now_ms=NOW_MS + HOUR_MS - 1)
    assert (2, b"a", None) in contents(log)
    put(log, (b"e", b"1"))
    clean(log, first_dirty=stats.end_offset, now_ms=NOW_MS + HOUR_MS)
    assert [key for _, key, _ in contents(log)] == [b"b", b"c", b"d", b"e"]


def test_a_delete_horizon_is_set_once(log: PartitionLog) -> None:
    put(log, (b"a", None), (b"b", b"1"))
    stats = clean(log, now_ms=NOW_MS)
    put(log, (b"b", b"2"))
    clean(log, first_dirty=stats.end_offset, now_ms=NOW_MS + 1000)
    view = BatchView(log.read(0, 1000).records)
    assert (view.delete_horizon_ms, view.count) == (NOW_MS + HOUR_MS, 1)
    assert contents(log)[0] == (0, b"a", None)


# Producers and transactions


def test_the_last_batch_of_a_known_producer_stays_as_an_empty_batch(log: PartitionLog, tmp_path: Path) -> None:
    put(log, (b"a", b"1"), producer_id=7, producer_epoch=1, base_sequence=0)
    put(log, (b"a", b"2"), (b"b", b"2"), producer_id=7, producer_epoch=1, base_sequence=1)
    put(log, (b"a", b"3"), (b"b", b"3"))
    clean(log)
    assert contents(log) == [(3, b"a", b"3"), (4, b"b", b"3")]
    assert batches(log) == [(1, 2, 0), (3, 4, 2)]
    for path in Path(log.directory).glob("*.snapshot"):
        path.unlink()
    recovered, _ = reload(killed(log, tmp_path / "copy"))
    again = batch(b"4", producer_id=7, producer_epoch=1, base_sequence=3)
    assert append(recovered, again).first_offset == 5


def test_aborted_records_are_removed_and_then_their_marker(log: PartitionLog) -> None:
    put(log, (b"a", b"committed"))
    put(log, (b"a", b"aborted"), producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    end_transaction(log, 7, 0, commit=False)
    put(log, (b"z", b"1"))
    stats = clean(log, now_ms=NOW_MS)
    fetched = log.read(0, 1 << 20, committed_only=True)
    assert contents(log)[0] == (0, b"a", b"committed")
    # The producer is still known: its last batch is kept empty, and so is the marker.
    assert batches(log)[1:3] == [(1, 1, 0), (2, 2, 1)]
    assert [transaction.first_offset for transaction in fetched.aborted_transactions or []] == [1]

    log.producers.remove_expired(NOW_MS + 10 * HOUR_MS, HOUR_MS)
    put(log, (b"y", b"1"))
    stats = clean(log, first_dirty=stats.end_offset, now_ms=NOW_MS + 1)
    # The empty batch was removed in this round; the marker was still needed before.
    put(log, (b"x", b"1"))
    stats = clean(log, first_dirty=stats.end_offset, now_ms=NOW_MS + 2)
    assert [size for size in batches(log) if size[:2] == (2, 2)] == [(2, 2, 1)]
    put(log, (b"w", b"1"))
    clean(log, first_dirty=stats.end_offset, now_ms=NOW_MS + 2 * HOUR_MS)
    assert [key for _, key, _ in contents(log)] == [b"a", b"z", b"y", b"x", b"w"]
    assert not [size for size in batches(log) if size[:2] == (2, 2)]


def test_records_of_committed_transactions_are_compacted_like_others(log: PartitionLog) -> None:
    put(log, (b"a", b"1"), producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    end_transaction(log, 7, 0, commit=True)
    put(log, (b"a", b"2"))
    clean(log)
    assert contents(log)[-1] == (2, b"a", b"2")
    assert all(key != b"a" or value == b"2" for _, key, value in contents(log))


def test_nothing_above_the_last_stable_offset_is_cleaned(log: PartitionLog) -> None:
    put(log, (b"a", b"1"))
    put(log, (b"a", b"open"), producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    put(log, (b"a", b"3"))
    log.roll(NOW_MS)
    cleanable = cleanable_range(log, None, NOW_MS)
    assert cleanable.end == 1
    clean_log(log, cleanable, now_ms=NOW_MS)
    assert len(contents(log)) == 3


# Choosing


def test_the_log_with_the_greatest_dirty_ratio_is_first_and_clean_logs_never(tmp_path: Path) -> None:
    logs = [new_log(tmp_path / str(index), COMPACT) for index in range(3)]
    for index, log in enumerate(logs):
        log.topic_partition = TopicPartition("t", index)
        for offset in range(10):
            put(log, (b"a", b"1" * 50))
            if offset in (5, 7):
                log.roll(NOW_MS)
        log.roll(NOW_MS)
    offsets = {TopicPartition("t", 0): 8, TopicPartition("t", 1): 10}
    cleaner = LogCleaner(lambda: logs, offsets)
    chosen = cleaner.dirtiest(NOW_MS)
    assert chosen is not None
    assert chosen[0] is logs[2]
    stats = cleaner.clean_dirtiest(NOW_MS)
    assert stats is not None
    assert offsets[TopicPartition("t", 2)] == stats.end_offset == 10
    logs[0].config = config(cleanup_policy=["compact"], min_cleanable_dirty_ratio=0.99)
    assert cleaner.dirtiest(NOW_MS) is None


def test_records_younger_than_the_minimum_lag_are_kept(tmp_path: Path) -> None:
    log = new_log(tmp_path, config(cleanup_policy=["compact"], min_compaction_lag_ms=1000))
    put(log, (b"a", b"1"), timestamp=NOW_MS - 5000)
    log.roll(NOW_MS)
    put(log, (b"a", b"2"), timestamp=NOW_MS)
    log.roll(NOW_MS)
    assert cleanable_range(log, None, NOW_MS).end == 1
    assert cleanable_range(log, None, NOW_MS + 1000).end == 2


def test_a_log_is_due_after_its_maximum_lag_however_clean_it_is(tmp_path: Path) -> None:
    settings_ = config(cleanup_policy=["compact"], min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=HOUR_MS)
    log = new_log(tmp_path, settings_)
    put(log, (b"a", b"1"))
    log.roll(NOW_MS)
    cleaner = LogCleaner(lambda: [log], {})
    assert cleaner.dirtiest(NOW_MS + HOUR_MS) is None
    assert cleaner.dirtiest(NOW_MS + HOUR_MS + 1) is not None


@pytest.mark.parametrize("byte", [0, 7])
def test_a_log_with_an_impossible_base_offset_is_not_compacted(log: PartitionLog, byte: int) -> None:
    for _ in range(3):
        put(log, (b"a", b"1"))
    log.roll(NOW_MS)
    path = Path(log.segments[0].path)
    content = bytearray(path.read_bytes())
    content[byte] ^= 0x10
    path.write_bytes(content)
    with pytest.raises(CorruptSegmentError, match="offset"):
        clean(log)
    assert path.read_bytes() == bytes(content)


def test_a_damaged_log_is_set_aside_and_unchanged(log: PartitionLog) -> None:
    for _ in range(3):
        put(log, (b"a", b"1"))
    log.roll(NOW_MS)
    path = Path(log.segments[0].path)
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptSegmentError, match="damaged"):
        clean(log)
    cleaner = LogCleaner(lambda: [log], {})
    assert cleaner.clean_dirtiest(NOW_MS) is None
    assert str(path) in cleaner.uncleanable[TP]
    assert cleaner.dirtiest(NOW_MS) is None
    assert path.read_bytes() == content
    assert not list(Path(log.directory).glob("*.cleaned"))


# Bounds


def test_more_keys_than_the_map_holds_are_cleaned_in_several_rounds(log: PartitionLog) -> None:
    for round_ in range(3):
        for index in range(0, 40, 4):
            put(log, *[(b"key %d" % key, b"%d" % round_) for key in range(index, index + 4)])
    first_dirty: int | None = None
    rounds = 0
    while first_dirty != log.log_end_offset:
        stats = clean(log, first_dirty=first_dirty, dedupe_buffer_size=24 * 20)
        assert stats.keys <= 18
        first_dirty = stats.end_offset
        rounds += 1
    assert rounds > 2
    assert {key: value for _, key, value in contents(log)} == {b"key %d" % key: b"2" for key in range(40)}
    assert contents(log)[-40:] == [(80 + key, b"key %d" % key, b"2") for key in range(40)]


def test_a_stopped_cleaning_leaves_the_log_unchanged(log: PartitionLog) -> None:
    for _ in range(5):
        put(log, (b"a", b"1"))
    log.roll(NOW_MS)
    before = offsets_and_values(log)
    calls = iter(range(100))

    def stop(size: int) -> None:
        if next(calls) == 7:
            raise CleaningAborted("stop")

    with pytest.raises(CleaningAborted):
        clean_log(log, cleanable_range(log, None, NOW_MS), now_ms=NOW_MS, pause=stop)
    assert offsets_and_values(log) == before
    assert not list(Path(log.directory).glob("*.cleaned"))


@pytest.mark.parametrize("interference", ["append", "roll", "retention", "truncation", "deletion"])
def test_concurrent_changes_of_the_log_win(log: PartitionLog, tmp_path: Path, interference: str) -> None:
    for value in (b"1", b"2", b"3", b"4"):
        put(log, (b"a", value), (b"b", value))
    log.roll(NOW_MS)
    put(log, (b"c", b"1"))

    def interfere(_: int) -> None:
        nonlocal interference
        kind, interference = interference, ""
        if kind == "append":
            put(log, (b"d", b"1"))
        elif kind == "roll":
            log.roll(NOW_MS)
        elif kind == "retention":
            log.delete_oldest_segments(1, now_ms=NOW_MS)
        elif kind == "truncation":
            log.truncate_to(6, now_ms=NOW_MS)
        elif kind == "deletion":
            log.mark_deleted(str(tmp_path / "orders-0.0123-delete"))

    kind = interference
    cleanable = cleanable_range(log, None, NOW_MS)
    if kind in ("append", "roll"):
        clean_log(log, cleanable, now_ms=NOW_MS, pause=interfere)
        expected = [(6, b"a", b"4"), (7, b"b", b"4"), (8, b"c", b"1")]
        assert contents(log) == expected + ([(9, b"d", b"1")] if kind == "append" else [])
        return
    with pytest.raises((CleaningAborted, FileNotFoundError)):
        clean_log(log, cleanable, now_ms=NOW_MS, pause=interfere)
    if kind == "retention":
        assert contents(log) == [(8, b"c", b"1")]
    elif kind == "truncation":
        assert [offset for offset, _, _ in contents(log)] == [0, 1, 2, 3, 4, 5]
    assert not list(Path(log.directory).glob("*.cleaned"))


# Crashes


class Crash(BaseException):
    """The process died here."""


def crash_at(
    step: int, monkeypatch: pytest.MonkeyPatch, work: Callable[[], object], dying: Callable[[], object]
) -> bool:
    """Run ``work`` up to its n-th rename, where ``dying`` inspects the disk; return whether it was reached."""
    real, remaining = os.rename, step

    def rename(source: str, target: str) -> None:
        nonlocal remaining
        if remaining == 0:
            dying()
            raise Crash
        remaining -= 1
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", rename)
        try:
            work()
        except Crash:
            return True
    return False


def test_a_crash_at_any_step_of_the_replacement_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings_ = config(cleanup_policy=["compact"], segment_bytes=700, index_interval_bytes=100)
    log = new_log(tmp_path / "log", settings_)
    for index in range(30):
        put(log, (b"key %d" % (index % 7), b"%d" % index))
    put(log, (b"gone", b"x"), producer_id=3, producer_epoch=0, base_sequence=0, is_transactional=True)
    end_transaction(log, 3, 0, commit=False)
    for index in range(30, 36):
        put(log, (b"key %d" % (index % 7), b"%d" % index))
    log.roll(NOW_MS)
    log.close(NOW_MS)
    expected = {b"key %d" % key: max(index for index in range(36) if index % 7 == key) for key in range(7)}

    for step in range(1000):
        running, left = tmp_path / "running", tmp_path / "left"
        for path in (running, left):
            shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(log.directory, running)
        cleaning, _ = reload(running, settings_, is_clean=True)
        has_crashed = crash_at(
            step,
            monkeypatch,
            lambda log=cleaning: clean_log(log, cleanable_range(log, None, NOW_MS), now_ms=NOW_MS),  # type: ignore[misc]
            lambda running=running, left=left: shutil.copytree(running, left),  # type: ignore[misc]
        )
        if not has_crashed:
            assert step > 30
            return
        recovered, truncation = reload(left, settings_, recovery_point=0 if step % 2 else 38)
        assert truncation is None
        assert recovered.log_end_offset == 38
        found = contents(recovered)
        assert {key: int(value or b"-1") for _, key, value in found if key and key.startswith(b"key")} == expected
        offsets = [offset for offset, _, _ in found]
        assert offsets == sorted(set(offsets))
        assert not [name for name in os.listdir(left) if name.endswith((".cleaned", ".swap", ".deleted"))]
        assert append(recovered, batch(b"on")).first_offset == 38


# Against a simple model


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(
                st.just("put"),
                st.lists(
                    st.tuples(st.integers(0, 6), st.one_of(st.none(), st.integers(0, 99))), min_size=1, max_size=5
                ),
                st.sampled_from([Compression.NONE, Compression.GZIP, Compression.LZ4]),
            ),
            st.tuples(st.just("clean"), st.integers(0, 3 * HOUR_MS)),
            st.tuples(st.just("restart"), st.booleans()),
            st.tuples(st.just("delete records"), st.floats(0, 1)),
        ),
        max_size=25,
    )
)
def test_appends_compactions_restarts_and_deletions_agree_with_a_list(tmp_path: Path, steps: list[tuple]) -> None:
    shutil.rmtree(tmp_path / "log", ignore_errors=True)
    settings_ = config(
        cleanup_policy=["compact", "delete"], delete_retention_ms=HOUR_MS, segment_bytes=300, index_interval_bytes=80
    )
    log = new_log(tmp_path / "log", settings_)
    written: list[tuple[bytes, bytes | None]] = []
    now_ms, cleaned_to, start = NOW_MS, 0, 0
    for step in steps:
        if step[0] == "put":
            pairs = [(b"%d" % key, None if value is None else b"%d" % value) for key, value in step[1]]
            put(log, *pairs, compression=step[2])
            written += pairs
        elif step[0] == "clean":
            now_ms += step[1]
            cleaned_to = clean(log, first_dirty=cleaned_to, now_ms=now_ms).end_offset
        elif step[0] == "restart":
            if step[1]:
                log.close(now_ms)
            log, truncation = reload(log.directory, settings_, is_clean=step[1], log_start_offset=start)
            assert truncation is None
        else:
            start = max(start, int(step[1] * len(written)))
            log.delete_records_before(start, now_ms=now_ms)
            cleaned_to = max(cleaned_to, start)
    assert log.log_end_offset == len(written)
    found = contents(log)
    offsets = [offset for offset, _, _ in found]
    assert offsets == sorted(set(offsets))
    assert all((key, value) == written[offset] for offset, key, value in found)
    last = {key: offset for offset, (key, _) in enumerate(written)}
    for offset in last.values():
        if offset >= start and written[offset][1] is not None:
            assert offset in offsets
    for offset in range(max(cleaned_to, start), len(written)):
        assert offset in offsets
    seen_clean = {key for offset, (key, _) in enumerate(written[:cleaned_to])}
    for key in seen_clean:
        latest = max(offset for offset, (other, _) in enumerate(written[:cleaned_to]) if other == key)
        assert [offset for offset in offsets if offset < latest and written[offset][0] == key] == []
