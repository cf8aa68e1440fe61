"""Compaction while a fast producer writes: memory is bounded, no client is blocked, and only the last values remain.
``BARNABAS_COMPACTION_KEYS`` sets the number of keys; ``make slow`` uses a million.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barnabas.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from barnabas.testing import Node
from tests.interop.keyed_load import final_state, record_count
from tests.interop.raw_client import RawClient

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

PROJECT = Path(__file__).resolve().parents[2]
KEYS = int(os.environ.get("BARNABAS_COMPACTION_KEYS", "20000"))
MIB = 1024 * 1024
DEDUPE_BYTES = max(2 * MIB, 16 * KEYS)
"""Less than many keys need (24 bytes each): the cleaner needs several passes."""
SEGMENT_BYTES = MIB if KEYS < 200_000 else 8 * MIB
MEMORY_MARGIN = 64 * MIB
SEED = 4711
KILLS = 8
KILLED_KEYS = 60_000
BLOCKED_S = 5.0
"""An append of this duration was blocked; a busy machine alone does not cause it."""


def memory(node: Node, field: str) -> int:
    """Return a field of the process's status, in bytes."""
    for line in Path(f"/proc/{node.pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"no {field}")


class Probe:
    """Appends one small record after the other to a partition, and records the latency of each."""

    def __init__(self, node: Node) -> None:
        self._client = RawClient(node.port)

    def append(self, topic: str, partition: int, key: bytes, value: bytes | None) -> float:
        batch = build_batch([Record(0, int(time.time() * 1000), key, value, ())])
        data = [PartitionProduceData(index=partition, records=batch)]
        began = time.perf_counter()
        answer = self._client.call(
            ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=data)]),
            12,
        )
        elapsed = time.perf_counter() - began
        assert answer.responses[0].partition_responses[0].error_code == 0
        return elapsed

    def while_running(self, process: subprocess.Popen[str], topic: str) -> list[float]:
        latencies = []
        while process.poll() is None:
            latencies.append(self.append(topic, 1, b"probe-%d" % (len(latencies) % 100), b"x" * 50))
            time.sleep(0.002)
        assert process.returncode == 0, process.communicate()[0]
        return latencies

    def close(self) -> None:
        self._client.close()


def start_load(node: Node, topic: str, keys: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.interop.keyed_load", node.bootstrap_servers, topic, str(keys)],
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": f"{PROJECT / 'src'}:{PROJECT}"},
        stdout=subprocess.PIPE,
        text=True,
    )


def create(node: Node, name: str, **configs: str) -> None:
    client = RawClient(node.port)
    answer = client.call(
        CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=name,
                    num_partitions=2,
                    replication_factor=1,
                    configs=[
                        CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
                    ],
                )
            ]
        )
    )
    client.close()
    assert answer.topics[0].error_code == 0, answer


def alter(node: Node, topic: str, **configs: str) -> None:
    changes = [
        AlterableConfig(name=key.replace("_", "."), config_operation=0, value=value) for key, value in configs.items()
    ]
    client = RawClient(node.port)
    answer = client.call(
        IncrementalAlterConfigsRequest(
            resources=[AlterConfigsResource(resource_type=2, resource_name=topic, configs=changes)]
        )
    )
    client.close()
    assert answer.responses[0].error_code == 0, answer


