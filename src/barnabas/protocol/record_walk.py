"""Walk the records of a batch without creating objects of them.

Every produced batch is walked once: this proves that exactly ``count`` well-formed records fill the section, and
collects the values for a topic's rules (timestamps, keys, offsets). The loop repeats that of
``record_batch.parse_records`` without the values, because half of the cost would be unused slices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.protocol.compression import iter_decompressed
from barnabas.protocol.errors import (
    BufferUnderflow,
    DecompressionLimitExceeded,
    InvalidRecordError,
    InvalidVarint,
)
from barnabas.protocol.large_record import RecordStream
from barnabas.protocol.varint import read_varint, read_varlong

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.protocol.compression import Compression

__all__ = ["HeaderAllowance", "RecordWalk", "walk_compressed", "walk_records"]

_DELTA_MIN = -0x8000000000000000
_LARGE_RECORD = 1024 * 1024
"""Larger records are walked without being joined."""
_SLICE = 2_000
"""Records that are walked before ``pause`` is called: less than a millisecond."""


class HeaderAllowance:
    """How many headers a batch may have; ``left`` decreases during the walk."""

    __slots__ = ("exhausted", "left", "record_max")

    def __init__(self, record_max: int, left: int, exhausted: Callable[[], Exception]) -> None:
        """``exhausted`` creates the error for a batch with more than ``left``.

        An error stored here would keep the frames that it passed, which refer to this allowance.
        """
        self.record_max = record_max
        self.left = left
        self.exhausted = exhausted

    def take(self, count: int) -> None:
        """Called before the headers of one record are read."""
        if count > self.record_max:
            raise InvalidRecordError(f"A record has {count} headers; at most {self.record_max} are accepted")
        self.left -= count
        if self.left < 0:
            raise self.exhausted()


def _unlimited() -> HeaderAllowance:
    return HeaderAllowance(2**31, 2**62, lambda: InvalidRecordError("too many headers"))


class RecordWalk(NamedTuple):
    """The findings of the walk."""

    min_timestamp_delta: int
    """At most 0: a base timestamp is that of the first record."""
    max_timestamp_delta: int
    null_key_count: int
    is_in_order: bool
    """The offset deltas are 0, 1, 2, ..."""
    size: int = 0
    """The bytes of the section, decompressed."""


class _Progress:
    """The findings so far, if the section is received in pieces."""

    __slots__ = ("headers", "index", "is_in_order", "max_delta", "min_delta", "null_key_count", "pause", "size_needed")

    def __init__(self, headers: HeaderAllowance | None, pause: Callable[[], None] | None) -> None:
        self.headers = headers or _unlimited()
        self.pause = pause
        self.index = 0
        self.min_delta = 0
        self.max_delta = _DELTA_MIN
        self.null_key_count = 0
        self.is_in_order = True
        self.size_needed = 0
        """The bytes that the unfinished record takes; 0 while its length is not known."""

    def result(self, size: int) -> RecordWalk:
        if not self.index:
            return RecordWalk(0, 0, 0, True, size)
        return RecordWalk(self.min_delta, self.max_delta, self.null_key_count, self.is_in_order, size)


def walk_records(
    section: bytes,
    position: int,
    count: int,
    headers: HeaderAllowance | None = None,
    pause: Callable[[], None] | None = None,
) -> RecordWalk:
    """Walk the records that fill ``section`` from ``position`` on; InvalidRecordError if they are not ``count``.

    ``pause`` is called periodically, by a thread that must let others run.
    """
    progress = _Progress(headers, pause)
    size = len(section) - position
    position = _advance_in_slices(section, position, count, progress)
    _ensure_finished(len(section) - position, count, progress)
    return progress.result(size)


def walk_compressed(
    codec: Compression,
    section: bytes | bytearray | memoryview,
    count: int,
    max_size: int,
    headers: HeaderAllowance | None = None,
    pause: Callable[[], None] | None = None,
) -> RecordWalk:
    """Walk compressed records piece by piece: memory holds one piece, or the largest record."""
    progress = _Progress(headers, pause)
    pending: list[bytes] = []
    pending_size = size = 0
    chunks = iter_decompressed(codec, section, max_size)
    for chunk in chunks:
        pending.append(chunk)
        size += len(chunk)
        pending_size += len(chunk)
        if pending_size < progress.size_needed:
            continue
        data = chunk if len(pending) == 1 else b"".join(pending)
        position = _advance_in_slices(data, 0, count, progress)
        if progress.size_needed > max_size:
            raise DecompressionLimitExceeded(f"a record of {progress.size_needed} bytes is more than {max_size} bytes")
        data = data[position:]
        while progress.size_needed > _LARGE_RECORD:
            stream = RecordStream(data, chunks)
            _pass_over(stream, progress)
            size += stream.received
            data, progress.size_needed = stream.rest, 0
            position = _advance_in_slices(data, 0, count, progress)
            data = data[position:]
            if progress.size_needed > max_size:
                raise DecompressionLimitExceeded(
                    f"a record of {progress.size_needed} bytes is more than {max_size} bytes"
                )
        pending = [data]
        pending_size = len(data)
    _ensure_finished(pending_size, count, progress)
    return progress.result(size)


def _pass_over(stream: RecordStream, progress: _Progress) -> None:
    """One large record, with the rules of ``_advance``."""
    try:
        length = stream.varint()
        end = stream.consumed + length
        stream.skip(1)  # Attributes.
        delta = stream.varlong()
        progress.max_delta = max(progress.max_delta, delta)
        progress.min_delta = min(progress.min_delta, delta)
        if stream.varint() != progress.index:
            progress.is_in_order = False
        key_size = stream.varint()
        if key_size < 0:
            progress.null_key_count += 1
        stream.skip(max(key_size, 0))
        stream.skip(max(stream.varint(), 0))
        _pass_over_headers(stream, end, progress.headers)
    except InvalidVarint as error:
        raise InvalidRecordError(f"Found invalid record structure: {error}") from None
    if stream.consumed != end:
        raise InvalidRecordError(f"Invalid record size: its fields end {stream.consumed - end} bytes off its length")
    progress.index += 1


def _pass_over_headers(stream: RecordStream, record_end: int, headers: HeaderAllowance) -> None:
    count = stream.varint()
    _check_header_count(count, record_end - stream.consumed)
    headers.take(count)
    for _ in range(count):
        length = stream.varint()
        if length < 0:
            raise InvalidRecordError(f"Invalid negative header key size {length}")
        stream.skip(length)
        stream.skip(max(stream.varint(), 0))


def _ensure_finished(size_left: int, count: int, progress: _Progress) -> None:
    if count < 0:
        raise InvalidRecordError(f"Found invalid record count {count} in magic v2 batch")
    if progress.index < count:
        raise InvalidRecordError("Incorrect declared batch size, the records end before the count is reached")
    if size_left:
        raise InvalidRecordError("Incorrect declared batch size, bytes remain after the last record")


def _advance_in_slices(section: bytes, position: int, count: int, progress: _Progress) -> int:
    """``_advance``, with pauses."""
    pause = progress.pause
    if pause is None:
        return _advance(section, position, count, progress)
    while True:
        stop = min(count, progress.index + _SLICE)
        position = _advance(section, position, stop, progress)
        if progress.index < stop or stop == count:
            return position
        pause()


def _advance(section: bytes, position: int, count: int, progress: _Progress) -> int:
    """Walk whole records and return where the first incomplete one begins."""
    start, end = position, len(section)
    index, expected = progress.index, progress.index << 1
    min_delta, max_delta = progress.min_delta, progress.max_delta
    null_key_count, is_in_order = progress.null_key_count, progress.is_in_order
    progress.size_needed = 0
    try:
        while index < count:
            byte = section[position]
            if byte < 0x80:
                position += 1
                record_end = position + (byte >> 1)
            else:
                second = section[position + 1]
                if second < 0x80:
                    position += 2
                    record_end = position + ((byte & 0x7F | second << 7) >> 1)
                else:
                    length, position = read_varint(section, position)
                    record_end = position + length
            if byte & 1:  # The sign of a zig-zag number is its lowest bit.
                raise InvalidRecordError("Found invalid record structure: a record's length is negative")
            if record_end > end:
                progress.size_needed = record_end - start
                break

            byte = section[position + 1]
            if byte < 0x80:
                position += 2
                delta = byte >> 1
            else:
                second = section[position + 2]
                if second < 0x80:
                    position += 3
                    delta = (byte & 0x7F | second << 7) >> 1
                else:
                    delta, position = read_varlong(section, position + 1)
                    byte = 0
            if byte & 1:
                delta = -delta - 1
            if delta > max_delta:
                max_delta = delta
            if delta < min_delta:
                min_delta = delta

            if expected < 0x80 and section[position] == expected:
                position += 1
            elif (
                0x80 <= expected < 0x4000
                and section[position] == (expected & 0x7F | 0x80)
                and section[position + 1] == expected >> 7
            ):
                position += 2
            else:
                offset_delta, position = read_varint(section, position)
                if offset_delta != index:
                    is_in_order = False

            byte = section[position]
            if byte < 0x80:
                position += 1
                if byte & 1:
                    null_key_count += 1
                else:
                    position += byte >> 1
            else:
                length, position = read_varint(section, position)
                if length < 0:
                    null_key_count += 1
                else:
                    position += length

            byte = section[position]
            if byte < 0x80:
                position += 1
                if not byte & 1:
                    position += byte >> 1
            else:
                second = section[position + 1]
                if second < 0x80:
                    position += 2
                    if not byte & 1:
                        position += (byte & 0x7F | second << 7) >> 1
                else:
                    length, position = read_varint(section, position)
                    if length > 0:
                        position += length

            if section[position]:
                position = _skip_headers(section, position, record_end, progress.headers)
            else:
                position += 1
            if position != record_end:
                raise InvalidRecordError(
                    f"Invalid record size: its fields end {position - record_end} bytes off its length"
                )
            start = position
            index += 1
            expected += 2
    except InvalidVarint as error:
        raise InvalidRecordError(f"Found invalid record structure: {error}") from None
    except (IndexError, BufferUnderflow):
        if _is_whole(section, start):
            raise InvalidRecordError("Found invalid record structure: a field ends after its record") from None
    progress.index = index
    progress.min_delta, progress.max_delta = min_delta, max_delta
    progress.null_key_count, progress.is_in_order = null_key_count, is_in_order
    return start


def _is_whole(section: bytes, start: int) -> bool:
    """Return whether the record at ``start`` is complete, so that missing bytes are an error of the record."""
    try:
        length, position = read_varint(section, start)
    except BufferUnderflow:
        return False
    return position + length <= len(section)


def _skip_headers(section: bytes, position: int, record_end: int, headers: HeaderAllowance) -> int:
    count, position = read_varint(section, position)
    _check_header_count(count, record_end - position)
    headers.take(count)
    for _ in range(count):
        length, position = read_varint(section, position)
        if length < 0:
            raise InvalidRecordError(f"Invalid negative header key size {length}")
        position += length
        length, position = read_varint(section, position)
        if length > 0:
            position += length
    return position


def _check_header_count(count: int, bytes_left: int) -> None:
    if count < 0:
        raise InvalidRecordError(f"Found invalid number of record headers {count}")
    if count > bytes_left:
        raise InvalidRecordError(
            f"Found invalid number of record headers. {count} is larger than the bytes that are left"
        )
