"""Validates a record batch before it is appended to a log, by Kafka's rules (its ``LogValidator``).

A produce request carries exactly one batch per partition: format 2, base offset 0, right checksum, as many records as
in its header, no control records. Every record is checked, also inside compressed batches, because an unreadable batch
would break all consumers and the log cleaner. The bytes are passed on unchanged unless the topic requires a change
(another compression, the time of the append) or the producer's offsets are wrong.

The result is the batch for the log; base offset and leader epoch, which the checksum does not cover, are still to be
set. Calls keep no state, so a large batch may be validated on another thread: a caller that must not block limits the
work of one call with a ``WorkBudget``.
"""

from __future__ import annotations

from struct import error as StructError
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from barnabas.common.crc32c import crc32c
from barnabas.common.errors import ApiException, ErrorCode, InvalidRecords
from barnabas.protocol.compression import Compression, compress, decompress
from barnabas.protocol.errors import DecodeError, DecompressionLimitExceeded, InvalidRecordError
from barnabas.protocol.record_batch import (
    ATTRIBUTE_CONTROL,
    ATTRIBUTE_LOG_APPEND_TIME,
    BATCH_HEADER,
    BATCH_HEADER_SIZE,
    COMPRESSION_MASK,
    CRC_START,
    LOG_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    Record,
    parse_records,
    set_max_timestamp,
)
from barnabas.protocol.record_batch_builder import encode_record, with_header
from barnabas.protocol.record_walk import HeaderAllowance, RecordWalk, walk_compressed, walk_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "BatchLimits",
    "ProduceRules",
    "RecordError",
    "ValidatedBatch",
    "WorkBudget",
    "WorkBudgetExceeded",
    "validate_produced",
]

TIMESTAMP_LIMIT_NONE: Final = 0x7FFFFFFFFFFFFFFF
RECORD_COUNT_MAX: Final = 1_000_000
"""Kafka has no such limit, but checking each record takes about half a microsecond here, and a few kilobytes can
claim many millions. Clients stay far below: 16 KiB is the usual size of a batch, 1 MiB the default limit of a topic."""
DECOMPRESSED_SIZE_MAX: Final = 64 * 1024 * 1024
_ERRORS_SHOWN = 3
_ERRORS_LISTED = 2_000
"""Kafka lists every bad record; a million of them would take seconds to write into a response."""
_REWRITE_COST = 4
"""Compressing, or naming each bad record, takes this many times as long as reading the same bytes."""
_RATIO_EXPECTED = 4
_PAUSED_AFTER = 1_000
"""Records that are read as objects before a thread pauses."""
_COMPRESSIONS = tuple(Compression)
_INT64_MIN, _INT64_MAX = -0x8000000000000000, 0x7FFFFFFFFFFFFFFF


class RecordError(NamedTuple):
    """The reason why one record of a batch was refused."""

    batch_index: int
    message: str


class WorkBudgetExceeded(Exception):
    """The batch takes more work than the caller's budget; it may be valid or not."""


class WorkBudget:
    """How much validation a caller can wait for, over all batches of one request: some 10 ms at most.

    Bytes are those that must be compressed or decompressed; the compressed size is known beforehand, and a large batch
    is not even tried. The first record of a partition creates a directory and files, which is slow on a busy disk.
    """

    __slots__ = ("bytes_left", "headers_left", "new_logs_left", "records_left")

    def __init__(
        self,
        records: int = 12_000,
        data_bytes: int = 2 * 1024 * 1024,
        new_logs: int = 16,
        headers: int = 6_000,
    ) -> None:
        self.records_left = records
        self.headers_left = headers
        self.bytes_left = data_bytes
        self.new_logs_left = new_logs

    def spend(self, records: int, data_bytes: int) -> None:
        """Use a part of the budget; if less is left, raise WorkBudgetExceeded and use nothing."""
        if records > self.records_left or data_bytes > self.bytes_left:
            raise WorkBudgetExceeded
        self.records_left -= records
        self.bytes_left -= data_bytes

    def take_new_log(self) -> bool:
        """Return whether one more log can be created."""
        self.new_logs_left -= 1
        return self.new_logs_left >= 0


