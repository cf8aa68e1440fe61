"""Read the record batches of a segment or snapshot in order, one at a time, so that memory is bounded by a batch.

Damage is a value, not an exception: the caller decides whether it ends the read. A batch with a wrong checksum but a
plausible length is passed over; after other damage nothing in the file can be found again.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from struct import Struct
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

from barnabas.protocol.errors import DecodeError
from barnabas.protocol.record_batch import BATCH_HEADER_SIZE, LOG_OVERHEAD, BatchView

if TYPE_CHECKING:
    from barnabas.pipelines.sources.stored_files import FileStore

__all__ = ["BATCH_SIZE_MAX", "Damage", "DamageKind", "SegmentEnds", "read_batches"]

BATCH_SIZE_MAX: Final = 256 * 1024 * 1024
"""A controller writes at most 8 MiB; a greater length than this one is damage."""

_START: Final = Struct(">qi")
_CHUNK: Final = 1 << 20


class DamageKind(Enum):
    TORN = "torn"
    """The file ends inside a batch, or with zeros: its writer was interrupted, or is still writing."""
    CORRUPT = "corrupt"


class Damage(NamedTuple):
    kind: DamageKind
    offset: int
    """The first offset that is affected."""
    position: int
    text: str


def read_batches(file: BinaryIO, expected_offset: int, *, has_gaps: bool = False) -> Iterator[BatchView | Damage]:
    """Yield each whole batch with a valid checksum, and each damage. The batches view buffers of their own.

    ``has_gaps``: the log may lack offsets, as a compacted topic's does; a metadata log does not.
    """
    position = 0
    is_exact = not has_gaps
    while True:
        start = file.read(LOG_OVERHEAD)
        if not start:
            return
        if len(start) < LOG_OVERHEAD:
            yield _torn(expected_offset, position)
            return
        base_offset, length = _START.unpack(start)
        if not BATCH_HEADER_SIZE - LOG_OVERHEAD <= length <= BATCH_SIZE_MAX - LOG_OVERHEAD:
            yield _impossible(file, start, expected_offset, position, length)
            return
        body = file.read(length)
        if len(body) < length:
            yield _torn(expected_offset, position)
            return
        try:
            batch = BatchView(start + body)
            batch.ensure_valid()
        except DecodeError as error:
            yield Damage(DamageKind.CORRUPT, expected_offset, position, f"{error}, at position {position}")
            is_exact = False  # How many offsets the batch had is unknown.
        else:
            if base_offset < expected_offset:
                text = f"offset {base_offset} found where {expected_offset} was expected"
                yield Damage(DamageKind.CORRUPT, expected_offset, position, text)
                return
            if is_exact and base_offset > expected_offset:
                text = f"offsets {expected_offset} to {base_offset - 1} are missing"
                yield Damage(DamageKind.CORRUPT, expected_offset, position, text)
            yield batch
            expected_offset = batch.last_offset + 1
            is_exact = not has_gaps
        position += LOG_OVERHEAD + length


def _whole_batches_end(file: BinaryIO, size: int, position: int, offset: int) -> tuple[int, int]:
    """Return where the whole batches of a file end: a position, and the offset after the last batch.

    Begins at ``position``, where the batch with ``offset`` is expected, and reads only headers; of the last batch
    also the checksum. A batch that is not whole and valid yet does not count.
    """
    previous = position, offset
    while size - position >= BATCH_HEADER_SIZE:
        file.seek(position)
        header = file.read(BATCH_HEADER_SIZE)
        _, length = _START.unpack_from(header)
        end = position + LOG_OVERHEAD + length
        if length < BATCH_HEADER_SIZE - LOG_OVERHEAD or end > size:
            break
        try:
            batch = BatchView(header)
        except DecodeError:
            break
        previous = position, offset
        position, offset = end, batch.last_offset + 1
    if position > previous[0] and not _is_valid(file, *previous, position):
        return previous
    return position, offset


class SegmentEnds:
    """The ends of segments that grow. Batches that were found to be whole are not read again."""

    def __init__(self, store: FileStore) -> None:
        self._store = store
        self._reached: dict[str, tuple[int, int]] = {}

    def next_offset(self, path: str, size: int, base_offset: int) -> int:
        """Return the offset after the last whole batch of a segment."""
        position, offset = self._reached.get(path, (0, base_offset))
        if position > size:  # It was truncated.
            position, offset = 0, base_offset
        if size > position:
            with self._store.open(path) as file:
                position, offset = _whole_batches_end(file, size, position, offset)
        self._reached[path] = position, offset
        return offset


def _is_valid(file: BinaryIO, start: int, offset: int, end: int) -> bool:
    file.seek(start)
    found = next(read_batches(_Bounded(file, end - start), offset, has_gaps=True), None)  # type: ignore[arg-type]
    return isinstance(found, BatchView)


class _Bounded:
    """The next bytes of a file, so that reading does not go on after them."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._left = file, size

    def read(self, size: int) -> bytes:
        data = self._file.read(min(size, self._left))
        self._left -= len(data)
        return data


def _torn(offset: int, position: int) -> Damage:
    return Damage(DamageKind.TORN, offset, position, f"the file ends inside a batch, at position {position}")


def _impossible(file: BinaryIO, start: bytes, offset: int, position: int, length: int) -> Damage:
    if not any(start) and _only_zeros(file):
        return Damage(DamageKind.TORN, offset, position, f"only zeros follow position {position}")
    text = f"a record batch has the impossible length {length}, at position {position}"
    return Damage(DamageKind.CORRUPT, offset, position, text)


def _only_zeros(file: BinaryIO) -> bool:
    while chunk := file.read(_CHUNK):
        if any(chunk):
            return False
    return True
