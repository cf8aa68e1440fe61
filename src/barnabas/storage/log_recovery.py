"""Open a partition's directory: finish what a crash interrupted, cut what it tore, rebuild what it lost.

After a clean shutdown everything on disk is believed; only missing indexes are made again. After any other end:

1. Leftovers go: ``.deleted`` and ``.cleaned`` files. A ``.swap`` segment is a finished compaction whose replacement was
   interrupted: the segments it was made from go, and it takes their place.
2. Segments that may hold anything above the recovery point are read whole. At the first batch that is cut, has a
   wrong checksum or goes back in offsets, the log ends: the rest of that segment and all later ones are removed.
   For the last segment this is the torn tail of a last write; anywhere else it is damage, and is reported as such.
3. Producer state is the last snapshot and the batches since; leader epochs are the checkpoint and the batches read.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from barnabas.common.crc32c import crc32c
from barnabas.common.topic_config import TopicConfig
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.storage.batch_header import (
    ATTRIBUTES_OFFSET,
    BATCH_OVERHEAD,
    HEADER,
    HEADER_SIZE,
    header_problem,
)
from barnabas.storage.errors import CorruptFileError, CorruptIndexError
from barnabas.storage.file_pool import FilePool
from barnabas.storage.leader_epoch_checkpoint import LEADER_EPOCH_CHECKPOINT, LeaderEpochCheckpoint
from barnabas.storage.partition_log import PartitionLog
from barnabas.storage.partition_metadata import read_partition_metadata
from barnabas.storage.producer_recovery import rebuild_producers
from barnabas.storage.segment import CLEANED_SUFFIX, DELETED_SUFFIX, RELATIVE_OFFSET_MAX, SWAP_SUFFIX, Segment

__all__ = ["Truncation", "load_log", "recover_segment"]

_log = logging.getLogger(__name__)

_LENGTH_MIN = HEADER_SIZE - BATCH_OVERHEAD
_SEGMENT_EXTENSIONS = (".log", ".index", ".timeindex", ".txnindex")


class Truncation(NamedTuple):
    """Recovery removed something: from this position of this segment on, and so many later segments."""

    path: str
    position: int
    removed_bytes: int
    removed_segments: int
    reason: str

    @property
    def is_damage(self) -> bool:
        """More than the torn end of the last write: there was a later segment, so these bytes were complete once."""
        return self.removed_segments > 0


def load_log(
    directory: str,
    topic_partition: TopicPartition,
    *,
    config: TopicConfig,
    pool: FilePool,
    log_start_offset: int,
    recovery_point: int,
    is_clean: bool,
    now_ms: int,
    topic_id: Uuid | None = None,
) -> tuple[PartitionLog, Truncation | None]:
    """Open the log in ``directory``; say what had to be cut off, if anything."""
    sizes = _list_files(directory)
    if not is_clean or any(name.endswith((SWAP_SUFFIX, CLEANED_SUFFIX, DELETED_SUFFIX)) for name in sizes):
        sizes = _finish_interrupted(directory, sizes, pool)
    segments = [
        Segment(directory, int(name[:-4]), pool, size=size, created_ms=now_ms)
        for name, size in sorted(sizes.items())
        if name.endswith(".log") and name[:-4].isdigit()
    ]
    for segment in segments:
        segment.is_flushed = is_clean or segment.size == 0
    epochs = _load_epochs(directory, exists=LEADER_EPOCH_CHECKPOINT in sizes)
    truncation = None
    if is_clean:
        _rebuild_missing_indexes(segments, sizes, config.index_interval_bytes)
    else:
        truncation = _recover(
            segments, sizes, max(recovery_point, log_start_offset), epochs, config.index_interval_bytes
        )
    if not segments or segments[-1].read_next_offset() < log_start_offset:
        segments = [_start_anew(directory, segments, log_start_offset, pool, now_ms)]
    log_end_offset = segments[-1].read_next_offset()
    log_start_offset = max(log_start_offset, segments[0].base_offset)
    epochs.truncate_from_end(log_end_offset)
    epochs.truncate_from_start(log_start_offset)
    log = PartitionLog(
        directory,
        topic_partition,
        topic_id=topic_id if topic_id is not None else _topic_id(directory),
        config=config,
        pool=pool,
        segments=segments,
        log_start_offset=log_start_offset,
        log_end_offset=log_end_offset,
        recovery_point=log_end_offset if is_clean else min(recovery_point, log_end_offset),
        epochs=epochs,
        now_ms=now_ms,
    )
    has_snapshots = any(name.endswith(".snapshot") for name in sizes)
    if has_snapshots or not is_clean:
        log.restore_producers(*rebuild_producers(directory, segments, log_start_offset, log_end_offset))
    return log, truncation


def _start_anew(directory: str, lost: Sequence[Segment], base_offset: int, pool: FilePool, now_ms: int) -> Segment:
    """An empty segment for a log that is new, or that ends before its start (its tail was lost, its deletion not)."""
    segment = Segment(directory, base_offset, pool, created_ms=now_ms)
    if lost:
        _log.warning("%s ends before its start %d: it begins anew there", directory, base_offset)
        for old in lost:
            old.delete()
    if base_offset:
        segment.create_file()
    return segment


# Leftovers


def _list_files(directory: str) -> dict[str, int]:
    """Name -> size; the size only of log files, to spare the other look-ups."""
    with os.scandir(directory) as files:
        return {file.name: file.stat().st_size if ".log" in file.name else 0 for file in files}


def _finish_interrupted(directory: str, sizes: dict[str, int], pool: FilePool) -> dict[str, int]:
    """Remove leftovers and finish replacements; return the files that are there then."""
    incomplete = [name for name in sizes if name.endswith(CLEANED_SUFFIX)]
    for name in sizes:
        if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, ".tmp")):
            os.unlink(f"{directory}/{name}")
    # One replacement by several segments: if a later one was still ``.cleaned``, the earlier ones are void too.
    void_from = min((int(name.split(".")[0]) for name in incomplete if ".log" in name), default=None)
    swaps: list[Segment] = []
    for name, size in sizes.items():
        if not name.endswith(f".log{SWAP_SUFFIX}"):
            continue
        segment = Segment(directory, int(name.split(".")[0]), pool, size=size, suffix=SWAP_SUFFIX)
        if void_from is not None and segment.base_offset >= void_from:
            segment.delete()
        else:
            swaps.append(segment)
    if swaps:
        first = min(segment.base_offset for segment in swaps)
        end = max(first + 1, *(segment.read_next_offset() for segment in swaps))  # Nothing may be left of a segment.
        for name in sizes:
            stem, _, extension = name.partition(".")
            if f".{extension}" == ".log" and first <= int(stem) < end:
                Segment(directory, int(stem), pool).delete()
        for segment in swaps:
            segment.rename_suffix("")
            segment.file.close()
            _log.info("finished the replacement of segments by %s", segment.path)
    _remove_orphans(directory)
    return _list_files(directory)


def _remove_orphans(directory: str) -> None:
    """Remove indexes without a log, and index files of a swap whose log was renamed already."""
    names = set(os.listdir(directory))
    for name in names:
        stem, _, extension = name.partition(".")
        if not stem.isdigit() or (f"{stem}.log" in names and not extension.endswith("swap")):
            continue
        if f".{extension.removesuffix(SWAP_SUFFIX)}" in _SEGMENT_EXTENSIONS[1:]:
            with suppress(FileNotFoundError):
                os.unlink(f"{directory}/{name}")


# Indexes and tails


def _rebuild_missing_indexes(segments: Sequence[Segment], names: dict[str, int], index_interval_bytes: int) -> None:
    for segment in segments:
        if segment.size and not _has_indexes(segment, names):
            _log.warning("an index of %s is missing: rebuilding it", segment.path)
            recover_segment(segment, None, index_interval_bytes)
            segment.complete_indexes()


def _has_indexes(segment: Segment, names: dict[str, int]) -> bool:
    stem = f"{segment.base_offset:020d}"
    return f"{stem}.index" in names and f"{stem}.timeindex" in names


def _recover(
    segments: list[Segment],
    names: dict[str, int],
    recovery_point: int,
    epochs: LeaderEpochCheckpoint,
    index_interval_bytes: int,
) -> Truncation | None:
    """Read what may not be durable, cut it where it stops making sense; ``segments`` shrinks accordingly."""
    for index, segment in enumerate(segments):
        is_durable = index + 1 < len(segments) and segments[index + 1].base_offset <= recovery_point
        if is_durable and _indexes_are_sane(segment, names):
            continue
        problem = recover_segment(segment, epochs, index_interval_bytes)
        if problem is None:
            if index + 1 < len(segments):
                segment.complete_indexes()
                segment.release()
            continue
        position, removed_bytes, reason = problem
        later = segments[index + 1 :]
        del segments[index + 1 :]
        for lost in later:
            lost.delete()
        truncation = Truncation(
            segment.path, position, removed_bytes + sum(lost.size for lost in later), len(later), reason
        )
        level = logging.ERROR if truncation.is_damage else logging.WARNING
        _log.log(
            level,
            "%s: invalid at position %d (%s): removed %d bytes and %d later segments",
            truncation.path, position, reason, truncation.removed_bytes, len(later),
        )  # fmt: skip
        return truncation
    return None


def _indexes_are_sane(segment: Segment, names: dict[str, int]) -> bool:
    if not segment.size:
        return True
    if not _has_indexes(segment, names):
        return False
    try:
        segment.offset_index.sanity_check()
        segment.time_index.sanity_check()
        segment.transaction_index.sanity_check(segment.base_offset)
    except CorruptIndexError as error:
        _log.warning("rebuilding the indexes of %s: %s", segment.path, error)
        return False
    segment.release()
    return True


def recover_segment(
    segment: Segment, epochs: LeaderEpochCheckpoint | None, index_interval_bytes: int
) -> tuple[int, int, str] | None:
    """Read a segment whole, make its indexes anew and cut it at the first invalid batch.

    Returns where, how many bytes went and why; None if all of it is valid.
    """
    segment.offset_index.clear()
    segment.time_index.clear()
    with segment.map() as view:
        position, problem = _scan(view, segment, epochs, index_interval_bytes)
    removed = segment.size - position
    if removed:
        os.truncate(segment.path, position)
        segment.size = position
    return (position, removed, problem) if problem is not None else None


def _scan(
    view: memoryview, segment: Segment, epochs: LeaderEpochCheckpoint | None, interval: int
) -> tuple[int, str | None]:
    """Walk over the batches, filling the indexes; return where the valid part ends and what is wrong there.

    Written for speed: a node that was killed is not ready before this has seen every batch that may not be durable.
    """
    unpack, checksum, total = HEADER.unpack_from, crc32c, len(view)
    offset_index, time_index = segment.offset_index, segment.time_index
    position = since_entry = 0
    next_offset, max_timestamp, max_timestamp_offset = segment.base_offset, -1, segment.base_offset
    end_offset = segment.base_offset + RELATIVE_OFFSET_MAX + 1
    latest_epoch = epochs.latest_epoch if epochs is not None else 2**31
    reason = None
    while position < total:
        if position + HEADER_SIZE > total:
            reason = "the file ends inside a batch header"
            break
        base_offset, length, epoch, magic, crc, _, delta, _, timestamp, _, _, _, count = unpack(view, position)
        end = position + length + BATCH_OVERHEAD
        last_offset = base_offset + delta
        if magic != 2 or length < _LENGTH_MIN or not 0 <= count <= delta + 1:
            reason = header_problem(length, magic, delta, count)
            break
        if end > total:
            reason = "the file ends inside a batch"
            break
        if not next_offset <= base_offset <= last_offset < end_offset:
            reason = f"offset {base_offset} after {next_offset - 1}"
            break
        if checksum(view[position + ATTRIBUTES_OFFSET : end]) != crc:
            reason = f"the checksum of the batch at offset {base_offset} is wrong"
            break
        if timestamp > max_timestamp:
            max_timestamp, max_timestamp_offset = timestamp, last_offset
        if since_entry > interval:
            offset_index.append(last_offset, position)
            time_index.maybe_append(max_timestamp, max_timestamp_offset)
            since_entry = 0
        if epoch > latest_epoch and epochs is not None:
            epochs.assign(epoch, base_offset)
            latest_epoch = epoch
        next_offset = last_offset + 1
        since_entry += end - position
        position = end
    segment.restore_timestamps(max_timestamp, max_timestamp_offset)
    segment.bytes_since_index_entry = since_entry
    return position, reason


# Epochs, id


def _load_epochs(directory: str, *, exists: bool) -> LeaderEpochCheckpoint:
    path = f"{directory}/{LEADER_EPOCH_CHECKPOINT}"
    try:
        return LeaderEpochCheckpoint(path, is_new=not exists)
    except CorruptFileError as error:
        _log.warning("starting without leader epochs: %s", error)
        return LeaderEpochCheckpoint(path, is_new=True)


def _topic_id(directory: str) -> Uuid | None:
    try:
        return read_partition_metadata(directory)
    except CorruptFileError as error:
        _log.warning("the topic id of a partition is not known: %s", error)
        return None
