"""Offsets by timestamp, and the special timestamps of ListOffsets."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.protocol.compression import Compression
from barnabas.storage.offset_lookup import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    fetch_offset_for_timestamp,
)
from barnabas.storage.partition_log import PartitionLog
from tests.unit.storage.log_driver import NOW_MS, append, batch, config, new_log, reload


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    """Offsets 0 to 4, with timestamps +10, +30, +20, +30, +40; epoch 3 from offset 2 on."""
    log = new_log(tmp_path)
    append(log, batch(b"a", b"b", timestamps=[NOW_MS + 10, NOW_MS + 30]), epoch=1)
    append(log, batch(b"c", b"d", timestamps=[NOW_MS + 20, NOW_MS + 30], compression=Compression.GZIP), epoch=3)
    append(log, batch(b"e", timestamp=NOW_MS + 40), epoch=3)
    return log


@pytest.mark.parametrize(
    ("after_ms", "expected"),
    [(0, (10, 0, 1)), (10, (10, 0, 1)), (11, (30, 1, 1)), (30, (30, 1, 1)), (31, (40, 4, 3)), (40, (40, 4, 3))],
)
def test_the_first_record_at_or_after_a_timestamp_is_found(
    log: PartitionLog, after_ms: int, expected: tuple[int, int, int]
) -> None:
    found = fetch_offset_for_timestamp(log, NOW_MS + after_ms)
    assert found is not None
    assert (found.timestamp - NOW_MS, found.offset, found.leader_epoch) == expected


def test_a_timestamp_after_the_last_record_has_no_offset(log: PartitionLog) -> None:
    assert fetch_offset_for_timestamp(log, NOW_MS + 41) is None


def test_a_record_that_may_not_be_fetched_yet_is_not_found(log: PartitionLog) -> None:
    assert fetch_offset_for_timestamp(log, NOW_MS + 31, last_fetchable_offset=4) is None
    assert fetch_offset_for_timestamp(log, NOW_MS + 31, last_fetchable_offset=5) is not None


def test_the_latest_offset_is_the_limit_of_the_reader(log: PartitionLog) -> None:
    assert fetch_offset_for_timestamp(log, LATEST_TIMESTAMP) == (-1, 5, 3)
    assert fetch_offset_for_timestamp(log, LATEST_TIMESTAMP, last_fetchable_offset=2) == (-1, 2, 3)


def test_the_earliest_offset_is_the_logs_start_with_its_epoch(log: PartitionLog) -> None:
    for timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        assert fetch_offset_for_timestamp(log, timestamp) == (-1, 0, 1)
    log.delete_records_before(3, now_ms=NOW_MS)
    assert fetch_offset_for_timestamp(log, EARLIEST_TIMESTAMP) == (-1, 3, 3)


def test_records_below_the_logs_start_are_not_found(log: PartitionLog) -> None:
    log.delete_records_before(2, now_ms=NOW_MS)
    assert fetch_offset_for_timestamp(log, NOW_MS + 10) == (NOW_MS + 20, 2, 3)


def test_the_greatest_timestamp_finds_its_first_record(tmp_path: Path, log: PartitionLog) -> None:
    assert fetch_offset_for_timestamp(log, MAX_TIMESTAMP) == (NOW_MS + 40, 4, 3)
    append(log, batch(b"f", b"g", timestamps=[NOW_MS + 5, NOW_MS + 40]), epoch=3)
    assert fetch_offset_for_timestamp(log, MAX_TIMESTAMP) == (NOW_MS + 40, 4, 3)
    assert fetch_offset_for_timestamp(new_log(tmp_path / "empty"), MAX_TIMESTAMP) is None


def test_nothing_is_tiered(log: PartitionLog) -> None:
    for timestamp in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
        assert fetch_offset_for_timestamp(log, timestamp) == (-1, -1, -1)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    delays=st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=4), min_size=1, max_size=30),
    interval=st.sampled_from([1, 150, 100_000]),
    is_closed=st.booleans(),
)
def test_any_search_agrees_with_a_full_scan(
    tmp_path_factory: pytest.TempPathFactory, delays: list[list[int]], interval: int, is_closed: bool
) -> None:
    settings_ = config(segment_bytes=400, index_interval_bytes=interval)
    log = new_log(tmp_path_factory.mktemp("log"), settings_)
    for group in delays:
        append(log, batch(*[b"x"] * len(group), timestamps=[NOW_MS + delay for delay in group]))
    if is_closed:
        log.close(NOW_MS)
        log, _ = reload(log.directory, settings_, is_clean=True)
    flat = [delay for group in delays for delay in group]
    for wanted in range(52):
        expected = next((offset for offset, delay in enumerate(flat) if delay >= wanted), None)
        found = fetch_offset_for_timestamp(log, NOW_MS + wanted)
        assert (found.offset if found else None) == expected
    greatest = fetch_offset_for_timestamp(log, MAX_TIMESTAMP)
    assert greatest is not None
    assert greatest.offset == flat.index(max(flat))
