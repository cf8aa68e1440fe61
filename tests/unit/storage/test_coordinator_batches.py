"""A coordinator's batch is written as it was built, unless its topic's settings ask for something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.protocol.compression import Compression
from barnabas.protocol.record_batch import BatchView, TimestampType, iter_batches
from barnabas.storage.partition_log import PartitionLog
from barnabas.storage.produced_batch import AppendOrigin
from tests.unit.storage.log_driver import NOW_MS, batch, config, new_log

LEADERS_FIELDS = 16
"""Base offset, length and leader epoch."""


def written(log: PartitionLog, data: bytes) -> BatchView:
    log.append_as_leader(data, leader_epoch=3, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    (stored,) = iter_batches(log.read(0, 1 << 20).records)
    return stored


def test_it_is_written_as_it_was_built(tmp_path: Path) -> None:
    log, data = new_log(tmp_path), batch(b"one", None)
    written(log, data)
    assert bytes(log.read(0, 1 << 20).records)[LEADERS_FIELDS:] == data[LEADERS_FIELDS:]


def test_a_topic_with_a_compression_compresses_it(tmp_path: Path) -> None:
    stored = written(new_log(tmp_path, config(compression_type="gzip")), batch(b"one" * 100))
    assert stored.compression is Compression.GZIP
    assert [record.value for record in stored.records()] == [b"one" * 100]


def test_a_topic_with_its_own_times_sets_them(tmp_path: Path) -> None:
    log = new_log(tmp_path, config(message_timestamp_type="LogAppendTime"))
    stored = written(log, batch(b"one", timestamp=NOW_MS - 5_000))
    assert stored.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert stored.max_timestamp == NOW_MS


def test_a_batch_beyond_the_topics_limit_is_refused(tmp_path: Path) -> None:
    log = new_log(tmp_path, config(max_message_bytes=100))
    with pytest.raises(ApiException) as refused:
        written(log, batch(b"x" * 200))
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert log.log_end_offset == 0
