"""The logs of stopped brokers: every replica holds the same bytes, batch by batch.

Each broker decides how it splits a log into segments and how much of the head it has already deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from barnabas.protocol.record_batch import BatchView, iter_batches
from tests.history.violations import Broken, Violation

__all__ = ["INTERNAL_TOPICS", "all_named", "batch_at", "compare_replicas", "compare_topics", "read_batches"]

INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state", "__share_group_state")


def read_batches(partition: Path) -> dict[int, bytes]:
    """Return the batches of a partition by base offset."""
    return {
        batch.base_offset: bytes(batch.tobytes())
        for segment in sorted(partition.glob("*.log"))
        for batch in iter_batches(segment.read_bytes())
    }


def batch_at(partition: Path, offset: int) -> str:
    """Describe the batch with this offset and its writer, from its header."""
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
                difference = f"{first}: {_summary(reference.get(offset))}; {name}: {_summary(batches.get(offset))}"
                found.append(Violation(Broken.UNEQUAL, f"{partition} at offset {offset}: {difference}"))
                break  # What follows differs for the same reason.
    return found


def compare_topics(
    folders: Mapping[str, Path], is_wanted: Callable[[str], bool], *, ends: Mapping[str, int] | None = None
) -> tuple[int, list[Violation]]:
    """Return the number of batches of the wanted topics that the brokers have in common, and the differences.

    ``ends``: high watermarks of some partitions, whose batches from there on are not compared.
    """
    partitions = {
        path.name
        for folder in folders.values()
        for path in folder.iterdir()
        if path.is_dir() and "-" in path.name and not path.name.endswith("-delete") and is_wanted(_topic(path.name))
    }
    count, found = 0, list[Violation]()
    for partition in sorted(partitions):
        logs = {name: read_batches(folder / partition) for name, folder in folders.items()}
        count += len(next(iter(logs.values())))
        found += compare_replicas(partition, logs, end=(ends or {}).get(partition))
    return count, found


def _topic(partition: str) -> str:
    return partition.rpartition("-")[0]


def _summary(batch: bytes | None) -> str:
    return "nothing" if batch is None else f"{len(batch)} bytes, CRC {batch[17:21].hex()}, epoch {batch[12:16].hex()}"


def all_named(names: Iterable[str]) -> Callable[[str], bool]:
    wanted = {*names, *INTERNAL_TOPICS}
    return wanted.__contains__
