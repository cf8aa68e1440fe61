"""The data that the node acknowledges before any damage: records, ACLs and committed offsets; and their files."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from barnabas.common.topic_config import TopicConfig
from barnabas.common.topic_partition import TopicPartition
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from barnabas.storage.file_pool import FilePool
from barnabas.storage.log_recovery import load_log
from barnabas.storage.produced_batch import AppendOrigin
from tests.storage_faults.faults import FAULTS
from tests.storage_faults.probe import NodeClient

__all__ = [
    "ACLS",
    "COMMITTED",
    "COUNT",
    "FEW_TOPICS",
    "GROUP",
    "GROUPS",
    "NODE_FILES",
    "PARTITION_FILES",
    "TOPIC_CONFIGS",
    "all_topics",
    "expected_records",
    "node_file",
    "partition_file",
    "produce_all",
    "topic_of",
    "value",
    "wait_for_directories",
    "write_transactions",
]

COUNT = 60
GROUP = "g"
COMMITTED = 42
ACLS = {("User:alice", 3), ("User:mallory", 2)}
TOPIC_SETTINGS = {"internal.segment.bytes": 8000, "index.interval.bytes": 1000}
TOPIC_CONFIGS = {name: str(setting) for name, setting in TOPIC_SETTINGS.items()}
_ABORTED, _MARKER = (3, 4, 5), 6
"""The aborted offsets and the marker among each ten offsets of a topic with transactions."""

PARTITION_FILES: Mapping[str, tuple[str, int]] = {
    "log, rolled": (".log", 0),
    "log, active": (".log", -1),
    "index, rolled": (".index", 0),
    "index, active": (".index", -1),
    "timeindex, rolled": (".timeindex", 0),
    "timeindex, active": (".timeindex", -1),
    "txnindex, rolled": (".txnindex", 0),
    "txnindex, active": (".txnindex", -1),
    "producer snapshot": (".snapshot", -1),
    "leader-epoch-checkpoint": ("leader-epoch-checkpoint", 0),
    "partition.metadata": ("partition.metadata", 0),
}
"""The suffix of the name, and which of the files with this suffix."""

GROUPS = (
    ("log, rolled", "log, active"),
    ("index, rolled", "index, active", "timeindex, rolled", "timeindex, active"),
    ("txnindex, rolled", "txnindex, active"),
    ("producer snapshot",),
    ("leader-epoch-checkpoint",),
    ("partition.metadata",),
)
"""The kinds whose changed contents are tested in one start."""

NODE_FILES: Mapping[str, str] = {
    "meta.properties": "meta.properties",
    "bootstrap.checkpoint": "bootstrap.checkpoint",
    "metadata log": "__cluster_metadata-0/*.log",
    "metadata index": "__cluster_metadata-0/*.index",
    "metadata timeindex": "__cluster_metadata-0/*.timeindex",
    "metadata producer snapshot": "__cluster_metadata-0/*.snapshot",
    "metadata checkpoint": "__cluster_metadata-0/*.checkpoint",
    "quorum-state": "__cluster_metadata-0/quorum-state",
    "metadata leader epochs": "__cluster_metadata-0/leader-epoch-checkpoint",
    "metadata partition.metadata": "__cluster_metadata-0/partition.metadata",
    "recovery-point": "__cluster_metadata-0/recovery-point",
    "recovery-point-offset-checkpoint": "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint": "log-start-offset-checkpoint",
    "replication-offset-checkpoint": "replication-offset-checkpoint",
    "cleaner-offset-checkpoint": "cleaner-offset-checkpoint",
    ".kafka_cleanshutdown": ".kafka_cleanshutdown",
    ".lock": ".lock",
    "barnabas-topic-ids": "barnabas-topic-ids",
    "barnabas-boot-id": "barnabas-boot-id",
    "committed offsets": "__consumer_offsets-?/00000000000000000000.log",
}


FEW_TOPICS = ("kept", "other", "transactions")
"""The topics for faults that are tested one by one."""


def topic_of(file: str, fault: str) -> str:
    """Return the topic for a file and a fault. Each changed content has its own topic."""
    if file not in PARTITION_FILES:
        return "kept"
    if fault not in FAULTS:
        return "transactions" if file.startswith("txnindex") else "kept"
    return re.sub(r"[^a-z]+", "-", f"c {file} {fault}".lower()).strip("-")


def all_topics() -> list[str]:
    return [*FEW_TOPICS, *(topic_of(file, fault) for file in PARTITION_FILES for fault in FAULTS)]


def value(topic: str, offset: int) -> bytes:
    return b"%d other " % offset + b"x" * 300 if topic == "other" else b"%d " % offset + b"x" * 300


def _has_transactions(topic: str) -> bool:
    return topic == "transactions" or topic.startswith("c-txnindex")


def expected_records(topic: str) -> dict[int, bytes]:
    """Return the values that a reader of committed records receives, by offset."""
    hidden = (*_ABORTED, _MARKER) if _has_transactions(topic) else ()
    return {offset: value(topic, offset) for offset in range(COUNT) if offset % 10 not in hidden}


def produce_all(client: NodeClient, topics: Iterable[str]) -> None:
    """Fill all topics except those with transactions, which ``write_transactions`` fills."""
    topics = [topic for topic in topics if not _has_transactions(topic)]
    for offset in range(COUNT):
        client.produce(topics, [value(topic, offset) for topic in topics])


def wait_for_directories(data: Path, topics: Iterable[str], *, timeout_s: float = 30.0) -> None:
    """Wait for the directories. A node creates the log of a new partition soon after the topic, even without writes."""
    ends_s = time.monotonic() + timeout_s
    missing = [topic for topic in topics if _has_transactions(topic)]
    while missing := [topic for topic in missing if not (data / f"{topic}-0").is_dir()]:
        assert time.monotonic() < ends_s, f"no directories for {missing}"
        time.sleep(0.05)


def write_transactions(data: Path, topics: Iterable[str]) -> None:
    """Write transactions into the directories of a stopped node: our node has no coordinator that could end a
    transaction."""
    now_ms = int(time.time() * 1000)
    for topic in topics:
        if _has_transactions(topic):
            _write_transactions(data / f"{topic}-0", topic, now_ms)


def _write_transactions(directory: Path, topic: str, now_ms: int) -> None:
    log, _ = load_log(
        str(directory), TopicPartition(topic, 0), config=TopicConfig(TOPIC_SETTINGS), pool=FilePool(),
        log_start_offset=0, recovery_point=0, is_clean=True, now_ms=now_ms,
    )  # fmt: skip
    epoch, sequence = max(log.latest_epoch, 0), 0
    for offset in range(COUNT):
        record = Record(0, now_ms, None, value(topic, offset))
        if offset % 10 in _ABORTED:
            batch = build_batch(
                [record], producer_id=77, producer_epoch=0, base_sequence=sequence, is_transactional=True
            )
            log.append_as_leader(batch, leader_epoch=epoch, now_ms=now_ms)
            sequence += 1
        elif offset % 10 == _MARKER:
            marker = Record(0, now_ms, bytes(4), bytes(6))
            batch = build_batch([marker], producer_id=77, producer_epoch=0, is_transactional=True, is_control=True)
            log.append_as_leader(batch, leader_epoch=epoch, now_ms=now_ms, origin=AppendOrigin.COORDINATOR)
        else:
            log.append_as_leader(build_batch([record]), leader_epoch=epoch, now_ms=now_ms)
        log.maybe_advance_high_watermark(log.log_end_offset)
    log.close(now_ms)


def partition_file(data: Path, topic: str, file: str) -> Path | None:
    suffix, index = PARTITION_FILES[file]
    directory = data / f"{topic}-0"
    found = sorted(path for path in directory.iterdir() if path.name.endswith(suffix))
    if suffix in (".index", ".timeindex", ".txnindex") and index == -1:
        stem = max(path.stem for path in directory.glob("*.log"))
        found = [path for path in found if path.stem == stem]
    return found[index] if found else None


def node_file(data: Path, file: str) -> Path | None:
    """Return the largest file of that kind."""
    found = sorted(data.glob(NODE_FILES[file]), key=lambda path: (path.stat().st_size, path))
    return found[-1] if found else None
