"""A metadata log on disk that a test writes record by record, without a quorum."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.raft.batch_accumulator import BatchAccumulator
from barnabas.raft.replica_key import OffsetAndEpoch
from barnabas.server.metadata_log.record_serde import MetadataRecordSerde
from barnabas.storage.metadata_log import MetadataLog
from barnabas.storage.snapshot_file import RawSnapshotWriter, SnapshotWriter

__all__ = ["Log"]


class Log:
    """A metadata log with a batch for each call."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.log = MetadataLog(str(folder), **options)
        self.path = Path(self.log.directory) / f"{0:020d}.log"

    def append(self, *messages: Any, time_ms: int = 5) -> None:
        accumulator = BatchAccumulator(
            epoch=1, base_offset=self.log.end_offset, serde=MetadataRecordSerde(), batch_max_bytes=1 << 20,
            batch_max_records=1000,
        )  # fmt: skip
        accumulator.append([ApiMessageAndVersion(message, 0) for message in messages], time_ms, is_atomic=True)
        for batch in accumulator.drain():
            self.log.append(batch)

    def snapshot(self, messages: Sequence[Any], *, offset: int | None = None, time_ms: int = 5) -> Path:
        end = self.log.end_offset if offset is None else offset
        raw = RawSnapshotWriter(self.log.directory, OffsetAndEpoch(end, 1), token="x")
        writer = SnapshotWriter(raw, last_contained_log_timestamp=time_ms, now_ms=9, serde=MetadataRecordSerde())
        writer.append([ApiMessageAndVersion(message, 0) for message in messages])
        writer.freeze()
        return Path(raw.path)
