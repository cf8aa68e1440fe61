"""Short helpers for the tests of partition logs: create batches, append them, read a log back as plain values."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from barnabas.common.topic_config import TopicConfig
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.protocol.compression import Compression
from barnabas.protocol.record_batch import Record, iter_batches
from barnabas.protocol.record_batch_builder import build_batch
from barnabas.storage.file_pool import FilePool
from barnabas.storage.log_recovery import Truncation, load_log
from barnabas.storage.partition_log import AppendInfo, PartitionLog
from barnabas.storage.produced_batch import AppendOrigin

TP = TopicPartition("orders", 0)
TOPIC_ID = Uuid.from_int(12345)
NOW_MS = 1_700_000_000_000


def config(**settings: object) -> TopicConfig:
    """Return topic settings from Python names; ``segment_bytes`` may be below Kafka's minimum."""
    values = {name.replace("_", "."): value for name, value in settings.items()}
    if "segment.bytes" in values:
        values["internal.segment.bytes"] = values.pop("segment.bytes")
    return TopicConfig(values)


def batch(
    *values: bytes | None,
    keys: Sequence[bytes | None] | None = None,
    timestamp: int = NOW_MS,
    timestamps: Sequence[int] | None = None,
    compression: Compression = Compression.NONE,
    **header: object,
) -> bytes:
    """Return one batch with these values, as a producer would send it."""
    records = [
        Record(
            index,
            timestamps[index] if timestamps else timestamp,
            keys[index] if keys is not None else b"k%d" % index,
            value,
        )
        for index, value in enumerate(values)
    ]
    return build_batch(records, compression=compression, **header)  # type: ignore[arg-type]


def marker(producer_id: int, epoch: int, *, commit: bool, coordinator_epoch: int = 0, timestamp: int = NOW_MS) -> bytes:
    """Return the end marker of a transaction, as its coordinator writes it."""
    key = (0).to_bytes(2, "big") + (1 if commit else 0).to_bytes(2, "big")
    value = (0).to_bytes(2, "big") + coordinator_epoch.to_bytes(4, "big")
    return build_batch(
        [Record(0, timestamp, key, value)],
        producer_id=producer_id,
        producer_epoch=epoch,
        is_transactional=True,
        is_control=True,
    )


def new_log(path: Path, settings: TopicConfig | None = None, *, pool: FilePool | None = None) -> PartitionLog:
    path.mkdir(parents=True, exist_ok=True)
    return PartitionLog.create(
        str(path / str(TP)),
        TP,
        topic_id=TOPIC_ID,
        config=settings if settings is not None else TopicConfig(),
        pool=pool if pool is not None else FilePool(),
        now_ms=NOW_MS,
    )


def append(log: PartitionLog, records: bytes, *, epoch: int = 0, now_ms: int = NOW_MS) -> AppendInfo:
    """Append, and advance the high watermark, as with one replica."""
    info = log.append_as_leader(records, leader_epoch=epoch, now_ms=now_ms)
    log.maybe_advance_high_watermark(log.log_end_offset)
    return info


def end_transaction(log: PartitionLog, producer_id: int, epoch: int, *, commit: bool) -> AppendInfo:
    info = log.append_as_leader(
        marker(producer_id, epoch, commit=commit), leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR
    )
    log.maybe_advance_high_watermark(log.log_end_offset)
    return info


def reload(
    directory: Path | str,
    settings: TopicConfig | None = None,
    *,
    is_clean: bool = False,
    log_start_offset: int = 0,
    recovery_point: int = 0,
    now_ms: int = NOW_MS,
    is_same_boot: bool = False,
) -> tuple[PartitionLog, Truncation | None]:
    log, truncation = load_log(
        str(directory),
        TP,
        config=settings if settings is not None else TopicConfig(),
        pool=FilePool(),
        log_start_offset=log_start_offset,
        recovery_point=recovery_point,
        is_clean=is_clean,
        now_ms=now_ms,
        is_same_boot=is_same_boot,
    )
    log.maybe_advance_high_watermark(log.log_end_offset)
    return log, truncation


def killed(log: PartitionLog, target: Path) -> Path:
    """Copy the current files: the state after a kill."""
    shutil.copytree(log.directory, target)
    return target


def all_records(log: PartitionLog, *, max_bytes: int = 1 << 20, start: int | None = None) -> list[Record]:
    """Return every record of the log, or those from ``start`` on, read fetch by fetch as a consumer would."""
    found: list[Record] = []
    offset = log.log_start_offset if start is None else start
    while offset < log.log_end_offset:
        fetched = log.read(offset, max_bytes, min_one_message=True).records
        if not fetched:
            break
        for view in iter_batches(fetched):
            view.ensure_valid()
            found += [record for record in view.records() if record.offset >= offset]
            end = view.next_offset
        offset = end
    return found


def offsets_and_values(log: PartitionLog, start: int | None = None) -> list[tuple[int, bytes | None]]:
    return [(record.offset, record.value) for record in all_records(log, start=start)]