def read(node: Node, topic: str) -> Iterator[tuple[int, bytes, bytes | None]]:
    """Yield offset, key and value of every record in partition 0."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": node.bootstrap_servers,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    deadline = time.monotonic() + 300
    try:
        while time.monotonic() < deadline:
            for message in consumer.consume(5000, 1.0):
                if message.error() is not None:
                    assert message.error().name() == "_PARTITION_EOF", message.error()
                    return
                yield message.offset(), message.key(), message.value()
    finally:
        consumer.close()
    raise AssertionError("the end was not reached")


def fill_up(probe: Probe, topic: str) -> None:
    """Roll the active segment, which is never compacted: two segments' worth of one other key."""
    for _ in range(2 * SEGMENT_BYTES // 500_000 + 2):
        probe.append(topic, 0, b"filler", b"f" * 500_000)


def wait_until(what: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.2)


def cleaned_up_to(node: Node, topic: str) -> int:
    path = node.broker.folder / "data" / "cleaner-offset-checkpoint"
    lines = path.read_text().splitlines()[2:] if path.exists() else []
    return max((int(line.split()[2]) for line in lines if line.split()[:2] == [topic, "0"]), default=0)


def cleanings_so_far(node: Node) -> int:
    return node.log_path.read_text().count("topic='compacted', partition=0")


def percentiles(latencies: list[float]) -> str:
    cuts = statistics.quantiles(latencies, n=100)
    return f"p50 {cuts[49] * 1e3:.1f} ms, p99 {cuts[98] * 1e3:.1f} ms, max {max(latencies) * 1e3:.0f} ms"


def values_left(keys: int) -> dict[int, tuple[bytes, bytes | None]]:
    """Return the expected records of the load by offset, after compaction and the removal of tombstones."""
    return {offset: (key, value) for key, (offset, value) in final_state(keys).items() if value is not None}


def compact_all(node: Node, probe: Probe, keys: int) -> dict[int, tuple[bytes, bytes | None]]:
    """Have the whole load compacted until its tombstones are removed; return the remaining records."""
    total, wanted = record_count(keys), len(values_left(keys))
    alter(node, "compacted", min_cleanable_dirty_ratio="0.0")
    fill_up(probe, "compacted")
    wait_until(lambda: cleaned_up_to(node, "compacted") >= total, 600)
    # The first cleaning sets how long tombstones stay, a later one removes them: it needs something to clean.
    found: dict[int, tuple[bytes, bytes | None]] = {}

    def only_values_are_left() -> bool:
        found.clear()
        found.update({offset: (key, value) for offset, key, value in read(node, "compacted") if key != b"filler"})
        if len(found) > wanted:
            fill_up(probe, "compacted")
        return len(found) <= wanted

    wait_until(only_values_are_left, 600)
    return found


def test_compaction_keeps_the_last_values_within_a_fixed_memory(capsys: pytest.CaptureFixture[str]) -> None:
    with Node(
        in_memory=False,  # A million keys need a disk.
        settings={"log.cleaner.backoff.ms": "50", "log.cleaner.dedupe.buffer.size": str(DEDUPE_BYTES)},
    ) as node:
        create(node, "plain", segment_bytes=str(SEGMENT_BYTES))
        create(
            node,
            "compacted",
            cleanup_policy="compact",
            segment_bytes=str(SEGMENT_BYTES),
            min_cleanable_dirty_ratio="0.1",
            delete_retention_ms="0",
        )
        probe = Probe(node)
        probe.append("plain", 1, b"first", b"")
        idle = memory(node, "VmRSS")
        without = probe.while_running(start_load(node, "plain", KEYS), "plain")
        peak_without = memory(node, "VmHWM")
        began = time.monotonic()
        during = probe.while_running(start_load(node, "compacted", KEYS), "compacted")
        loaded_s = time.monotonic() - began
        cleanings = [cleanings_so_far(node)]
        found = compact_all(node, probe, KEYS)
        compacted_s = time.monotonic() - began
        cleanings.append(cleanings_so_far(node))
        peak, cap = memory(node, "VmHWM"), idle + DEDUPE_BYTES + MEMORY_MARGIN
        probe.close()
        node.stop()
        with capsys.disabled():
            print(
                f"\n{KEYS} keys, {record_count(KEYS)} records: written in {loaded_s:.1f} s "
                f"with {cleanings[0]} cleanings, compacted and read after {compacted_s:.1f} s with {cleanings[1]}"
                f"\nmemory: idle {idle / MIB:.0f} MiB, peak under the same load without cleaning "
                f"{peak_without / MIB:.0f} MiB, peak {peak / MIB:.0f} MiB; cap {cap / MIB:.0f} MiB, "
                f"dedupe buffer {DEDUPE_BYTES / MIB:.0f} MiB"
                f"\nan append beside the load: without cleaning {percentiles(without)}; with {percentiles(during)}"
            )
        assert found == values_left(KEYS)
        assert list(found) == sorted(found)
        assert peak <= cap
        # A small load may be complete before the cleaner first runs; a large one never is.
        assert cleanings[0 if KEYS >= 200_000 else 1] > 0
        assert max(during) < BLOCKED_S
        printed = node.log_path.read_text()
        assert "Traceback" not in printed
        assert " ERROR " not in printed


def is_being_cleaned(folder: Path) -> bool:
    return any(path.suffix in (".cleaned", ".swap") for path in folder.iterdir())


def wait_for_a_cleaning(folder: Path, seconds: float) -> None:
    """Wait until the middle of a cleaning, or for that long: with random waits, kills might miss every one on a busy
    machine."""
    deadline = time.monotonic() + seconds
    while not is_being_cleaned(folder) and time.monotonic() < deadline:
        time.sleep(0.001)


def is_cleaning(folder: Path) -> bool:
    return folder.exists() and any(name.endswith((".cleaned", ".swap")) for name in os.listdir(folder))


@pytest.mark.long
@pytest.mark.timeout(300)
def test_kills_during_compaction_lose_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """kill -9 at moments from a fixed seed; the producer is idempotent and continues through all of them."""
    with Node(settings={"log.cleaner.backoff.ms": "10"}, in_memory=False) as node:
        create(
            node,
            "compacted",
            cleanup_policy="compact",
            segment_bytes=str(MIB),
            min_cleanable_dirty_ratio="0.01",
            delete_retention_ms="0",
        )
        rng = random.Random(SEED)
        load = start_load(node, "compacted", KILLED_KEYS)
        leftovers = 0
        folder = node.broker.folder / "data" / "compacted-0"
        for _ in range(KILLS):
            time.sleep(rng.uniform(0.2, 0.9))
            deadline = time.monotonic() + 1
            while not is_cleaning(folder) and time.monotonic() < deadline:
                time.sleep(0.002)
            node.kill()
            leftovers += is_cleaning(folder)
            node.start()
        printed, _ = load.communicate(timeout=120)
        assert load.returncode == 0, printed
        probe = Probe(node)
        found = compact_all(node, probe, KILLED_KEYS)
        probe.close()
        node.stop()
        with capsys.disabled():
            print(
                f"\nseed {SEED}: {KILLS} kills of a node that compacts {KILLED_KEYS} keys; "
                f"{leftovers} found it in the middle of a segment, {cleanings_so_far(node)} cleanings were finished"
            )
        assert found == values_left(KILLED_KEYS)
        assert not any(
            path.suffix in (".cleaned", ".swap", ".deleted") for path in folder.iterdir() if "00" in path.name
        )
        assert "Traceback" not in node.log_path.read_text()
