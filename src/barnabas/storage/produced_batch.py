"""One record batch on its way into a partition log: checked, its header read, the bytes behind the stamp ready.

The leader's stamp (base offset, length, leader epoch) is not under the checksum and is written in front of the
producer's own bytes, which are not copied. Only ``message.timestamp.type=LogAppendTime`` and a ``compression.type``
other than the producer's need a new batch.
"""

from __future__ import annotations

from enum import Enum, auto
from struct import Struct

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.topic_config import TopicConfig
from barnabas.common.topic_partition import TopicPartition
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.record_batch import BatchView, stamp_in_place
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

__all__ = ["AppendOrigin", "ProducedBatch", "read_end_transaction_marker", "read_produced_batch"]

_STAMP_SIZE = 16
_CONTROL_KEY = Struct(">hh")
_MARKER_VALUE = Struct(">hi")
_ABORT, _COMMIT = 0, 1


class AppendOrigin(Enum):
    CLIENT = auto()
    COORDINATOR = auto()
    """The group or transaction coordinator of this node: may write control records, no sequence numbers."""
    REPLICATION = auto()
    """A leader that has checked the batch already."""


class ProducedBatch:
    __slots__ = (
        "attributes",
        "base_sequence",
        "last_offset_delta",
        "log_append_time",
        "marker",
        "max_timestamp",
        "origin",
        "producer_epoch",
        "producer_id",
        "rest",
        "size",
    )

    def __init__(self, origin: AppendOrigin, header: tuple[int, ...], data: memoryview) -> None:
        self.origin = origin
        self.size = len(data)
        self.attributes = header[5]
        self.last_offset_delta = header[6]
        self.max_timestamp = header[8]
        self.producer_id = header[9]
        self.producer_epoch = header[10]
        self.base_sequence = header[11]
        self.log_append_time = False
        self.marker: EndTransactionMarker | None = None
        self.rest = data[_STAMP_SIZE:]
        """Everything behind the stamp, as it will be in the log."""


def read_produced_batch(
    records: Buffer, config: TopicConfig, *, now_ms: int, origin: AppendOrigin, partition: TopicPartition
) -> ProducedBatch:
    """Read the one batch of a produce request (or the next one that a leader sent); ApiException if it is no good."""
    view = memoryview(records)
    if len(view) < HEADER_SIZE:
        raise _corrupt(partition, f"{len(view)} bytes are no record batch")
    header = HEADER.unpack_from(view)
    problem = header_problem(header[1], header[3], header[6], header[12])
    if problem is not None:
        if header[3] in (0, 1):
            raise ApiException(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, f"Message format {header[3]} is not supported")
        raise _corrupt(partition, problem)
    size = header[1] + BATCH_OVERHEAD
    if size > len(view):
        raise _corrupt(partition, f"the batch is cut at {len(view)} of {size} bytes")
    data = view[:size]
    if origin is AppendOrigin.CLIENT and size > config.max_message_bytes:
        raise ApiException(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch size in the append to {partition} is {size} bytes which exceeds "
            f"the maximum configured value of {config.max_message_bytes}.",
        )
    if not crc_matches(data, header[4]):
        raise _corrupt(partition, "the checksum is wrong")
    batch = ProducedBatch(origin, header, data)
    if origin is AppendOrigin.REPLICATION:
        if batch.attributes & CONTROL_FLAG:
            batch.marker = read_end_transaction_marker(data)
        return batch
    if batch.attributes & CONTROL_FLAG:
        batch.marker = read_end_transaction_marker(data)
    if config.log_append_time:
        _stamp_append_time(batch, data, now_ms)
    return batch


def read_end_transaction_marker(batch: Buffer) -> EndTransactionMarker | None:
    """What a control batch says about its producer's transaction; None for other control records or an emptied one."""
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


def _stamp_append_time(batch: ProducedBatch, data: memoryview, now_ms: int) -> None:
    copy = bytearray(data)
    stamp_in_place(copy, 0, 0, 0, log_append_time_ms=now_ms)
    batch.rest = memoryview(copy)[_STAMP_SIZE:]
    batch.log_append_time = True
    batch.max_timestamp = now_ms


def _corrupt(partition: TopicPartition, reason: str) -> ApiException:
    return ApiException(ErrorCode.CORRUPT_MESSAGE, f"Record batch for {partition} is corrupt: {reason}")
