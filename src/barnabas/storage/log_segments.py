"""The segments of one log: a tuple that is replaced whole, so that readers never see a partial change.

The node's loop adds, retires and truncates; the cleaner's thread replaces. Both use one lock, and each checks
first whether the segments still exist.

A retired segment is renamed to ``.deleted`` immediately and unlinked after ``file.delete.delay.ms``. Records that
a request still holds stay valid: they were copied, or are a mapping of their own.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from threading import Lock

from barnabas.storage.file_pool import FilePool
from barnabas.storage.segment import DELETED_SUFFIX, SWAP_SUFFIX, Segment

__all__ = ["LogSegments", "segment_index"]


class LogSegments:
    __slots__ = ("_lock", "_pool", "_retired", "all", "directory", "is_gone")

    def __init__(self, directory: str, pool: FilePool, segments: Sequence[Segment]) -> None:
        self.directory = directory
        self.all: tuple[Segment, ...] = tuple(segments)
        # The log was deleted: no new file may be created in its directory.
        self.is_gone = False
        self._pool = pool
        self._lock = Lock()
        # (due, segment) of those renamed to ``.deleted``.
        self._retired: list[tuple[int, Segment]] = []

    @property
    def active(self) -> Segment:
        return self.all[-1]

    def size_bytes(self) -> int:
        return sum(segment.size for segment in self.all)

    def add(self, base_offset: int, *, now_ms: int) -> Segment:
        """Start an empty segment at the log's end. Its file is created, because only its name stores that offset."""
        segment = Segment(self.directory, base_offset, self._pool, created_ms=now_ms)
        segment.create_file()
        with self._lock:
            self.all = (*self.all, segment)
        return segment

    def retire_oldest(self, count: int, *, due_ms: int) -> None:
        """Remove the first ``count`` segments; at least one must remain."""
        with self._lock:
            retired, self.all = self.all[:count], self.all[count:]
            self._retire(retired, due_ms)

    def replace(self, old: Sequence[Segment], new: Sequence[Segment], *, due_ms: int) -> bool:
        """Replace segments by cleaned ones, atomically for every reader.

        False if one of the old ones was removed meanwhile (retention, deletion, truncation): the new ones are obsolete
        then. After a crash at any step, start-up finds the old segments or the new ones: before the last file is
        renamed to ``.swap`` it drops the cleaned ones, from then on it drops the old ones.
        """
        with self._lock:
            # The active segment now is another one than at the cleaning: the log was truncated.
            if self.is_gone or not set(old) <= set(self.all[:-1]):
                return False
            for segment in reversed(new):
                segment.adopt(self._pool)
                segment.rename_suffix(SWAP_SUFFIX)
            for segment in old:
                segment.rename_suffix(DELETED_SUFFIX)
            for segment in new:
                segment.rename_suffix("")
            kept = [segment for segment in self.all if segment not in old]
            self.all = tuple(sorted([*kept, *new], key=_base_offset))
            self._retired += [(due_ms, segment) for segment in old]
        return True

    def truncate_to(self, offset: int, *, due_ms: int) -> int:
        """Remove the batches that end at or after ``offset``; return the offset after the last remaining one.

        The last segment is removed first: after a crash at any step, the rest is contiguous.
        """
        index = segment_index(self.all, offset)
        with self._lock:
            retired, self.all = self.all[index + 1 :], self.all[: index + 1]
            self._retire(reversed(retired), due_ms)
            self.active.truncate_to(offset)
        return self.active.read_next_offset()

    def start_anew(self, base_offset: int, *, now_ms: int, due_ms: int) -> None:
        """Remove all segments, the last one first, and begin with an empty one."""
        with self._lock:
            self._retire(reversed(self.all), due_ms)
            segment = Segment(self.directory, base_offset, self._pool, created_ms=now_ms)
            segment.create_file()
            self.all = (segment,)

    def if_still_there(self, segment: Segment, then: Callable[[], None]) -> bool:
        """Call ``then``, unless the segment was removed. The log is not truncated meanwhile."""
        with self._lock:
            is_there = segment in self.all
            if is_there:
                then()
        return is_there

    def remove_retired(self, now_ms: int, *, all_of_them: bool = False) -> int:
        """Unlink the files of segments that were retired long enough ago; return their number."""
        due = [item for item in self._retired if all_of_them or item[0] <= now_ms]
        for item in due:
            item[1].delete()
            self._retired.remove(item)
        return len(due)

    def move_to(self, directory: str) -> None:
        """Rename the directory because its partition is deleted; no segment is replaced from now on."""
        with self._lock:
            self.is_gone = True
            self._rename(directory)

    def rename_to(self, directory: str) -> None:
        """Rename the directory: the log's move is complete."""
        with self._lock:
            self._rename(directory)

    def _rename(self, directory: str) -> None:
        os.rename(self.directory, directory)
        self.directory = directory
        for segment in self.all:
            segment.file.close()
            segment.move_to(directory)
        for _, segment in self._retired:
            segment.move_to(directory)

    def _retire(self, segments: Iterable[Segment], due_ms: int) -> None:
        for segment in segments:
            if segment.size == 0:
                segment.delete()
                continue
            segment.rename_suffix(DELETED_SUFFIX)
            segment.file.close()
            self._retired.append((due_ms, segment))


def segment_index(segments: Sequence[Segment], offset: int) -> int:
    """Return the index of the last segment that starts at or before ``offset``, or of the first one."""
    if offset >= segments[-1].base_offset:
        return len(segments) - 1
    return max(bisect_right(segments, offset, key=_base_offset) - 1, 0)


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
