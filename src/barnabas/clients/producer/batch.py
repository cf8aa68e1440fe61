"""A batch for a partition, and a batch of records that were added in runs: their times, and the encoded bytes.

A run is records that follow one another at a fixed interval and have one timestamp. Records without key and headers
differ only in the bytes before their value, so these are computed once for each size and place in a batch, and cached.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from barnabas.protocol.compression import Compression, compress
from barnabas.protocol.record_batch import (
    ATTRIBUTE_TRANSACTIONAL,
    BATCH_HEADER_SIZE,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
)
from barnabas.protocol.record_batch_builder import with_header
from barnabas.protocol.varint import size_of_varint, write_varint, write_varlong

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["NO_PRODUCER", "Batch", "ProducerBatch", "ProducerId", "Run", "record_size_max"]

_KEPT_PER_SIZE = 4096
_NULL_KEY = b"\x01"
_NO_HEADERS = b"\x00"


class ProducerId(NamedTuple):
    id: int
    epoch: int


NO_PRODUCER = ProducerId(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class Run(NamedTuple):
    """Records of which the first was due at ``first_s``, and each next one ``interval_s`` later."""

    first_s: float
    interval_s: float
    length: int


class Batch:
    """Records of one partition. ``attempts`` counts how often the batch was sent."""

    __slots__ = (
        "_base_timestamp",
        "_encoded",
        "_max_timestamp",
        "_section",
        "attempts",
        "base_offset",
        "count",
        "created_s",
        "is_full",
        "partition",
        "retry_at_s",
        "sequence",
        "size",
    )

    def __init__(self, partition: int, created_s: float, timestamp_ms: int) -> None:
        self.partition = partition
        self.created_s = created_s
        self.retry_at_s = 0.0
        self.sequence = NO_SEQUENCE
        self.attempts = 0
        self.count = 0
        self.size = BATCH_HEADER_SIZE
        """Bytes so far, before compression."""
        self.is_full = False
        self.base_offset = -1
        """The batch's offset in the cluster; -1 before that, without an answer, or if it had the batch already."""
        self._base_timestamp = self._max_timestamp = timestamp_ms
        self._section: bytes | None = None
        self._encoded: bytes | None = None

    def is_wanted(self) -> bool:
        """Whether it must still be delivered."""
        return True

    def encode(
        self, compression: Compression, level: int | None, producer: ProducerId, *, is_transactional: bool = False
    ) -> bytes:
        """Return the encoded bytes, computed once: a batch that is sent again is unchanged."""
        if self._encoded is None:
            section, self._section = self._section, None
            if section is None:
                section = self._take_records()
                if compression:
                    section = compress(compression, section, level)
            self._encoded = with_header(
                section,
                base_offset=0,
                leader_epoch=-1,
                attributes=compression | (ATTRIBUTE_TRANSACTIONAL if is_transactional else 0),
                last_offset_delta=self.count - 1,
                base_timestamp=self._base_timestamp,
                max_timestamp=self._max_timestamp,
                producer_id=producer.id,
                producer_epoch=producer.epoch,
                base_sequence=NO_SEQUENCE if producer == NO_PRODUCER else self.sequence,
                count=self.count,
            )
        return self._encoded

    def restart(self) -> None:
        """Send it again as a batch of another producer, with another sequence."""
        if self._encoded is not None:
            self._section = self._encoded[BATCH_HEADER_SIZE:]
            self._encoded = None
        self.sequence = NO_SEQUENCE

    def _take_records(self) -> bytes:
        """Return the concatenated records; called once."""
        raise NotImplementedError

    def _replace_by(self, first: Batch, second: Batch) -> None:
        """Give the batch's attempts and sequences to two that have its records together."""
        for half in (first, second):
            half.attempts, half.is_full = self.attempts, True
        first.sequence = self.sequence
        second.sequence = (self.sequence + first.count) % (1 << 31)


class ProducerBatch(Batch):
    """Records without keys, and their runs."""

    __slots__ = ("_pieces", "runs", "value_bytes")

    def __init__(self, partition: int, created_s: float, timestamp_ms: int) -> None:
        super().__init__(partition, created_s, timestamp_ms)
        self.value_bytes = 0
        self.runs: list[Run] = []
        self._pieces: list[bytes] = []

    def append(self, values: Sequence[bytes], run: Run, timestamp_ms: int) -> None:
        """Add values of one size as records without keys."""
        size = len(values[0])
        delta = timestamp_ms - self._base_timestamp
        prefixes = _prefixes(size, delta, self.count, self.count + len(values))
        self._pieces.extend(chain.from_iterable(zip(prefixes, values, strict=True)))
        self.size += sum(map(len, prefixes)) + size * len(values)
        self.value_bytes += size * len(values)
        self.count += len(values)
        self.runs.append(run)
        if timestamp_ms > self._max_timestamp:
            self._max_timestamp = timestamp_ms

    def _take_records(self) -> bytes:
        self._pieces.append(_NO_HEADERS)
        section = b"".join(self._pieces)
        self._pieces.clear()
        return section


def record_size_max(value_size: int) -> int:
    """Return the maximum bytes of a record with this value in a batch of less than a million records."""
    return value_size + size_of_varint(value_size) + size_of_varint(value_size + 16) + 9


def _prefixes(size: int, delta: int, start: int, stop: int) -> Sequence[bytes]:
    """Return the bytes before the values of records ``start`` to ``stop``, each with the end of the previous record."""
    if stop > _KEPT_PER_SIZE:
        return [_prefix(size, delta, index) for index in range(start, stop)]
    kept = _kept(size, delta)
    for index in range(len(kept), stop):
        kept.append(_prefix(size, delta, index))
    return kept[start:stop]


@lru_cache(maxsize=64)
def _kept(size: int, delta: int) -> list[bytes]:
    return []


def _prefix(size: int, delta: int, index: int) -> bytes:
    fields = b"\x00" + write_varlong(delta) + write_varint(index) + _NULL_KEY + write_varint(size)
    length = write_varint(len(fields) + size + len(_NO_HEADERS))
    return (_NO_HEADERS if index else b"") + length + fields
