"""Follows the metadata logs of running controllers: which brokers the cluster fenced and unfenced, and when.

A record counts from the moment at which the first controller has it on disk, by the clock of this process: the clocks
of the nodes may jump. Records that were cut off again are forgotten.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

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
    """Of the monotonic clock."""

    def __str__(self) -> str:
        return f"broker {self.broker_id} was fenced at {self.seen_s:.1f} s (offset {self.offset}, epoch {self.epoch})"


class _Log:
    """One controller's log file, as far as it was read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path: Path | None = None
        self._position = 0

    def new_batches(self) -> list[BatchView]:
        """Whole batches that were appended since the last call; all of them again after the log was cut."""
        segments = sorted(self._folder.glob("*.log"))
        if not segments:
            return []
        path = segments[-1]
        if path != self._path or path.stat().st_size < self._position:
            self._path, self._position = path, 0
        with path.open("rb") as file:
            file.seek(self._position)
            data = file.read()
        batches, at = [], 0
        while at + BATCH_HEADER.size <= len(data):
            size = LOG_OVERHEAD + int.from_bytes(data[at + 8 : at + 12], "big")
            if size <= LOG_OVERHEAD or at + size > len(data):
                break
            try:
                batches.append(BatchView(data, at))
            except CorruptRecordError:  # The log was cut, and has grown beyond this place again.
                self._position = 0
                return batches
            at += size
        self._position += at
        return batches


class MetadataWatch:
    """``with`` it running, ``fencings`` grows."""

    def __init__(self, log_directories: Sequence[Path]) -> None:
        self._logs = [_Log(directory / "__cluster_metadata-0") for directory in log_directories]
        self._seen_s: dict[tuple[int, int], float] = {}
        self._fencings: dict[tuple[int, int], list[Fencing]] = {}
        self.starved_s: list[tuple[float, float]] = []
        """When this thread did not run for a second: the machine had too much to do, for the nodes as well."""
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metadata-watch", daemon=True)

    def __enter__(self) -> MetadataWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def fencings(self) -> list[Fencing]:
        """In order of the log. A record of an epoch that lost its place to a later epoch is left out."""
        newest: dict[int, list[Fencing]] = {}
        for (offset, _), found in sorted(self._fencings.items()):
            newest[offset] = found
        return [fencing for found in newest.values() for fencing in found]

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
