"""Partition logs of both kinds: Kafka's DumpLogSegments reads our logs, and each node opens the other's directories."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from barnabas.common.topic_config import TopicConfig
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.protocol.compression import Compression
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from barnabas.storage.log_cleaner import LogCleaner
from barnabas.storage.log_manager import LogManager
from barnabas.storage.partition_log import PartitionLog
from barnabas.storage.produced_batch import AppendOrigin
from tests.peers import KafkaNode, run_class
from tests.unit.storage.log_driver import all_records, marker

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]

NOW_MS = 1_790_000_000_000
BATCH_LINE = re.compile(r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+)")
RECORD_LINE = re.compile(r"\| offset: (\d+) .*?keySize: .*? key: (\S+) payload: (\S*)")


def settings(**values: object) -> TopicConfig:
    return TopicConfig({name.replace("_", "."): value for name, value in values.items()})


def dump(*files: Path, options: tuple[str, ...] = ()) -> str:
    names = ",".join(str(file) for file in files)
    return run_class("dump-log", *options, "--files", names).stdout


def files(log: PartitionLog, extension: str) -> list[Path]:
    return sorted(Path(log.directory).glob(f"*{extension}"))


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> LogManager:
    manager = LogManager([str(tmp_path_factory.mktemp("data"))])
    manager.startup(now_ms=NOW_MS)
    return manager


def open_log(manager: LogManager, topic: str, config: TopicConfig) -> PartitionLog:
    return manager.get_or_create(TopicPartition(topic, 0), Uuid.from_int(4711), now_ms=NOW_MS, config=config)


def append(log: PartitionLog, sent: bytes, *, origin: AppendOrigin = AppendOrigin.CLIENT, epoch: int = 0) -> None:
    log.append_as_leader(sent, leader_epoch=epoch, now_ms=NOW_MS, origin=origin)
    log.maybe_advance_high_watermark(log.log_end_offset)


@pytest.fixture(scope="module")
def plain(manager: LogManager) -> PartitionLog:
    """Write several segments with every compression, a dense index and a clean shutdown."""
    log = open_log(manager, "plain", settings(internal_segment_bytes=20_000, index_interval_bytes=500))
    for index in range(200):
        records = [
            Record(at, NOW_MS + 7 * index + at, b"key%d" % at, b"value%d" % index * 20, (("h", b"1"),))
            for at in range(3)
        ]
        append(log, build_batch(records, compression=Compression(index % 5)), epoch=index // 50)
    log.close(NOW_MS)
    return log


def test_kafkas_dump_prints_every_batch_and_record_as_we_read_it(kafka_peer: Path, plain: PartitionLog) -> None:
    printed = dump(*files(plain, ".log"), options=("--print-data-log",))
    assert len(plain.segments) > 1
    found = [(int(offset), key, value) for offset, key, value in RECORD_LINE.findall(printed)]
    expected = all_records(plain)
    assert found == [(record.offset, record.key.decode(), record.value.decode()) for record in expected]
    assert len(BATCH_LINE.findall(printed)) == 200
    assert "isvalid: false" not in printed.lower()


@pytest.mark.parametrize("option", ["--index-sanity-check", "--verify-index-only"])
def test_indexes_pass_kafkas_checks(kafka_peer: Path, plain: PartitionLog, option: str) -> None:
    indexes = files(plain, ".index") + files(plain, ".timeindex")
    assert sum(path.stat().st_size for path in indexes) > 500
    printed = dump(*indexes, options=(option,))
    assert "mismatch" not in printed.lower()
    assert "Found timestamp" not in printed
    assert "Indexed offset" not in printed
    assert "out of order" not in printed
    if option == "--index-sanity-check":
        assert printed.count("passed sanity check") == len(indexes)


def test_snapshots_and_aborted_transactions_are_printed(kafka_peer: Path, manager: LogManager) -> None:
    log = open_log(manager, "transactions", settings())
    for producer_id, commit in ((11, True), (12, False)):
        records = [Record(0, NOW_MS, b"k", b"v"), Record(1, NOW_MS, b"k", b"w")]
        append(
            log,
            build_batch(records, producer_id=producer_id, producer_epoch=3, base_sequence=0, is_transactional=True),
        )
        append(
            log,
            marker(producer_id, 3, commit=commit, coordinator_epoch=9, timestamp=NOW_MS),
            origin=AppendOrigin.COORDINATOR,
        )
    log.close(NOW_MS)
    printed = dump(*files(log, ".snapshot"))
    for producer_id, last_offset in ((11, 1), (12, 4)):
        assert re.search(
            rf"producerId: {producer_id} producerEpoch: 3 coordinatorEpoch: 9 "
            rf"currentTxnFirstOffset: OptionalLong.empty .*lastOffset: {last_offset}",
            printed,
        ), printed
    aborted = dump(*files(log, ".txnindex"))
    assert re.search(r"producerId: 12 firstOffset: 3 lastOffset: 5 lastStableOffset: 6", aborted), aborted
    markers = dump(*files(log, ".log"), options=("--print-data-log",))
    assert "endTxnMarker: COMMIT coordinatorEpoch: 9" in markers
    assert "endTxnMarker: ABORT coordinatorEpoch: 9" in markers


def test_a_compacted_log_is_printed_with_its_gaps_and_horizons(kafka_peer: Path, manager: LogManager) -> None:
    log = open_log(manager, "compacted", settings(cleanup_policy=["compact"], index_interval_bytes=200))
    for index in range(60):
        value = None if index % 10 == 3 else b"%d" % index
        append(log, build_batch([Record(0, NOW_MS, b"key%d" % (index % 12), value)]))
    log.roll(NOW_MS)
    cleaner = LogCleaner(lambda: [log], {})
    assert cleaner.clean_dirtiest(NOW_MS) is not None
    log.close(NOW_MS)
    printed = dump(*files(log, ".log"), options=("--print-data-log",))
    found = [int(offset) for offset, _, _ in BATCH_LINE.findall(printed)]
    assert found == list(range(48, 60))
    assert f"deleteHorizonMs: OptionalLong[{NOW_MS + 86_400_000}]" in printed
    indexes = dump(*files(log, ".index"), *files(log, ".timeindex"), options=("--index-sanity-check",))
    assert indexes.count("passed sanity check") == 3
    assert indexes.count("is empty") == 1


@pytest.mark.long
def test_logs_open_on_the_other_kind_of_broker_both_ways(kafka_peer: Path, tmp_path: Path) -> None:
    node = KafkaNode(tmp_path / "kafka", own_process=True)
    partition = TopicPartition("moved", 0)
    data = tmp_path / "kafka" / "data"
    try:
        node.start()
        run_class("topics", "--bootstrap-server", node.bootstrap_servers, "--create", "--topic", "moved")
        run_class(
            "console-producer", "--bootstrap-server", node.bootstrap_servers, "--topic", "moved",
            stdin="".join(f"theirs {index}\n" for index in range(100)),
        )  # fmt: skip
        node.kill()

        recovered = LogManager([str(tmp_path / "copy")])
        shutil.copytree(data / "moved-0", tmp_path / "copy" / "moved-0")
        report = recovered.startup(now_ms=NOW_MS)
        assert report.truncations == []
        log = recovered.get(partition)
        assert log is not None
        assert [record.value for record in all_records(log)] == [b"theirs %d" % index for index in range(100)]
        epoch = log.latest_epoch

        for index in range(100):
            append(log, build_batch([Record(0, NOW_MS, None, b"ours %d" % index)]), epoch=epoch)
        log.roll(NOW_MS)
        append(log, build_batch([Record(0, NOW_MS, None, b"ours 100")]), epoch=epoch)
        recovered.shutdown(now_ms=NOW_MS)

        node.start()
        assert node.stop() == 143
        shutil.rmtree(data / "moved-0")
        shutil.copytree(tmp_path / "copy" / "moved-0", data / "moved-0")
        (data / "recovery-point-offset-checkpoint").write_text("0\n1\nmoved 0 201\n")
        (data / "replication-offset-checkpoint").write_text("0\n1\nmoved 0 201\n")
        began = len(Path(node.log_path).read_text())
        node.start()
        consumed = run_class(
            "console-consumer", "--bootstrap-server", node.bootstrap_servers, "--topic", "moved", "--from-beginning",
            "--max-messages", "201", "--timeout-ms", "30000",
        ).stdout.split("\n")  # fmt: skip
        logged = Path(node.log_path).read_text()[began:]
    finally:
        node.kill()
    expected = [f"theirs {index}" for index in range(100)] + [f"ours {index}" for index in range(101)]
    assert consumed[:201] == expected
    for complaint in ("Could not find offset index", "Found a corrupted index", "rebuilding index", "Corrupt"):
        assert complaint not in logged
    assert os.path.exists(data / "moved-0" / "00000000000000000200.log")


def test_dump_log_segments_reads_the_segment_that_is_written_to(manager: LogManager) -> None:
    """Without a file for each index the tool fails. Our indexes of an active segment exist and are empty."""
    log = open_log(manager, "active", settings(index_interval_bytes=100))
    for index in range(20):
        append(log, build_batch([Record(0, NOW_MS + index, b"k", b"v%d" % index)]))
    printed = dump(*files(log, ".log"), options=("--print-data-log",))
    assert [int(line[0]) for line in BATCH_LINE.findall(printed)] == list(range(20))
    indexes = dump(*files(log, ".index"), *files(log, ".timeindex"))
    assert "Dumping" in indexes
    assert "rror" not in indexes
