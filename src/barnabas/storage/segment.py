"""One segment of a log: ``<base offset>.log`` with whole record batches, and the indexes beside it.

A segment knows positions and headers; its log interprets the batches (producers, epochs, retention), so that
partition logs and the metadata log share it. Three things are unlike Kafka's segment, none of them visible once closed:

- Files are created with the first record. A partition that was never written to has no files.
- Indexes are empty while a segment is written to, and are written when it is flushed, rolled or closed. Before that, a
  kill loses them, and recovery, which reads an unflushed segment anyway, rebuilds them.
- A large read is a private mapping of just that range. It stays valid as long as it is referenced, even if the
  segment is compacted away or deleted meanwhile, and truncation writes a new file instead of cutting one that may be
  mapped (touching a mapping behind the end of its file kills the process).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from struct import Struct

from barnabas.storage.batch_header import BATCH_OVERHEAD, HEADER_SIZE, MAX_TIMESTAMP_OFFSET, Buffer
from barnabas.storage.errors import CorruptIndexError, CorruptSegmentError, StorageError
from barnabas.storage.file_io import map_file, naming, read_range
from barnabas.storage.file_permissions import FILE_MODE
from barnabas.storage.file_pool import FilePool, PooledFile
from barnabas.storage.index_file import IndexFile
from barnabas.storage.offset_index import OffsetIndex
from barnabas.storage.segment_damage import CheckedBytes, DamagedRange, DamagedRangeError
from barnabas.storage.time_index import NO_TIMESTAMP, TimeIndex
from barnabas.storage.transaction_index import TransactionIndex

__all__ = ["CLEANED_SUFFIX", "DELETED_SUFFIX", "SWAP_SUFFIX", "Segment", "segment_path"]

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
DELETED_SUFFIX = ".deleted"

SIZE_MAX = 2**31 - 1
RELATIVE_OFFSET_MAX = 2**31 - 1

# base_offset, batch_length, last_offset_delta: enough to walk from batch to batch.
_WALK = Struct(">qi11xi")
_WALK_CHUNK = 4096

_NO_JUMPS: Mapping[int, int] = {}

_log = logging.getLogger(__name__)

_EXTENSIONS = (".log", ".index", ".timeindex", ".txnindex")


def segment_path(directory: str, base_offset: int, extension: str, suffix: str = "") -> str:
    return f"{directory}/{base_offset:020d}{extension}{suffix}"


class Segment:
    __slots__ = (
        "_first_timestamp",
        "_has_new_files",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_offset_index",
        "_pool",
        "_tail",
        "_tail_offset",
        "_time_index",
        "_transaction_index",
        "base_offset",
        "bytes_since_index_entry",
        "checked",
        "created_ms",
        "damaged",
        "directory",
        "file",
        "inherited_size",
        "is_flushed",
        "jumps",
        "size",
        "suffix",
    )

    def __init__(
        self, directory: str, base_offset: int, pool: FilePool, *, size: int = 0, created_ms: int = 0, suffix: str = ""
    ) -> None:
        """A segment of ``size`` bytes; nothing is opened. An empty one counts ``segment.ms`` from ``created_ms``."""
        self.directory = directory
        self.base_offset = base_offset
        self.suffix = suffix
        self.size = size
        self.inherited_size = size
        """The number of bytes that an earlier process wrote, whose indexes may have been lost."""
        self.created_ms = created_ms
        self.bytes_since_index_entry = 0
        self.is_flushed = size == 0
        self._has_new_files = True
        self.file = PooledFile(pool, segment_path(directory, base_offset, ".log", suffix))
        self._pool = pool
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._transaction_index: TransactionIndex | None = None
        self._max_timestamp: int | None = None if size else NO_TIMESTAMP
        self._max_timestamp_offset = base_offset
        self._first_timestamp: int | None = None
        self._tail: tuple[int, int, int] | None = None
        """The last offset before the batch that was appended last, the last offset of that batch, and its position."""
        self._tail_offset: int | None = None
        """The last offset that was appended here."""
        self.damaged: Sequence[DamagedRange] = ()
        self.jumps: Mapping[int, int] = _NO_JUMPS
        """Where a walk continues, by the position of each damaged range."""
        self.checked = CheckedBytes(size)

    def __repr__(self) -> str:
        return f"Segment({self.path!r}, size={self.size})"

    # Parts

    @property
    def path(self) -> str:
        return self.file.path

    @property
    def offset_index(self) -> OffsetIndex:
        if self._offset_index is None:
            self._offset_index = OffsetIndex(self._path(".index"), self.base_offset)
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        if self._time_index is None:
            self._time_index = TimeIndex(self._path(".timeindex"), self.base_offset)
        return self._time_index

    @property
    def transaction_index(self) -> TransactionIndex:
        if self._transaction_index is None:
            self._transaction_index = TransactionIndex(self._path(".txnindex"))
        return self._transaction_index

    @property
    def max_timestamp(self) -> int:
        """The greatest timestamp of any batch, -1 without one."""
        if self._max_timestamp is None:
            self._max_timestamp, self._max_timestamp_offset = self.time_index.last_entry
        return self._max_timestamp

    @property
    def max_timestamp_offset(self) -> int:
        """The last offset of the first batch that has the greatest timestamp."""
        return self._max_timestamp_offset if self.max_timestamp >= 0 else self.base_offset

    @property
    def largest_timestamp(self) -> int:
        """The time for retention: the greatest timestamp, or else the file's modification time."""
        if self.max_timestamp >= 0:
            return self.max_timestamp
        try:
            return os.stat(self.path).st_mtime_ns // 1_000_000
        except FileNotFoundError:
            return self.created_ms

    @property
    def first_timestamp(self) -> int | None:
        """The first batch's greatest timestamp, from which ``segment.ms`` counts once the segment has data."""
        if self._first_timestamp is None and self.size:
            self._first_timestamp = self._max_timestamp_of_batch(0)
        return self._first_timestamp

    def fits(self, size: int, last_offset: int) -> bool:
        """Whether positions and relative offsets still fit into 32 bits after ``size`` more bytes."""
        return self.size + size <= SIZE_MAX and last_offset - self.base_offset <= RELATIVE_OFFSET_MAX

    # Writing

    def append(
        self,
        buffers: Sequence[Buffer],
        size: int,
        *,
        last_offset: int,
        max_timestamp: int,
        index_interval_bytes: int,
    ) -> int:
        """Write one batch, in pieces of ``size`` bytes together, at the end; return its position.

        The write is atomic: a failed one is truncated before the error is raised.
        """
        position = self.size
        try:
            if position == 0 and not self.file.is_open:
                self.create_file()
            if os.pwritev(self.file.fd(), buffers, position) != size:
                self._write_rest(buffers, size, position)
        except OSError as error:
            self._cut_failed_write(position)
            raise StorageError(f"{self.path}: cannot write {size} bytes at {position}: {error}") from error
        self.is_flushed = False
        if max_timestamp > (self.max_timestamp if self._max_timestamp is None else self._max_timestamp):
            self._max_timestamp = max_timestamp
            self._max_timestamp_offset = last_offset
        if position == 0:
            self._first_timestamp = max_timestamp
        if self.bytes_since_index_entry > index_interval_bytes:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(self.max_timestamp, self._max_timestamp_offset)
            self.bytes_since_index_entry = 0
        self.size = position + size
        self.bytes_since_index_entry += size
        if self._tail_offset is not None:
            self._tail = (self._tail_offset, last_offset, position)
        self._tail_offset = last_offset
        return position

    def create_file(self) -> None:
        """Create the (empty) ``.log``, whose name alone records the log's next offset.

        Both indexes are created too, which Kafka's tools expect. The ``.log`` is created last, because it decides.
        """
        for extension in (".index", ".timeindex", ".log"):
            os.close(os.open(self._path(extension), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))
        self.is_flushed = False

    def replace_files(self) -> None:
        """Create the files as ``create_file`` does. Empty the indexes that a lost segment of this name left."""
        for index in (self.offset_index, self.time_index):
            index.clear()
            index.write()
        self.create_file()

    def flush(self) -> None:
        """Make everything that was written durable. Uses descriptors of its own, so any thread may do it.

        The indexes of a segment that is still appended to are not written yet, and not needed: recovery reads the
        last segment in any case.
        """
        if self.is_flushed:
            return
        # Set first: an append during the flush of another thread must leave it False.
        self.is_flushed = True
        try:
            # New files are synced once, not at every flush of a log that flushes often.
            is_new, self._has_new_files = self._has_new_files, False
            for extension in _EXTENSIONS if is_new else _EXTENSIONS[:1]:
                _sync(self._path(extension))
            if is_new:
                _sync(self.directory)
        except OSError as error:
            self.is_flushed = False
            self._has_new_files = True
            raise StorageError(f"{self.path}: cannot flush: {error}") from error

    def become_inactive(self) -> None:
        """Finish a rolled segment: complete the time index, write the indexes and release cached data."""
        self.complete_indexes()
        self.release()

    def complete_indexes(self) -> None:
        """Write both indexes, the last time index entry being the segment's greatest timestamp."""
        if self.max_timestamp >= 0:
            self.time_index.maybe_append(self.max_timestamp, self._max_timestamp_offset)
        self.offset_index.write()
        self.time_index.write()
        self._has_new_files = True
        self.is_flushed = False

    def release(self) -> None:
        """Drop index entries that are in the files too, and the descriptor."""
        for index in self._indexes():
            index.release()
        self.file.close()

    def close(self) -> None:
        """Leave the files as Kafka would: with the log both indexes exist, complete and trimmed."""
        if self.size or self.base_offset:
            self.complete_indexes()
        self.release()

    def _write_rest(self, buffers: Sequence[Buffer], size: int, position: int) -> None:
        """Handle a partial write: write everything again, in one piece, until it is complete."""
        data = memoryview(b"".join(buffers))
        if len(data) != size:
            raise ValueError(f"{len(data)} bytes were to be written, not {size}")
        done = 0
        while done < size:
            done += os.pwrite(self.file.fd(), data[done:], position + done)

    def _cut_failed_write(self, position: int) -> None:
        try:
            os.ftruncate(self.file.fd(), position)
        except OSError as error:
            raise StorageError(f"{self.path}: cannot cut off a failed write at {position}: {error}") from error

    # Reading

    def read(self, position: int, size: int) -> bytes | memoryview:
        """The bytes [position, position + size), as far as the segment has them.

        Raises CorruptSegmentError if the file has lost some of them.
        """
        size = min(size, self.size - position)
        data = self._read_what_is_left(position, size)
        if len(data) < size:
            raise CorruptSegmentError(self.path, position + len(data), f"the file ends there, not at {self.size}")
        return data

    def _read_what_is_left(self, position: int, size: int) -> bytes | memoryview:
        return read_range(self.file.fd(), self.path, position, size) if size > 0 else b""

    def find(self, offset: int) -> tuple[int, int, int, int] | None:
        """Return the first batch that ends at or after ``offset``: (position, size, base offset, last offset).

        None if every batch ends before it. In a compacted segment the batch may also start after it. Raises
        DamagedRangeError for an offset in a damaged range. An index with wrong positions is dropped; one that skips
        damage stays. Readers at the end of a log find its last batch without a search.
        """
        for damage in self.damaged:
            if damage.first_offset <= offset < damage.next_offset:
                raise DamagedRangeError(self.path, damage)
        if self._tail is not None and offset > self._tail[0]:
            try:
                return self._find_from(self._tail[1], self._tail[2], offset)
            except (CorruptIndexError, CorruptSegmentError):
                self._forget_tail()
        if self.size <= _WALK_CHUNK:
            try:
                return self._find_from(-1, 0, offset)
            except CorruptSegmentError:
                return self._find_from(*self._entry_before(offset), offset)
        try:
            return self._find_from(*self._entry_before(offset), offset)
        except (CorruptIndexError, CorruptSegmentError) as error:
            found = self._find_from(-1, 0, offset)
            _log.warning("searching %s without its index, which is wrong: %s", self.path, error)
            self.offset_index.clear()
            return found

    def _forget_tail(self) -> None:
        self._tail = self._tail_offset = None

    def _find_from(self, indexed: int, start: int, offset: int) -> tuple[int, int, int, int] | None:
        """Do the same as ``find``, from an entry of the index: the last offset of the batch at ``start``."""
        if start and not 0 < start < self.size:
            raise CorruptIndexError(self.offset_index.path, f"position {start} is outside of the segment")
        for position, size, base_offset, last_offset in self.walk(start):
            if start and position == start and last_offset > indexed:
                raise CorruptIndexError(self.offset_index.path, f"offset {indexed} is not at position {position}")
            if last_offset >= offset:
                return position, size, base_offset, last_offset
        return None

    def walk(self, position: int = 0) -> Iterator[tuple[int, int, int, int]]:
        """Yield (position, size, base offset, last offset) of each batch from ``position`` on, from the headers
        alone."""
        end = self.size
        chunk: bytes | memoryview = b""
        chunk_start = position
        jumps = self.jumps
        while position < end:
            if jumps and position in jumps:
                position = jumps[position]
                continue
            at = position - chunk_start
            if at + _WALK.size > len(chunk):
                if position + HEADER_SIZE > end:
                    raise CorruptSegmentError(self.path, position, "the segment ends inside a batch header")
                chunk = self._read_what_is_left(position, min(_WALK_CHUNK, end - position))
                if len(chunk) < _WALK.size:
                    raise CorruptSegmentError(self.path, position + len(chunk), f"the file ends there, not at {end}")
                chunk_start, at = position, 0
            base_offset, batch_length, last_offset_delta = _WALK.unpack_from(chunk, at)
            size = batch_length + BATCH_OVERHEAD
            is_inside = 0 <= base_offset + last_offset_delta - self.base_offset <= RELATIVE_OFFSET_MAX
            if size < HEADER_SIZE or last_offset_delta < 0 or position + size > end or not is_inside:
                raise CorruptSegmentError(self.path, position, f"no batch: length {batch_length}, offset {base_offset}")
            yield position, size, base_offset, base_offset + last_offset_delta
            position += size

    def map(self) -> memoryview:
        """Read the whole segment, or the rest of a shortened file, through a descriptor of its own."""
        return map_file(self.path, self.size)

    def read_next_offset(self) -> int:
        """Return the offset after the last batch, or the base offset of an empty segment."""
        next_offset = self.base_offset
        start = self.offset_index.lookup(RELATIVE_OFFSET_MAX + self.base_offset)
        for _, _, _, last_offset in self.walk(start):
            next_offset = last_offset + 1
        return next_offset

    def find_timestamp(self, timestamp: int, start_offset: int) -> tuple[int, int, int, int] | None:
        """Like ``find``: return a batch at or before the first one from ``start_offset`` on that may be that late."""
        index = self.time_index
        if not index.is_loaded:
            self._pool.remember(index)
        return self.find(max(index.lookup(timestamp - 1), start_offset))

    def _entry_before(self, offset: int) -> tuple[int, int]:
        """Return the last index entry at or before ``offset``: the last offset of a batch, and where that batch
        starts."""
        index = self.offset_index
        if not index.is_loaded:
            self._pool.remember(index)
        return index.entry_before(offset)

    # Checking

    def set_damaged(self, damaged: Sequence[DamagedRange]) -> None:
        self._forget_tail()
        self.damaged = tuple(damaged)
        self.jumps = {damage.position: damage.end for damage in damaged} or _NO_JUMPS

    def end_of_valid(self, position: int, records: Buffer, end: int) -> int:
        """Return the end of the valid batches in [position, end), whose bytes are ``records``."""
        return self.checked.end_of_valid(self.path, position, records, end, self.size)

    # Shrinking, renaming, removing

    def restore_timestamps(self, max_timestamp: int, max_timestamp_offset: int) -> None:
        """Set the state that recovery computed from the segment."""
        self._max_timestamp = max_timestamp
        self._max_timestamp_offset = max_timestamp_offset
        self._first_timestamp = None
        self._forget_tail()

    def truncate_to(self, offset: int) -> int:
        """Remove the batches that end at or after ``offset``; return the number of bytes removed."""
        damage = next((damage for damage in self.damaged if damage.first_offset <= offset < damage.next_offset), None)
        if damage is None:
            found = self.find(offset)
            if found is None:
                return 0
            position = found[0]
        else:
            position = damage.position
        self.set_damaged([kept for kept in self.damaged if kept.end <= position and kept is not damage])
        self.checked.cut(position)
        self.inherited_size = min(self.inherited_size, position)
        removed = self.size - position
        if not position:
            # First, because an empty log beside indexes with entries counts as lost.
            for index in (self.offset_index, self.time_index):
                index.clear()
                index.write()
        self._replace_with_prefix(position)
        self.offset_index.truncate_to_position(position)
        self.time_index.truncate_to_offset(offset)
        self.transaction_index.truncate_to(offset)
        self._max_timestamp = None if position else NO_TIMESTAMP
        if position:
            self._recompute_max_timestamp()
        else:
            self.offset_index.clear()
            self.time_index.clear()
            self._first_timestamp = None
        self.bytes_since_index_entry = 0
        self.is_flushed = False
        return removed

    def rename_suffix(self, suffix: str) -> None:
        """Rename all files of the segment to another suffix; the ``.log``, which decides, is last."""
        for extension in reversed(_EXTENSIONS):
            path = segment_path(self.directory, self.base_offset, extension, suffix)
            try:
                if extension == ".log":
                    self.file.rename(path)
                else:
                    os.rename(self._path(extension), path)
            except FileNotFoundError:
                continue
        self._move(self.directory, suffix)

    def move_to(self, directory: str) -> None:
        """Apply a renamed directory."""
        self._move(directory, self.suffix)

    def adopt(self, pool: FilePool) -> None:
        """Use descriptors of this pool from now on."""
        self.file.close()
        self._pool = pool
        self.file = PooledFile(pool, self.path)

    def delete(self) -> None:
        self.file.close()
        for extension in reversed(_EXTENSIONS):  # An index without a log means that the log was lost.
            try:
                os.unlink(self._path(extension))
            except FileNotFoundError:
                continue

    def _replace_with_prefix(self, position: int) -> None:
        """Keep the first ``position`` bytes, in a new file: the old one may be mapped by a reader."""
        self._forget_tail()
        temporary = segment_path(self.directory, self.base_offset, ".log", CLEANED_SUFFIX)
        target = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
        try:
            done = 0
            with naming(temporary):
                while done < position:
                    done += os.sendfile(target, self.file.fd(), done, position - done)
        finally:
            os.close(target)
        _sync(temporary)
        os.rename(temporary, self.path)
        self.file.close()
        self.size = position

    def confirm_max_timestamp(self) -> None:
        """Compare the last entry of the time index with the batches, before retention relies on it.

        The entry must match a batch, and no later batch may have a greater timestamp. Otherwise all batches are read.
        """
        timestamp, offset = self.time_index.last_entry
        found = self.find(offset) if timestamp >= 0 else None
        if found is None or self._max_timestamp_of_batch(found[0]) != timestamp:
            self.time_index.clear()
            self.offset_index.clear()
        self._recompute_max_timestamp()

    def _recompute_max_timestamp(self) -> None:
        """Update the time after a truncation: the time index covers the batches up to its last entry, the rest is
        read."""
        timestamp, offset = self.time_index.last_entry
        start = self.offset_index.lookup(offset) if timestamp >= 0 else 0
        for position, _, _, last_offset in self.walk(start):
            batch_timestamp = self._max_timestamp_of_batch(position)
            if batch_timestamp > timestamp:
                timestamp, offset = batch_timestamp, last_offset
        self._max_timestamp, self._max_timestamp_offset = timestamp, offset

    def _max_timestamp_of_batch(self, position: int) -> int:
        return int.from_bytes(self.read(position + MAX_TIMESTAMP_OFFSET, 8), "big", signed=True)

    def _move(self, directory: str, suffix: str) -> None:
        self.directory = directory
        self.suffix = suffix
        self.file.path = self._path(".log")
        if self._offset_index is not None:
            self._offset_index.path = self._path(".index")
        if self._time_index is not None:
            self._time_index.path = self._path(".timeindex")
        if self._transaction_index is not None:
            self._transaction_index.path = self._path(".txnindex")

    def _path(self, extension: str) -> str:
        return segment_path(self.directory, self.base_offset, extension, self.suffix)

    def _indexes(self) -> Iterator[IndexFile]:
        if self._offset_index is not None:
            yield self._offset_index
        if self._time_index is not None:
            yield self._time_index


def _sync(path: str) -> None:
    """Make a file or a directory durable, if it exists."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        with naming(path):
            os.fsync(fd)
    finally:
        os.close(fd)