class BatchLimits:
    """The requirements on a batch of any topic.

    ``pause`` is for a thread: it is called between pieces of about a millisecond, so that the loop can run.
    """

    __slots__ = ("decompressed_bytes", "headers", "pause", "record_headers")

    def __init__(
        self,
        *,
        headers: int = 200_000,
        record_headers: int = 10_000,
        decompressed_bytes: int = DECOMPRESSED_SIZE_MAX,
        pause: Callable[[], None] | None = None,
    ) -> None:
        self.headers = headers
        self.record_headers = record_headers
        self.decompressed_bytes = decompressed_bytes
        self.pause = pause

    def allowance(self, budget: WorkBudget | None) -> HeaderAllowance:
        if budget is not None and budget.headers_left < self.headers:
            return HeaderAllowance(self.record_headers, budget.headers_left, WorkBudgetExceeded)
        return HeaderAllowance(self.record_headers, self.headers, self._too_many_headers)

    def _too_many_headers(self) -> InvalidRecordError:
        return InvalidRecordError(f"The batch has more than the {self.headers} headers that are accepted")


_USUAL_LIMITS = BatchLimits()


class ProduceRules:
    """The requirements of a topic's settings on a batch. ``compression`` None leaves that to the producer."""

    __slots__ = (
        "compression",
        "compression_level",
        "decompressed_size_max",
        "is_compacted",
        "is_log_append_time",
        "max_message_bytes",
        "timestamp_after_max_ms",
        "timestamp_before_max_ms",
    )

    def __init__(
        self,
        *,
        max_message_bytes: int = 1_048_588,
        is_compacted: bool = False,
        is_log_append_time: bool = False,
        timestamp_before_max_ms: int = TIMESTAMP_LIMIT_NONE,
        timestamp_after_max_ms: int = 3_600_000,
        compression: Compression | None = None,
        compression_level: int | None = None,
        decompressed_size_max: int = DECOMPRESSED_SIZE_MAX,
    ) -> None:
        self.max_message_bytes = max_message_bytes
        self.is_compacted = is_compacted
        self.is_log_append_time = is_log_append_time
        self.timestamp_before_max_ms = timestamp_before_max_ms
        self.timestamp_after_max_ms = timestamp_after_max_ms
        self.compression = compression
        self.compression_level = compression_level
        self.decompressed_size_max = decompressed_size_max


class ValidatedBatch(NamedTuple):
    """A batch ready for the log: its header fields, in the order of ``BATCH_HEADER``, and all of its bytes.

    ``data`` is the producer's own buffer where nothing had to change, and a ``bytearray`` otherwise.
    """

    header: tuple[int, ...]
    data: bytes | bytearray | memoryview


