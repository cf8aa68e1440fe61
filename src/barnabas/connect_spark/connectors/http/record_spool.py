"""The records of one micro-batch, on the worker's disk: written once in any order, read by topic-partition in order.

Spark returns a batch one of its partitions after another, while requests of all topic-partitions run at once. Small
batches stay in memory.
"""

from __future__ import annotations

import tempfile
import threading
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from barnabas.common.topic_partition import TopicPartition
from barnabas.connect_spark.connectors.http.request_batch import HttpRecord

__all__ = ["RecordSpool"]

_MEMORY_BYTES = 16 << 20


class _Index:
    """Where the records of a topic-partition are in the file."""

    def __init__(self) -> None:
        self.offsets = array("q")
        self.places = array("q")
        self.sizes = array("q")
        self.targets = array("q")

    def in_order(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield offset, place, size and target."""
        order: range | list[int] = range(len(self.offsets))
        if any(self.offsets[at] > self.offsets[at + 1] for at in range(len(self.offsets) - 1)):
            order = sorted(order, key=self.offsets.__getitem__)  # Records of several schemas come one after the other.
        for at in order:
            yield self.offsets[at], self.places[at], self.sizes[at], self.targets[at]


class RecordSpool:
    """Add all records, then read them; threads may read at the same time."""

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=_MEMORY_BYTES, dir=str(folder))  # noqa: SIM115
        self._lock = threading.Lock()
        self._indexes: dict[TopicPartition, _Index] = {}
        self._targets: dict[str, int] = {}
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    @property
    def partitions(self) -> list[TopicPartition]:
        return sorted(self._indexes)

    def add(self, partition: TopicPartition, record: HttpRecord) -> None:
        """Add a record. Raise OSError."""
        index = self._indexes.setdefault(partition, _Index())
        index.offsets.append(record.offset)
        index.places.append(self._size)
        index.sizes.append(len(record.body))
        index.targets.append(self._targets.setdefault(record.target, len(self._targets)))
        self._file.write(record.body)
        self._size += len(record.body)

    def records(self, partition: TopicPartition) -> Iterator[HttpRecord]:
        """Yield the records of a topic-partition in the order of their offsets."""
        targets = list(self._targets)
        for offset, place, size, target in self._indexes[partition].in_order():
            with self._lock:
                self._file.seek(place)
                body = self._file.read(size)
            yield HttpRecord(offset, targets[target], body)
