"""A snapshot fetched in chunks belongs to the thread that freezes it as soon as its last chunk is written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.protocol.records.feature_level_record import FeatureLevelRecord
from barnabas.raft.replica_key import OffsetAndEpoch
from barnabas.server.metadata_log.record_serde import MetadataRecordSerde
from barnabas.server.quorum.raft_exchange import RaftExchange
from barnabas.storage.damaged_files import DamagedLogError
from barnabas.storage.metadata_log import MetadataLog
from barnabas.storage.snapshot_file import RawSnapshotWriter, SnapshotWriter, snapshot_path

OLD, NEW = OffsetAndEpoch(4, 1), OffsetAndEpoch(9, 1)
FEATURE = ApiMessageAndVersion(FeatureLevelRecord(name="metadata.version", feature_level=30), 0)


@pytest.fixture
def log(tmp_path: Path) -> MetadataLog:
    return MetadataLog(str(tmp_path), segment_bytes=1 << 20, segment_ms=1 << 40, now_ms=0)


def snapshot_bytes(folder: Path, snapshot_id: OffsetAndEpoch) -> bytes:
    folder.mkdir(exist_ok=True)
    raw = RawSnapshotWriter(str(folder), snapshot_id, token="source")
    writer = SnapshotWriter(raw, last_contained_log_timestamp=0, now_ms=0, serde=MetadataRecordSerde())
    writer.append([FEATURE])
    writer.freeze()
    return Path(raw.path).read_bytes()


def _no_damage(error: DamagedLogError) -> None:
    raise error


def test_a_node_that_stops_lets_the_thread_finish_the_snapshot(tmp_path: Path, log: MetadataLog) -> None:
    exchange = RaftExchange(log, _no_damage)
    exchange.write_chunk(OLD, 0, snapshot_bytes(tmp_path / "source", OLD))
    freeze = exchange.take_fetched()
    exchange.close()
    assert freeze().snapshot_id == OLD
    assert os.path.exists(snapshot_path(log.directory, OLD))


def test_another_snapshot_does_not_replace_one_that_is_being_frozen(tmp_path: Path, log: MetadataLog) -> None:
    exchange = RaftExchange(log, _no_damage)
    exchange.write_chunk(OLD, 0, snapshot_bytes(tmp_path / "source", OLD))
    freeze_old = exchange.take_fetched()
    exchange.write_chunk(NEW, 0, snapshot_bytes(tmp_path / "source", NEW))
    assert freeze_old().snapshot_id == OLD
    assert exchange.take_fetched()().snapshot_id == NEW
