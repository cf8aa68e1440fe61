"""Checks and prepares one record batch for a partition log.

``protocol.produce_validation`` checks the batches of clients. A coordinator's batch was built in this process: it is
checked only if its topic's settings ask for another form, or for a smaller batch. The leader's fields (base offset,
length, leader epoch) are not part of the checksum: they are written in front of the other bytes, which are not copied.
A replicated batch was checked by its leader, so only its length and checksum are checked here.
"""

from __future__ import annotations

from enum import Enum, auto
from struct import Struct

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.topic_config import TopicConfig
from barnabas.common.topic_partition import TopicPartition
from barnabas.protocol.compression import Compression
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.produce_validation import BatchLimits, ProduceRules, WorkBudget, validate_produced
from barnabas.protocol.record_batch import BatchView
from barnabas.storage.batch_header import (
    BATCH_OVERHEAD,
    CONTROL_FLAG,
    HEADER,
    HEADER_SIZE,
    Buffer,
    crc_matches,
    header_problem,
)
from barnabas.storage.producer_state import EndTransactionMarker

__all__ = [
    "AppendOrigin",
    "ProducedBatch",
    "produce_rules",
    "read_end_transaction_marker",
    "read_produced_batch",
    "read_replicated_batch",
]

_STAMP_SIZE = 16
_USUAL_LIMITS = BatchLimits()
_CONTROL_KEY = Struct(">hh")
_MARKER_VALUE = Struct(">hi")
_ABORT, _COMMIT = 0, 1

_COMPRESSION_NAMES = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


class AppendOrigin(Enum):
    CLIENT = auto()
    COORDINATOR = auto()
    """The group or transaction coordinator of this node: may write control records, without sequence numbers."""
    REPLICATION = auto()
    """A leader, which has already checked the batch."""


class ProducedBatch:
    __slots__ = (
        "attributes",
        "base_sequence",
        "last_offset_delta",
        "marker",
        "max_timestamp",
        "origin",
        "producer_epoch",
        "producer_id",
        "rest",
        "size",
    )

    def __init__(self, origin: AppendOrigin, header: tuple[int, ...], data: Buffer) -> None:
        self.origin = origin
        self.size = len(data)
        self.attributes = header[5]
        self.last_offset_delta = header[6]
        self.max_timestamp = header[8]
        self.producer_id = header[9]
        self.producer_epoch = header[10]
        self.base_sequence = header[11]
        self.marker = read_end_transaction_marker(data) if header[5] & CONTROL_FLAG else None
        self.rest = memoryview(data)[_STAMP_SIZE:]
        """Everything after the leader's fields, as it is written to the log."""


def produce_rules(config: TopicConfig) -> ProduceRules:
    """The requirements of the topic's settings for a batch."""
    compression = _COMPRESSION_NAMES.get(config.compression_type)
    levels = {
        Compression.GZIP: config.compression_gzip_level,
        Compression.LZ4: config.compression_lz4_level,
        Compression.ZSTD: config.compression_zstd_level,
    }
    return ProduceRules(
        max_message_bytes=config.max_message_bytes,
        is_compacted=config.compact,
        is_log_append_time=config.log_append_time,
        timestamp_before_max_ms=config.message_timestamp_before_max_ms,
        timestamp_after_max_ms=config.message_timestamp_after_max_ms,
        compression=compression,
        compression_level=None if compression is None else levels.get(compression),
    )


def read_produced_batch(
    records: Buffer,
    rules: ProduceRules,
    *,
    now_ms: int,
    origin: AppendOrigin,
    partition: TopicPartition,
    budget: WorkBudget | None = None,
    limits: BatchLimits | None = None,
) -> ProducedBatch:
    """Read the one batch of a produce request; ApiException if the topic rejects it.

    Needs no log, and may run on any thread. WorkBudgetExceeded means that it should.
    """
    if origin is AppendOrigin.COORDINATOR and _is_accepted_as_built(records, rules):
        return ProducedBatch(origin, HEADER.unpack_from(records), records)
    header, data = validate_produced(
        records,
        rules,
        now_ms=now_ms,
        partition=partition,
        is_client=origin is AppendOrigin.CLIENT,
        budget=budget,
        limits=limits or _USUAL_LIMITS,
    )
    return ProducedBatch(origin, header, data)


def _is_accepted_as_built(batch: Buffer, rules: ProduceRules) -> bool:
    return len(batch) <= rules.max_message_bytes and rules.compression is None and not rules.is_log_append_time


def read_replicated_batch(records: memoryview, *, partition: TopicPartition) -> ProducedBatch:
    """Read the first of the batches that a leader sent, offsets and epoch included."""
    if len(records) < HEADER_SIZE:
        raise _corrupt(partition, f"{len(records)} bytes are not a record batch")
    header = HEADER.unpack_from(records)
    problem = header_problem(header[1], header[3], header[6], header[12])
    if problem is not None:
        raise _corrupt(partition, problem)
    size = header[1] + BATCH_OVERHEAD
    if size > len(records):
        raise _corrupt(partition, f"the batch is cut at {len(records)} of {size} bytes")
    data = records[:size]
    if not crc_matches(data, header[4]):
        raise _corrupt(partition, "the checksum is wrong")
    return ProducedBatch(AppendOrigin.REPLICATION, header, data)


def read_end_transaction_marker(batch: Buffer) -> EndTransactionMarker | None:
    """Return the end of its producer's transaction in a control batch; None for other or removed control records."""
    try:
        record = next(BatchView(batch).records(), None)
    except DecodeError:
        return None
    if record is None or record.key is None or record.value is None:
        return None
    if len(record.key) < _CONTROL_KEY.size or len(record.value) < _MARKER_VALUE.size:
        return None
    kind = _CONTROL_KEY.unpack_from(record.key)[1]
    if kind not in (_ABORT, _COMMIT):
        return None
    return EndTransactionMarker(kind == _ABORT, _MARKER_VALUE.unpack_from(record.value)[1])


def _corrupt(partition: TopicPartition, reason: str) -> ApiException:
    return ApiException(ErrorCode.CORRUPT_MESSAGE, f"Record batch for {partition} is corrupt: {reason}")
