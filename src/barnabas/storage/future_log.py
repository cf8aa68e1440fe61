"""Copies a partition's current log to its future log, in small steps, until the future log can replace it.

Records that the current log has lost meanwhile (truncated by another leader, or below the new log start) are removed
from the future log too. Equal epochs mean equal records up to the end of the shorter log, as between replicas.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from barnabas.storage.errors import StorageError
from barnabas.storage.log_dir_failure import is_disk_failure
from barnabas.storage.partition_log import PartitionLog

__all__ = ["FutureLogFailed", "copy_to_future", "is_complete"]

_NO_EPOCH = -1


class FutureLogFailed(StorageError):
    """The target disk of the move failed, not the source disk."""


def is_complete(current: PartitionLog, future: PartitionLog) -> bool:
    """Whether the future log has the same records as the current one."""
    return (
        future.log_end_offset == current.log_end_offset
        and future.log_start_offset == current.log_start_offset
        and not _diverges(current, future)
    )


def copy_to_future(current: PartitionLog, future: PartitionLog, *, max_bytes: int, now_ms: int) -> int:
    """Copy about ``max_bytes`` more; returns the number of bytes copied, 0 when the copy is complete.

    Raises ApiException for a batch that is damaged; FutureLogFailed, or OSError for the disk of the current log.
    """
    with _blaming_the_future():
        while _diverges(current, future):
            _truncate(current, future, now_ms)
        if future.log_end_offset < current.log_start_offset:
            future.truncate_fully_and_start_at(current.log_start_offset, now_ms=now_ms)
    records: memoryview | bytes = b""
    if future.log_end_offset < current.log_end_offset:
        records = memoryview(current.read(future.log_end_offset, max_bytes, min_one_message=True).records)
    with _blaming_the_future():
        if records:
            future.append_as_follower(records, now_ms=now_ms)
        elif future.log_end_offset < current.log_end_offset:
            # The records before an empty last segment were removed by compaction: only its name has the offset.
            future.log_end_offset = current.log_end_offset
            future.roll(now_ms)
        future.maybe_advance_high_watermark(current.high_watermark)
        _follow_start(current, future, now_ms)
    return len(records)


@contextmanager
def _blaming_the_future() -> Iterator[None]:
    try:
        yield
    except (OSError, StorageError) as error:
        if not is_disk_failure(error):
            raise
        raise FutureLogFailed(str(error)) from error


def _diverges(current: PartitionLog, future: PartitionLog) -> bool:
    if future.log_end_offset > current.log_end_offset:
        return True
    if future.latest_epoch == _NO_EPOCH:
        return False
    epoch, end = current.end_offset_for_epoch(future.latest_epoch)
    if epoch == _NO_EPOCH:
        # The current log starts after this offset, or was truncated before it.
        return future.latest_epoch > current.latest_epoch and future.log_end_offset > current.log_start_offset
    return epoch < future.latest_epoch or end < future.log_end_offset


def _truncate(current: PartitionLog, future: PartitionLog, now_ms: int) -> None:
    """Truncate the future log to where both may be equal: it becomes shorter, or equal to the current one."""
    epoch, end = current.end_offset_for_epoch(future.latest_epoch)
    if epoch == _NO_EPOCH or epoch == future.latest_epoch:
        offset = min(current.log_end_offset, end if epoch != _NO_EPOCH else current.log_start_offset)
    else:
        offset = min(future.end_offset_for_epoch(epoch)[1], end)
    if offset <= future.log_start_offset:
        future.truncate_fully_and_start_at(current.log_start_offset, now_ms=now_ms)
    else:
        future.truncate_to(offset, now_ms=now_ms)


def _follow_start(current: PartitionLog, future: PartitionLog, now_ms: int) -> None:
    if future.maybe_increment_log_start(min(current.log_start_offset, future.log_end_offset)):
        segments, start = future.segments, future.log_start_offset
        count = 0
        while count + 1 < len(segments) and segments[count + 1].base_offset <= start:
            count += 1
        future.delete_oldest_segments(count, now_ms=now_ms)
