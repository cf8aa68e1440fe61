"""Partition logs of a real Kafka 4.3.1: opened, recovered, and written again byte for byte.

``partition-logs.tar.xz`` is a log directory of a broker that was shut down cleanly, with DumpLogSegments' output
beside each topic: ``plain`` (two producers, one of them zstd), ``rolled`` (18 segments), ``transactional`` (aborted
ones too), ``appendtime``, and ``compacted`` (cleaned several times, tombstones, an aborted transaction).
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from barnabas.common.topic_config import TopicConfig
from barnabas.common.topic_partition import TopicPartition
from barnabas.protocol.record_batch import iter_batches
from barnabas.storage.file_pool import FilePool
from barnabas.storage.log_manager import LogManager
from barnabas.storage.partition_log import PartitionLog
from tests.oracles.archives import unpack
from tests.unit.storage.log_driver import all_records

pytestmark = pytest.mark.oracle

TOPICS = ("appendtime", "compacted", "plain", "rolled", "transactional")
NOW_MS = 1_795_280_000_000

BATCH = re.compile(
    r"^baseOffset: (\d+) lastOffset: (\d+) count: (\d+) baseSequence: (-?\d+) .*? producerId: (-?\d+)"
    r" producerEpoch: (-?\d+) partitionLeaderEpoch: (\d+) isTransactional: (\w+) isControl: (\w+)"
    r" .*? size: (\d+) .*? crc: (\d+) isvalid: true$",
    re.MULTILINE,
)
RECORD = re.compile(
    r"^\| offset: (\d+) \w+: (\d+) keySize: (-?\d+) valueSize: (-?\d+) sequence: .*? headerKeys: \[.*?\]"
    r"(?: key: (.*?))?(?: payload: (.*)| endTxnMarker.*)?$",
    re.MULTILINE,
)
PRODUCER = re.compile(
    r"^producerId: (\d+) producerEpoch: (\d+) coordinatorEpoch: (-?\d+) .*? lastSequence: (-?\d+) lastOffset: (-?\d+)",
    re.MULTILINE,
)


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("partition-logs")
    unpack(Path(__file__).parent / "data" / "kraft" / "partition-logs.tar.xz", folder)
    return folder / "broker-logs"


@pytest.fixture
def recorded(unpacked: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(unpacked, tmp_path / "data"))


def config(topic: str) -> TopicConfig:
    values: dict[str, object] = {"index.interval.bytes": 512}
    if topic == "rolled":
        values["segment.ms"] = 200
    if topic == "compacted":
        values |= {"segment.ms": 300, "cleanup.policy": ["compact"]}
    if topic == "appendtime":
        values["message.timestamp.type"] = "LogAppendTime"
    return TopicConfig(values)


def start(data: Path) -> LogManager:
    manager = LogManager([str(data)])
    report = manager.startup(now_ms=NOW_MS, config_of=config)
    assert report.truncations == []
    assert report.partitions == len(TOPICS)
    for log in manager.logs():
        log.maybe_advance_high_watermark(log.log_end_offset)
    return manager


def stop(manager: LogManager) -> None:
    for directory in manager.directories.all:
        directory.unlock()


def log_of(manager: LogManager, topic: str) -> PartitionLog:
    log = manager.get(TopicPartition(topic, 0))
    assert log is not None
    return log


def contents(folder: Path, *extensions: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix in extensions}


@pytest.mark.parametrize("is_clean", [True, False])
def test_all_batches_records_and_producers_equal_kafkas_dump(recorded: Path, is_clean: bool) -> None:
    if not is_clean:
        (recorded / ".kafka_cleanshutdown").unlink()
        (recorded / "recovery-point-offset-checkpoint").unlink()
    manager = start(recorded)
    assert manager.previous_broker_epoch == (16 if is_clean else -1)
    for topic in TOPICS:
        log, dump = log_of(manager, topic), (recorded / f"{topic}.dump.txt").read_text()
        everything = b"".join(bytes(segment.read(0, segment.size)) for segment in log.segments)
        assert [
            (
                view.base_offset,
                view.last_offset,
                view.count,
                view.base_sequence,
                view.producer_id,
                view.producer_epoch,
                view.leader_epoch,
                str(view.is_transactional).lower(),
                str(view.is_control).lower(),
                view.size,
                view.crc,
            )
            for view in iter_batches(everything)
        ] == [
            tuple(int(text) if text.lstrip("-").isdigit() else text for text in found) for found in BATCH.findall(dump)
        ]
        records = {record.offset: record for record in all_records(log)}
        described = RECORD.findall(dump)
        assert sorted(records) == sorted(int(found[0]) for found in described)
        for offset, timestamp, key_size, value_size, key, payload in described:
            record = records[int(offset)]
            assert record.timestamp == int(timestamp)
            assert len(record.value or b"") == max(int(value_size), 0)
            if key:
                assert record.key is not None
                assert (len(record.key), record.key.decode()) == (int(key_size), key)
            if payload:
                assert record.value is not None
                assert record.value.decode() == payload
        found_producers = {
            (entry.producer_id, entry.epoch, entry.coordinator_epoch, entry.last_sequence, entry.last_data_offset)
            for entry in log.producers
        }
        assert found_producers == {tuple(map(int, found)) for found in PRODUCER.findall(dump)}
    stop(manager)


def test_recovery_builds_exactly_the_indexes_of_kafka(recorded: Path, unpacked: Path) -> None:
    (recorded / ".kafka_cleanshutdown").unlink()
    (recorded / "recovery-point-offset-checkpoint").unlink()
    for path in [*recorded.glob("*/*.index"), *recorded.glob("*/*.timeindex"), *recorded.glob("*/*.snapshot")]:
        path.unlink()
    manager = start(recorded)
    manager.shutdown(now_ms=NOW_MS, broker_epoch=16)
    for topic in TOPICS:
        ours, theirs = recorded / f"{topic}-0", unpacked / f"{topic}-0"
        assert contents(ours, ".index", ".timeindex", ".txnindex") == contents(
            theirs, ".index", ".timeindex", ".txnindex"
        )
        newest = max(theirs.glob("*.snapshot")).name
        assert (ours / newest).read_bytes() == (theirs / newest).read_bytes()


@pytest.mark.parametrize("topic", [topic for topic in TOPICS if topic != "compacted"])
def test_appending_the_same_batches_creates_the_same_files(unpacked: Path, tmp_path: Path, topic: str) -> None:
    log = PartitionLog.create(
        str(tmp_path / f"{topic}-0"),
        TopicPartition(topic, 0),
        topic_id=None,
        config=config(topic),
        pool=FilePool(),
        now_ms=NOW_MS,
    )
    theirs = unpacked / f"{topic}-0"
    for path in sorted(theirs.glob("*.log")):
        log.append_as_follower(path.read_bytes(), now_ms=NOW_MS)
    log.close(NOW_MS)
    extensions = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    assert contents(tmp_path / f"{topic}-0", *extensions) == contents(theirs, *extensions)
    assert (tmp_path / f"{topic}-0" / "leader-epoch-checkpoint").read_bytes() == (
        theirs / "leader-epoch-checkpoint"
    ).read_bytes()


def test_our_clean_shutdown_leaves_the_files_of_theirs_unchanged(recorded: Path, unpacked: Path) -> None:
    manager = start(recorded)
    manager.shutdown(now_ms=NOW_MS, broker_epoch=16)
    for topic in TOPICS:
        ours, theirs = recorded / f"{topic}-0", unpacked / f"{topic}-0"
        assert {path.name: path.read_bytes() for path in ours.iterdir()} == {
            path.name: path.read_bytes() for path in theirs.iterdir()
        }
    for name in (".kafka_cleanshutdown", "cleaner-offset-checkpoint", "log-start-offset-checkpoint"):
        assert (recorded / name).read_bytes() == (unpacked / name).read_bytes()
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        assert sorted((recorded / name).read_text().split()) == sorted((unpacked / name).read_text().split())
