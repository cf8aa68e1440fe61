"""The logs of stopped brokers: every replica holds the same bytes, batch by batch.

How a log is cut into segments is each broker's own affair, and so is how much of its head is deleted already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from barnabas.protocol.record_batch import BatchView, iter_batches
from tests.history.violations import Broken, Violation

__all__ = ["batch_at", "compare_replicas", "compare_topics", "read_batches"]

_CONSUMER_OFFSETS = "__consumer_offsets"


def read_batches(partition: Path) -> dict[int, bytes]:
    """By base offset."""
    return {
        batch.base_offset: bytes(batch.tobytes())
        for segment in sorted(partition.glob("*.log"))
        for batch in iter_batches(segment.read_bytes())
    }


def batch_at(partition: Path, offset: int) -> str:
    """Who wrote the batch with this offset, as its header tells."""
    for data in read_batches(partition).values():
        batch = BatchView(data)
        if batch.base_offset <= offset <= batch.last_offset:
            return (
                f"{offset} in {batch.base_offset} to {batch.last_offset}: producer {batch.producer_id}, epoch"
                f" {batch.producer_epoch}, sequence {batch.base_sequence}, leader epoch {batch.leader_epoch},"
                f" CRC {data[17:21].hex()}, written by {batch.max_timestamp}"
            )
    return f"{offset}: nothing"


def compare_replicas(
    partition: str, logs: Mapping[str, dict[int, bytes]], *, end: int | None = None
) -> list[Violation]:
    """``logs`` by broker. Batches from ``end`` on, a high watermark, are not compared."""
    found: list[Violation] = []
    (first, reference), *others = sorted(logs.items())
    for name, batches in others:
        start = max(min(log, default=0) for log in (reference, batches))
        for offset in sorted(reference.keys() | batches.keys()):
            if offset < start or (end is not None and offset >= end):
                continue
            if reference.get(offset) != batches.get(offset):
                told = f"{first}: {_told(reference.get(offset))}; {name}: {_told(batches.get(offset))}"
                found.append(Violation(Broken.UNEQUAL, f"{partition} at offset {offset}: {told}"))
                break  # What follows differs for the same reason.
    return found


def compare_topics(folders: Mapping[str, Path], is_wanted: Callable[[str], bool]) -> tuple[int, list[Violation]]:
    """How many batches of the wanted topics the brokers have in common, and where they differ."""
    partitions = {
        each.name
        for folder in folders.values()
        for each in folder.iterdir()
        if each.is_dir() and "-" in each.name and not each.name.endswith("-delete") and is_wanted(_topic(each.name))
    }
    count, found = 0, list[Violation]()
    for partition in sorted(partitions):
        logs = {name: read_batches(folder / partition) for name, folder in folders.items()}
        count += len(next(iter(logs.values())))
        found += compare_replicas(partition, logs)
    return count, found


def _topic(partition: str) -> str:
    return partition.rpartition("-")[0]


def _told(batch: bytes | None) -> str:
    return "nothing" if batch is None else f"{len(batch)} bytes, CRC {batch[17:21].hex()}, epoch {batch[12:16].hex()}"


def all_named(names: Iterable[str]) -> Callable[[str], bool]:
    wanted = {*names, _CONSUMER_OFFSETS}
    return wanted.__contains__