def validate_produced(
    records: bytes | bytearray | memoryview | None,
    rules: ProduceRules,
    *,
    now_ms: int,
    partition: object,
    is_client: bool = True,
    budget: WorkBudget | None = None,
    limits: BatchLimits = _USUAL_LIMITS,
) -> ValidatedBatch:
    """Check the records of one partition of a produce request; ApiException carries the error for the client.

    ``partition`` is only named in messages. Without ``is_client`` (a coordinator of this node writes) control records
    are allowed, and the writer is responsible for offsets, sequences and timestamps: a coordinator's clock does not
    follow changes of the wall clock, and its groups must continue when the wall clock is set back by hours. With a
    ``budget`` WorkBudgetExceeded is raised for a batch that takes longer; call again without one where that does not
    matter.
    """
    header, data = _exactly_one_batch(records, partition)
    size, crc, attributes, base_timestamp, count = header[1] + LOG_OVERHEAD, header[4], header[5], header[7], header[12]
    if is_client and header[0] != 0:
        _refuse(f"The baseOffset of the record batch in the append to {partition} should be 0, but it is {header[0]}")
    if size > rules.max_message_bytes:
        raise _too_large(size, rules, partition)
    computed = crc32c(memoryview(data)[CRC_START:])
    if computed != crc:
        raise ApiException(
            ErrorCode.CORRUPT_MESSAGE,
            f"Record is corrupt (stored crc = {crc}, computed crc = {computed}) in topic partition {partition}.",
        )
    if is_client:
        _check_client_header(header, partition)
    code = attributes & COMPRESSION_MASK
    if code >= len(_COMPRESSIONS):
        raise ApiException(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Unknown compression type id: {code}")

    if budget is not None:
        is_compressed_anew = rules.compression is not None and rules.compression != code
        budget.spend(count, _REWRITE_COST * size if is_compressed_anew else 0)
    try:
        walk = _walk(data, code, count, min(rules.decompressed_size_max, limits.decompressed_bytes), budget, limits)
        if attributes & ATTRIBUTE_LOG_APPEND_TIME:  # Then the maximum is the time of all records.
            min_timestamp = max_timestamp = header[8]
        else:
            min_timestamp = base_timestamp + walk.min_timestamp_delta
            max_timestamp = max(base_timestamp + walk.max_timestamp_delta, NO_TIMESTAMP)
        if min_timestamp < _INT64_MIN or max_timestamp > _INT64_MAX:
            _refuse(f"A timestamp of the record batch for {partition} does not fit 64 bits")
        if rules.is_log_append_time:
            is_suspicious = attributes & ATTRIBUTE_LOG_APPEND_TIME
        elif not is_client:
            is_suspicious = False
        else:
            is_suspicious = (
                max_timestamp > now_ms + rules.timestamp_after_max_ms
                or min_timestamp < now_ms - rules.timestamp_before_max_ms
            )
        is_suspicious = is_suspicious or (walk.null_key_count and rules.is_compacted)
        if budget is not None and (is_suspicious or not walk.is_in_order):
            budget.spend(_REWRITE_COST * count, _REWRITE_COST * walk.size)
        if is_suspicious:
            _refuse_records(header, data, code, rules, now_ms=now_ms, partition=partition, pause=limits.pause)
        if code and not walk.is_in_order:
            _refuse(f"The offsets inside the compressed record batch for {partition} are not 0, 1, 2, ...")
        return _as_topic_wants(
            ValidatedBatch(header, data), walk, max_timestamp, rules, now_ms, partition, limits.pause
        )
    except DecompressionLimitExceeded as error:
        raise ApiException(ErrorCode.MESSAGE_TOO_LARGE, f"{error} in topic partition {partition}.") from None
    except DecodeError as error:
        raise ApiException(ErrorCode.INVALID_RECORD, f"{error} in topic partition {partition}.") from None


def _check_client_header(header: tuple[int, ...], partition: object) -> None:
    _, _, _, _, _, attributes, last_offset_delta, _, _, producer_id, _, base_sequence, count = header
    if count <= 0:
        _refuse(f"Invalid reported count for record batch: {count} in topic partition {partition}")
    if count > RECORD_COUNT_MAX:
        raise ApiException(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"A record batch with {count} records has more than the {RECORD_COUNT_MAX} that are accepted "
            f"in topic partition {partition}",
        )
    if last_offset_delta + 1 != count:
        _refuse(
            f"Inconsistent batch offset range [0, {last_offset_delta}] and count of records {count} "
            f"in topic partition {partition}"
        )
    if attributes & ATTRIBUTE_CONTROL:
        _refuse(f"Clients are not allowed to write control records in topic partition {partition}")
    if producer_id >= 0 and base_sequence < 0:
        _refuse(
            f"Invalid sequence number {base_sequence} in record batch with producerId {producer_id} "
            f"in topic partition {partition}"
        )


def _exactly_one_batch(
    records: bytes | bytearray | memoryview | None, partition: object
) -> tuple[tuple[int, ...], bytes | bytearray | memoryview]:
    """Return the header and the bytes of the only batch; a cut second one is ignored, as in Kafka."""
    if not records:
        _refuse(f"Produce requests must have at least one record batch per partition, but {partition} has none")
    try:
        header = BATCH_HEADER.unpack_from(records)
    except StructError:
        _refuse(f"Produce requests must have at least one whole record batch per partition, but {partition} has none")
    if header[3] != MAGIC:
        if header[3] not in (0, 1):
            raise ApiException(ErrorCode.CORRUPT_MESSAGE, f"Invalid magic found in record: {header[3]}")
        _refuse(
            f"Produce requests are only allowed to contain record batches with magic version 2, "
            f"but {partition} has magic {header[3]}"
        )
    size, available = header[1] + LOG_OVERHEAD, len(records)
    if size == available:
        return header, records
    if size < BATCH_HEADER_SIZE:
        raise ApiException(
            ErrorCode.CORRUPT_MESSAGE, f"Record batch length {header[1]} is too small in topic partition {partition}."
        )
    if size > available:
        _refuse(f"Produce requests must have at least one whole record batch per partition, but {partition} has none")
    if available - size >= LOG_OVERHEAD:
        following = int.from_bytes(records[size + 8 : size + LOG_OVERHEAD], "big", signed=True) + LOG_OVERHEAD
        if following <= available - size:
            _refuse(f"Produce requests are only allowed to contain exactly one record batch, {partition} has more")
    return header, memoryview(records)[:size]


def _walk(
    data: bytes | bytearray | memoryview,
    code: int,
    count: int,
    size_max: int,
    budget: WorkBudget | None,
    limits: BatchLimits,
) -> RecordWalk:
    headers = limits.allowance(budget)
    before = headers.left
    try:
        return _walk_within(data, code, count, size_max, budget, headers, limits.pause)
    finally:
        if budget is not None:
            budget.headers_left -= before - max(headers.left, 0)


def _walk_within(
    data: bytes | bytearray | memoryview,
    code: int,
    count: int,
    size_max: int,
    budget: WorkBudget | None,
    headers: HeaderAllowance,
    pause: Callable[[], None] | None,
) -> RecordWalk:
    if not code:
        return walk_records(data if type(data) is bytes else bytes(data), BATCH_HEADER_SIZE, count, headers, pause)
    section = memoryview(data)[BATCH_HEADER_SIZE:]
    if budget is None or budget.bytes_left >= size_max:
        return walk_compressed(_COMPRESSIONS[code], section, count, size_max, headers, pause)
    if _RATIO_EXPECTED * len(section) > budget.bytes_left:
        raise WorkBudgetExceeded
    try:
        walk = walk_compressed(_COMPRESSIONS[code], section, count, budget.bytes_left, headers, pause)
    except DecompressionLimitExceeded:
        budget.bytes_left = 0
        raise WorkBudgetExceeded from None
    budget.bytes_left -= walk.size
    return walk


def _as_topic_wants(
    batch: ValidatedBatch,
    walk: RecordWalk,
    max_timestamp: int,
    rules: ProduceRules,
    now_ms: int,
    partition: object,
    pause: Callable[[], None] | None,
) -> ValidatedBatch:
    header, data = batch
    attributes = header[5]
    if rules.is_log_append_time:
        max_timestamp = now_ms
        attributes |= ATTRIBUTE_LOG_APPEND_TIME
    else:
        attributes &= ~ATTRIBUTE_LOG_APPEND_TIME
    is_other_compression = rules.compression is not None and rules.compression != attributes & COMPRESSION_MASK
    if is_other_compression or not walk.is_in_order:
        return _rewritten(batch, walk, attributes, max_timestamp, rules, partition, pause)
    if max_timestamp != header[8] or attributes != header[5]:
        data = bytearray(data)
        set_max_timestamp(data, 0, attributes, max_timestamp)
        return ValidatedBatch(BATCH_HEADER.unpack_from(data), data)
    return batch


def _rewritten(
    batch: ValidatedBatch,
    walk: RecordWalk,
    attributes: int,
    max_timestamp: int,
    rules: ProduceRules,
    partition: object,
    pause: Callable[[], None] | None,
) -> ValidatedBatch:
    """Compress the records as the topic requires, and count their offsets from 0 if the producer did not."""
    header, data = batch
    source = _COMPRESSIONS[attributes & COMPRESSION_MASK]
    target = source if rules.compression is None else rules.compression
    section = decompress(source, memoryview(data)[BATCH_HEADER_SIZE:], rules.decompressed_size_max)
    if not walk.is_in_order:
        section = _renumbered(section, header, pause)
    rewritten = bytearray(
        with_header(
            compress(target, section, rules.compression_level),
            base_offset=header[0],
            leader_epoch=header[2],
            attributes=attributes & ~COMPRESSION_MASK | target,
            last_offset_delta=header[6],
            base_timestamp=header[7],
            max_timestamp=max_timestamp,
            producer_id=header[9],
            producer_epoch=header[10],
            base_sequence=header[11],
            count=header[12],
        )
    )
    if len(rewritten) > rules.max_message_bytes:
        raise _too_large(len(rewritten), rules, partition)
    return ValidatedBatch(BATCH_HEADER.unpack_from(rewritten), rewritten)


def _renumbered(section: bytes, header: tuple[int, ...], pause: Callable[[], None] | None) -> bytes:
    records = _with_pauses(parse_records(section, header[12], 0, 0), pause)
    return b"".join(
        encode_record(index, record.timestamp, record.key, record.value, record.headers)
        for index, record in enumerate(records)
    )


def _refuse_records(
    header: tuple[int, ...],
    data: bytes | bytearray | memoryview,
    code: int,
    rules: ProduceRules,
    *,
    now_ms: int,
    partition: object,
    pause: Callable[[], None] | None,
) -> None:
    """Read the batch again, to name the errors of each record."""
    section = decompress(_COMPRESSIONS[code], memoryview(data)[BATCH_HEADER_SIZE:], rules.decompressed_size_max)
    append_time = header[8] if header[5] & ATTRIBUTE_LOG_APPEND_TIME else None
    earliest, latest = now_ms - rules.timestamp_before_max_ms, now_ms + rules.timestamp_after_max_ms
    code_of_batch = ErrorCode.INVALID_RECORD
    errors: list[RecordError] = []
    error_count = 0
    records = parse_records(section, header[12], header[0], header[7], append_time)
    for index, record in enumerate(_with_pauses(records, pause)):
        if rules.is_compacted and record.key is None:
            text = f"Compacted topic cannot accept message without key in topic partition {partition}"
            error_count += 1
            if error_count <= _ERRORS_LISTED:
                errors.append(RecordError(index, text))
            continue
        if rules.is_log_append_time or record.timestamp == NO_TIMESTAMP:
            if append_time is None:
                continue
            text = (
                f"Invalid timestamp type in message {_described(record)}. "
                "Producer should not set timestamp type to LogAppendTime."
            )
        elif earliest <= record.timestamp <= latest:
            continue
        else:
            text = (
                f"Timestamp {record.timestamp} of message with offset {record.offset} is out of range. "
                f"The timestamp should be within [{earliest}, {latest}]"
            )
        code_of_batch = ErrorCode.INVALID_TIMESTAMP
        error_count += 1
        if error_count <= _ERRORS_LISTED:
            errors.append(RecordError(index, text))
    if not errors:
        return
    if code_of_batch is ErrorCode.INVALID_TIMESTAMP:
        message = "One or more records have been rejected due to invalid timestamp"
    else:
        shown = (f"RecordError(batchIndex={error[0]}, message='{error[1]}')" for error in errors[:_ERRORS_SHOWN])
        message = (
            f"One or more records have been rejected due to {error_count} record errors in total, "
            f"and only showing the first three errors at most: [{', '.join(shown)}]"
        )
    raise InvalidRecords(message, errors, code_of_batch)


def _with_pauses(records: Iterator[Record], pause: Callable[[], None] | None) -> Iterator[Record]:
    if pause is None:
        yield from records
        return
    for index, record in enumerate(records):
        if not index % _PAUSED_AFTER:
            pause()
        yield record


def _described(record: Record) -> str:
    key_size, value_size = len(record.key or b""), len(record.value or b"")
    place = f"offset={record.offset}, timestamp={record.timestamp}"
    return f"DefaultRecord({place}, key={key_size} bytes, value={value_size} bytes)"


def _refuse(message: str) -> NoReturn:
    raise ApiException(ErrorCode.INVALID_RECORD, message)


def _too_large(size: int, rules: ProduceRules, partition: object) -> ApiException:
    return ApiException(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"The record batch size in the append to {partition} is {size} bytes "
        f"which exceeds the maximum configured value of {rules.max_message_bytes}.",
    )
