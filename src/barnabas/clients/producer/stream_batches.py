"""Waiting records of a stream: values alone, or records with keys, headers and times of their own.

Values, and pairs of key and value, are added by the thousand and encoded together, so that a record costs no call.
Records without a partition of their own stay with one partition for ``batch.size`` bytes, and then move to the one with
the least data, as in Kafka's producer (KIP-480, KIP-794).
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate, chain
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from barnabas.clients.producer.batch import NO_PRODUCER, Batch, ProducerId
from barnabas.clients.producer.batch_queues import BatchQueue, BatchQueues
from barnabas.protocol.record_batch import BATCH_HEADER_SIZE
from barnabas.protocol.record_batch_builder import RecordBatchBuilder
from barnabas.protocol.varint import write_varint, write_varlong

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from barnabas.clients.producer.config import ProducerConfig
    from barnabas.protocol.record_batch import Header

__all__ = ["Pair", "PairRun", "StreamAccumulator", "StreamBatch", "StreamRecord", "ValueRun", "encode_pairs"]

_OVERHEAD_MAX = 26
"""Length, attributes, both deltas, two lengths and the number of headers, in a batch of less than a million records."""
_HEADER_OVERHEAD_MAX = 10
_SMALL = tuple(bytes((value << 1,)) for value in range(64))
"""The one-byte varints of 0 to 63."""


class StreamRecord(NamedTuple):
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()


class ValueRun(NamedTuple):
    """Records without key and headers that follow one another, all with one timestamp."""

    timestamp_ms: int
    values: Sequence[bytes]


Pair: TypeAlias = "tuple[bytes | None, bytes | None]"
"""A key and a value."""


class PairRun(NamedTuple):
    """Records with a key and without headers that follow one another, all with one timestamp."""

    timestamp_ms: int
    pairs: Sequence[Pair]


Run: TypeAlias = "ValueRun | PairRun | list[StreamRecord]"


class StreamBatch(Batch):
    """``payload_bytes`` are the bytes of its keys and values."""

    __slots__ = ("_runs", "payload_bytes")

    def __init__(self, partition: int, created_s: float, timestamp_ms: int) -> None:
        super().__init__(partition, created_s, timestamp_ms)
        self.payload_bytes = 0
        self._runs: list[Run] = []

    def append(self, run: Run, count: int, payload_bytes: int) -> None:
        self._runs.append(run)
        self.count += count
        self.payload_bytes += payload_bytes
        self.size += payload_bytes + _OVERHEAD_MAX * count
        if not isinstance(run, list):
            self._max_timestamp = max(self._max_timestamp, run.timestamp_ms)
            return
        self._max_timestamp = max(self._max_timestamp, max(record.timestamp_ms for record in run))
        self.size += sum(map(_headers_size, run))

    def halves(self) -> tuple[StreamBatch, StreamBatch]:
        """Split a batch of several records into two, whose sequences replace that of this one."""
        records = list(chain.from_iterable(map(_records_of, self._runs)))
        middle = self.count // 2
        first, second = (
            _batch_of(self.partition, self.created_s, part) for part in (records[:middle], records[middle:])
        )
        self._replace_by(first, second)
        return first, second

    def _take_records(self) -> bytes:
        # The runs stay: a batch that the cluster refuses as too large is split.
        runs = [run for run in self._runs if isinstance(run, PairRun)]
        if len(runs) == len(self._runs):
            return encode_pairs(runs, self._base_timestamp)
        builder = RecordBatchBuilder()
        for any_run in self._runs:
            if isinstance(any_run, ValueRun):
                builder.append_values(any_run.timestamp_ms, any_run.values)
            else:
                for timestamp_ms, key, value, headers in _records_of(any_run):
                    builder.append(builder.last_offset + 1, timestamp_ms, key, value, headers)
        return builder.build()[BATCH_HEADER_SIZE:]


class StreamAccumulator(BatchQueues[StreamBatch]):
    """``append_values`` and ``append`` return the partitions that now have more. Times are the caller's clock's."""

    def __init__(
        self, partitions: Iterable[int], config: ProducerConfig, *, producer: ProducerId = NO_PRODUCER
    ) -> None:
        super().__init__(partitions, config, producer=producer)
        self._available = list(self._queues.values())
        self._limits: dict[int, int] = {}
        """The maximum bytes of a batch, for partitions that refused larger ones."""
        self._sticky = self._available[0]
        self._sticky_bytes = 0

    @property
    def is_full(self) -> bool:
        return self.buffered_bytes >= self._config.buffer_memory

    def set_available(self, partitions: Collection[int]) -> None:
        """Send new records to partitions with a leader, as long as one exists."""
        led = [queue for partition, queue in self._queues.items() if partition in partitions]
        self._available = led or list(self._queues.values())
        if self._sticky not in self._available:
            self._move_on()

    def append_values(
        self, values: Sequence[bytes], timestamp_ms: int, now: float, partition: int | None = None
    ) -> set[int]:
        """Add values as records without keys, in their order."""
        touched: set[int] = set()
        start = 0
        while start < len(values):
            queue = self._sticky if partition is None else self._queues[partition]
            batch = self._open_batch(queue, now, timestamp_ms)
            rest = values[start:] if start else values
            taken = _fitting(list(map(len, rest)), self._limit_of(queue) - batch.size, is_empty=not batch.count)
            if taken:
                run = ValueRun(timestamp_ms, rest[:taken] if taken < len(rest) else rest)
                self._add_run(queue, batch, run, taken, sum(map(len, run.values)))
                touched.add(queue.partition)
                start += taken
            if start < len(values):
                self._fill(queue, batch)
        return touched

    def append_pairs(
        self, pairs: Sequence[Pair], timestamp_ms: int, now: float, partition: int | None = None
    ) -> set[int]:
        """Add records of these keys and values, in their order."""
        touched: set[int] = set()
        start = 0
        while start < len(pairs):
            queue = self._sticky if partition is None else self._queues[partition]
            batch = self._open_batch(queue, now, timestamp_ms)
            rest = pairs[start:] if start else pairs
            sizes = [len(key or b"") + len(value or b"") for key, value in rest]
            taken = _fitting(sizes, self._limit_of(queue) - batch.size, is_empty=not batch.count)
            if taken:
                self._add_run(queue, batch, PairRun(timestamp_ms, rest[:taken]), taken, sum(sizes[:taken]))
                touched.add(queue.partition)
                start += taken
            if start < len(pairs):
                self._fill(queue, batch)
        return touched

    def append(self, records: Sequence[StreamRecord], now: float, partition: int | None = None) -> set[int]:
        """Add records, in their order."""
        touched: set[int] = set()
        start = 0
        while start < len(records):
            queue = self._sticky if partition is None else self._queues[partition]
            batch = self._open_batch(queue, now, records[start].timestamp_ms)
            rest = records[start:]
            sizes = list(map(_payload_size, rest))
            whole = list(map(int.__add__, sizes, map(_headers_size, rest)))
            taken = _fitting(whole, self._limit_of(queue) - batch.size, is_empty=not batch.count)
            if taken:
                self._add_run(queue, batch, list(rest[:taken]), taken, sum(sizes[:taken]))
                touched.add(queue.partition)
                start += taken
            if start < len(records):
                self._fill(queue, batch)
        return touched

    def divide(self, batch: StreamBatch) -> None:
        """Split a batch that the cluster refused as too large. Later ones of its partition are no larger."""
        self._limits[batch.partition] = min(self._limits.get(batch.partition, batch.size), max(1, batch.size // 2))
        self._replace(batch, batch.halves())

    def _limit_of(self, queue: BatchQueue[StreamBatch]) -> int:
        return min(self._batch_limit, self._limits.get(queue.partition, self._batch_limit))

    def _open_batch(self, queue: BatchQueue[StreamBatch], now: float, timestamp_ms: int) -> StreamBatch:
        """Return the batch that takes the next record: the last one of the queue, or a new one."""
        batch = queue.batches[-1] if queue.batches else None
        if batch is None or batch.is_full or batch.attempts:
            return StreamBatch(queue.partition, now, timestamp_ms)
        return batch

    def _add_run(
        self, queue: BatchQueue[StreamBatch], batch: StreamBatch, run: Run, count: int, payload_bytes: int
    ) -> None:
        before = 0 if not batch.count else batch.size
        if not batch.count:
            queue.batches.append(batch)
        batch.append(run, count, payload_bytes)
        self._add(queue, batch.size - before, count)
        if queue is self._sticky:
            self._sticky_bytes += batch.size - before
            if self._sticky_bytes >= self._batch_limit:
                self._move_on()

    def _fill(self, queue: BatchQueue[StreamBatch], batch: StreamBatch) -> None:
        """Note that the next record does not fit."""
        batch.is_full = True
        if queue is self._sticky:
            self._move_on()

    def _move_on(self) -> None:
        """Choose the partition with the fewest unsent bytes, the next ones in turn first."""
        available = self._available
        start = (available.index(self._sticky) + 1 if self._sticky in available else 0) % len(available)
        turn = available[start:] + available[:start]
        self._sticky = min(turn, key=lambda queue: queue.queued_bytes)
        self._sticky_bytes = 0


def _fitting(sizes: Sequence[int], room: int, *, is_empty: bool) -> int:
    """Return how many of the first records fit. One always fits an empty batch, however large it is."""
    if sum(sizes) + _OVERHEAD_MAX * len(sizes) <= room:
        return len(sizes)
    ends = list(accumulate(size + _OVERHEAD_MAX for size in sizes))
    return bisect_right(ends, room) or int(is_empty)


def _payload_size(record: StreamRecord) -> int:
    return len(record.key or b"") + len(record.value or b"")


def _headers_size(record: StreamRecord) -> int:
    if not record.headers:
        return 0
    return sum(len(name.encode()) + len(value or b"") + _HEADER_OVERHEAD_MAX for name, value in record.headers)


def encode_pairs(runs: Iterable[PairRun], base_timestamp_ms: int) -> bytes:
    """Return the records of a batch. Records of equal sizes share their lengths, which are computed once."""
    parts: list[bytes] = []
    first_delta = 0
    for timestamp_ms, pairs in runs:
        before_all = b"\0" + write_varlong(timestamp_ms - base_timestamp_ms)
        known: dict[int, tuple[bytes, bytes, bytes]] = {}
        for delta, (key, value) in enumerate(pairs, start=first_delta):
            if delta < 64:
                offset_delta = _SMALL[delta]
            elif delta < 8192:
                offset_delta = bytes((delta << 1 & 0x7F | 0x80, delta >> 6))
            else:
                offset_delta = write_varint(delta)
            if key is None or value is None:
                body = b"".join((before_all, offset_delta, _sized(key), _sized(value), b"\0"))
                parts += (write_varint(len(body)), body)
                continue
            shape = (len(key) << 32 | len(value)) << 3 | len(offset_delta)
            lengths = known.get(shape)
            if lengths is None:
                of_key, of_value = write_varint(len(key)), write_varint(len(value))
                size = len(before_all) + len(offset_delta) + len(of_key) + len(key) + len(of_value) + len(value) + 1
                lengths = known[shape] = (write_varint(size) + before_all, of_key, of_value)
            before, of_key, of_value = lengths
            parts += (before, offset_delta, of_key, key, of_value, value, b"\0")
        first_delta += len(pairs)
    return b"".join(parts)


def _sized(content: bytes | None) -> bytes:
    return write_varint(-1) if content is None else write_varint(len(content)) + content


def _records_of(run: Run) -> Iterable[StreamRecord]:
    if isinstance(run, PairRun):
        return [StreamRecord(run.timestamp_ms, key, value) for key, value in run.pairs]
    if isinstance(run, ValueRun):
        return [StreamRecord(run.timestamp_ms, None, value) for value in run.values]
    return run


def _batch_of(partition: int, created_s: float, records: list[StreamRecord]) -> StreamBatch:
    batch = StreamBatch(partition, created_s, records[0].timestamp_ms)
    batch.append(records, len(records), sum(map(_payload_size, records)))
    return batch
