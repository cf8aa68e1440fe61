"""Follows the metadata logs of running controllers: records which brokers the cluster fenced and unfenced, and when.

A record counts from the moment at which the first controller has it on disk, by the clock of this process: the clocks
of the nodes may jump. Records that a leader wrote after it lost its followers were never committed: records at or
behind the start of a later epoch are dropped.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from barnabas.protocol.errors import CorruptRecordError
from barnabas.protocol.record_batch import BATCH_HEADER, LOG_OVERHEAD, BatchView
from barnabas.protocol.record_serde import decode_metadata_record
from barnabas.protocol.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from barnabas.protocol.records.fence_broker_record import FenceBrokerRecord

__all__ = ["Fencing", "MetadataWatch"]

_EVERY_S = 0.1
_STARVED_S = 1.0
_FENCED = 1


class Fencing(NamedTuple):
    broker_id: int
    offset: int
    epoch: int
    seen_s: float
    """Time by the monotonic clock."""

    def __str__(self) -> str:
        return f"broker {self.broker_id} was fenced at {self.seen_s:.1f} s (offset {self.offset}, epoch {self.epoch})"


class _Log:
    """One controller's log file, up to the position that was read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path: Path | None = None
        self._position = 0
        self._last = b""
        """The last batch before ``_position``."""

    def new_batches(self) -> list[BatchView]:
        """Return the complete batches appended since the last call. After a truncation the segment's batches are
        returned again."""
        batches: list[BatchView] = []
        for path in sorted(self._folder.glob("*.log")):
            if self._path is not None and path < self._path:
                continue
            if path != self._path:
                self._path, self._position, self._last = path, 0, b""
            batches += self._new_batches_of(path)
        return batches

    def _new_batches_of(self, path: Path) -> list[BatchView]:
        with path.open("rb") as file:
            if self._was_cut(file):
                self._position, self._last = 0, b""
            file.seek(self._position)
            data = file.read()
        batches, at, last = [], 0, self._last
        while at + BATCH_HEADER.size <= len(data):
            size = LOG_OVERHEAD + int.from_bytes(data[at + 8 : at + 12], "big")
            if size < BATCH_HEADER.size or at + size > len(data):
                break
            try:
                batches.append(BatchView(data, at))
            except CorruptRecordError:  # The batch is being written.
                break
            last = data[at : at + size]
            at += size
        self._position, self._last = self._position + at, last
        return batches

    def _was_cut(self, file: BinaryIO) -> bool:
        """Return whether the batch that was read last was truncated. The log may have grown beyond its position
        again."""
        file.seek(self._position - len(self._last))
        return file.read(len(self._last)) != self._last


class MetadataWatch:
    """Collects ``fencings`` inside a ``with`` block."""

    def __init__(self, log_directories: Sequence[Path]) -> None:
        self._logs = [_Log(directory / "__cluster_metadata-0") for directory in log_directories]
        self._seen_s: dict[tuple[int, int], float] = {}
        self._fencings: dict[tuple[int, int], list[Fencing]] = {}
        self._epoch_starts: dict[int, int] = {}
        self.starved_s: list[tuple[float, float]] = []
        """When this thread did not run for a second: the machine was overloaded, for the nodes as well."""
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metadata-watch", daemon=True)

    def __enter__(self) -> MetadataWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def fencings(self) -> list[Fencing]:
        """Return the fencings in log order, without those that a later epoch replaced."""
        starts = sorted(self._epoch_starts.items())
        return [
            fencing
            for _, found in sorted(self._fencings.items())
            for fencing in found
            if all(start > fencing.offset for epoch, start in starts if epoch > fencing.epoch)
        ]

    def _run(self) -> None:
        last_s = time.monotonic()
        while not self._ends.wait(_EVERY_S):
            now_s = time.monotonic()
            if now_s - last_s >= _STARVED_S:
                self.starved_s.append((last_s, now_s))
            self.poll()
            last_s = now_s
        self.poll()

    def poll(self) -> None:
        for log in self._logs:
            for batch in log.new_batches():
                self._take(batch)

    def _take(self, batch: BatchView) -> None:
        key = (batch.base_offset, batch.leader_epoch)
        if key in self._seen_s:
            return
        self._seen_s[key] = time.monotonic()
        start = self._epoch_starts.setdefault(batch.leader_epoch, batch.base_offset)
        self._epoch_starts[batch.leader_epoch] = min(start, batch.base_offset)
        if batch.is_control:
            return
        found = []
        for record in batch.records():
            message, _ = decode_metadata_record(record.value or b"")
            if isinstance(message, BrokerRegistrationChangeRecord) and message.fenced == _FENCED:
                broker_id = message.broker_id
            elif isinstance(message, FenceBrokerRecord):
                broker_id = message.id
            else:
                continue
            found.append(Fencing(broker_id, record.offset, batch.leader_epoch, self._seen_s[key]))
        if found:
            self._fencings[key] = found
