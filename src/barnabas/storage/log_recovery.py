"""Opens a partition's directory: finishes what a crash interrupted, truncates a torn tail, rebuilds lost files.

After a clean shutdown everything on disk is trusted; only missing indexes are rebuilt. After any other end:

1. Leftovers (``.deleted`` and ``.cleaned`` files) are removed. A ``.swap`` segment is a finished compaction whose
   replacement was interrupted: it replaces the segments that it was built from.
2. Batches at or after the beginning of the next segment are of a file that was restored from a backup; they become the
   end of the log, or are set aside (``overlapping_segments``).
3. Segments that may hold anything above the recovery point are read whole. Bytes at the end of the last one that are
   not a valid batch are the torn tail of a last write, and are truncated, if they lie above the recovery point.
   After a restart of the machine the log is cut at its first bad place above the recovery point, whatever follows: the
   machine wrote unflushed pages in any order. The old files are kept beside the log.
   Anything else is damage: it is reported, stays in the file, and readers step over it (``segment_damage``). A log that
   ends before its recovery point continues at the recovery point, so that no offset is assigned twice.
4. A lost leader epoch checkpoint is rebuilt from all batches.
5. Producer state is the last snapshot and the batches since; leader epochs are the checkpoint and the batches read.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import NamedTuple

from barnabas.common.topic_config import TopicConfig
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.storage.damaged_files import copy_aside, move_aside
from barnabas.storage.errors import CorruptFileError, CorruptIndexError, CorruptSegmentError
from barnabas.storage.file_io import naming
from barnabas.storage.file_permissions import FILE_MODE
from barnabas.storage.file_pool import FilePool
from barnabas.storage.leader_epoch_checkpoint import LEADER_EPOCH_CHECKPOINT, LeaderEpochCheckpoint
from barnabas.storage.overlapping_segments import (
    cut_overlap,
    header_changed_at_end,
    remove_overlaps,
    replace_empty_segment,
)
from barnabas.storage.partition_log import PartitionLog
from barnabas.storage.partition_metadata import read_partition_metadata
from barnabas.storage.producer_recovery import rebuild_producers
from barnabas.storage.segment import CLEANED_SUFFIX, DELETED_SUFFIX, SWAP_SUFFIX, Segment
from barnabas.storage.segment_check import InvalidTail, check_segment, missing_end, report_damage
from barnabas.storage.segment_damage import DamagedRange

__all__ = ["LoadReport", "Truncation", "load_log"]

_log = logging.getLogger(__name__)

_FIRST_ENTRIES = 1024
_SEGMENT_EXTENSIONS = (".log", ".index", ".timeindex", ".txnindex")


class Truncation(NamedTuple):
    """A torn tail that recovery truncated: from this position of this segment on, [offset, ...) in the log."""

    path: str
    position: int
    offset: int
    removed_bytes: int
    reason: str


class LoadReport(NamedTuple):
    """The findings at start-up. ``truncations``: torn tails that were truncated."""

    partitions: int
    is_clean: bool
    truncations: list[Truncation]
    seconds: float


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
    high_watermark: int = 0,
    is_same_boot: bool = False,
) -> tuple[PartitionLog, Truncation | None]:
    """Open the log in ``directory``; reports what was truncated.

    ``high_watermark`` is that of the checkpoint. ``is_same_boot``: the machine has not restarted since the last end, so
    that everything written still exists, flushed or not.
    """
    sizes = _list_files(directory)
    lost_base = _base_of_lost_log(sizes)
    if not is_clean or any(name.endswith((SWAP_SUFFIX, CLEANED_SUFFIX, DELETED_SUFFIX)) for name in sizes):
        sizes = _finish_interrupted(directory, sizes, pool)
    sizes |= dict.fromkeys(_make_lost_logs(directory, sizes), 0)
    segments = [
        Segment(directory, int(name[:-4]), pool, size=size, created_ms=now_ms)
        for name, size in sorted(sizes.items())
        if name.endswith(".log") and name[:-4].isdigit()
    ]
    known_end = max(recovery_point, high_watermark, _last_snapshot(sizes) if is_clean else 0)
    if not segments and lost_base is not None and lost_base < known_end:
        segments.append(_stand_in(directory, lost_base, known_end, pool, now_ms))
    for segment in segments:
        segment.is_flushed = is_clean or segment.size == 0
    changed = set[Segment]()
    if segments and (segments[-1].size or not _has_entries(segments[-1])):
        restored = replace_empty_segment(directory, segments, config.index_interval_bytes)
        changed = {restored} if restored is not None else changed
    changed |= remove_overlaps(segments, config.index_interval_bytes, is_clean=is_clean)
    epochs, has_epochs = _load_epochs(directory, exists=LEADER_EPOCH_CHECKPOINT in sizes)
    reader = _SegmentReader(
        segments,
        epochs,
        config.index_interval_bytes,
        is_compacted=config.compact,
        known_end=known_end,
        recovery_point=recovery_point,
        is_whole=is_clean or is_same_boot,
        is_clean=is_clean,
        changed=changed,
    )
    reader.note_lost_logs()
    if is_clean and has_epochs:
        reader.check_indexes(sizes)
    else:
        reader.check_from(0 if not has_epochs else max(recovery_point, log_start_offset), sizes)
    truncation = reader.settle_end(directory, pool, now_ms)
    if not segments or segments[-1].read_next_offset() < log_start_offset:
        segments = [_start_anew(directory, segments, log_start_offset, pool, now_ms)]
    log_end_offset = segments[-1].read_next_offset()
    log_start_offset = max(log_start_offset, segments[0].base_offset)
    if f"{segments[-1].base_offset:020d}.txnindex" in sizes:
        # A power failure may have taken the records of its last entries.
        segments[-1].transaction_index.truncate_to(log_end_offset)
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
        reader.rebuild_producers(log, directory)
    if not is_clean and not is_same_boot:
        truncation = _cut_unflushed(log, max(recovery_point, log_start_offset), now_ms) or truncation
    return log, truncation


def _cut_unflushed(log: PartitionLog, from_offset: int, now_ms: int) -> Truncation | None:
    """Truncate after a machine restart: of unflushed pages the machine may have written later ones and not earlier
    ones."""
    segments, end_offset = log.segments, log.log_end_offset
    found = ((index, damage) for index, segment in enumerate(segments) for damage in segment.damaged)
    index, torn = next(((at, damage) for at, damage in found if damage.first_offset >= from_offset), (-1, None))
    if torn is None:
        return None
    path, removed = segments[index].path, sum(segment.size for segment in segments[index:]) - torn.position
    kept = log.set_damage_aside(torn, now_ms=now_ms)
    _log.error(
        "%s: at position %d, offset %d: %s; nothing from there on was flushed before the machine stopped: cut %d bytes "
        "with the offsets up to %d; kept: %s",
        path, torn.position, torn.first_offset, torn.reason, removed, end_offset - 1,
        ", ".join(kept) or "nothing, no bytes left",
    )  # fmt: skip
    return Truncation(path, torn.position, torn.first_offset, removed, torn.reason)


def _last_snapshot(names: Iterable[str]) -> int:
    """Return the log's end at the clean shutdown, if it left a producer snapshot."""
    stems = [name.removesuffix(".snapshot") for name in names if name.endswith(".snapshot")]
    return max((int(stem) for stem in stems if stem.isdigit()), default=0)


def _start_anew(directory: str, lost: Sequence[Segment], base_offset: int, pool: FilePool, now_ms: int) -> Segment:
    """Add an empty segment to a new log, or to one that ends before its start (its tail was lost)."""
    segment = Segment(directory, base_offset, pool, created_ms=now_ms)
    if lost:
        kept = [move_aside(old.path) for old in lost if old.size]
        _log.error(
            "%s ends before its start %d, as written in log-start-offset-checkpoint: it starts again there; kept: %s",
            directory, base_offset, ", ".join(kept) or "nothing, it was empty",
        )  # fmt: skip
        for old in lost:
            old.delete()
    if base_offset:
        segment.create_file()
    return segment


# Leftovers


def _list_files(directory: str) -> dict[str, int]:
    """Return name -> size; the size of log files only, which saves the other look-ups."""
    with os.scandir(directory) as files:
        return {file.name: file.stat().st_size if ".log" in file.name else 0 for file in files}


def _finish_interrupted(directory: str, sizes: dict[str, int], pool: FilePool) -> dict[str, int]:
    """Remove leftovers and finish replacements; return the remaining files."""
    incomplete = [name for name in sizes if name.endswith(CLEANED_SUFFIX)]
    for name in sizes:
        if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, ".tmp")):
            os.unlink(f"{directory}/{name}")
    # One replacement by several segments: if a later one was still ``.cleaned``, the earlier ones are invalid too.
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
        end = max(first + 1, *(segment.read_next_offset() for segment in swaps))  # A segment may be empty.
        for name in sizes:
            stem, _, extension = name.partition(".")
            if f".{extension}" == ".log" and first <= int(stem) < end:
                Segment(directory, int(stem), pool).delete()
        for segment in swaps:
            segment.rename_suffix("")
            segment.file.close()
            _log.info("finished the replacement of segments by %s", segment.path)
    names = _list_files(directory)
    names |= dict.fromkeys(_make_lost_logs(directory, names), 0)
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


def _has_indexes(segment: Segment, names: dict[str, int]) -> bool:
    stem = f"{segment.base_offset:020d}"
    return f"{stem}.index" in names and f"{stem}.timeindex" in names


class _SegmentReader:
    """Reads the segments when a log is opened; ``segments`` shrinks and grows at its end."""

    def __init__(
        self,
        segments: list[Segment],
        epochs: LeaderEpochCheckpoint,
        index_interval_bytes: int,
        *,
        is_compacted: bool,
        known_end: int,
        recovery_point: int,
        is_whole: bool,
        is_clean: bool,
        changed: set[Segment],
    ) -> None:
        """``known_end``: the log's end before. ``is_whole``: everything written then must still exist; otherwise
        only what is below the recovery point. ``changed``: segments to read whole in any case.
        """
        self._changed = changed
        self._is_compacted = is_compacted
        self._recovery_point = recovery_point
        self._is_whole = is_whole
        self._segments = segments
        self._epochs = epochs
        self._interval = index_interval_bytes
        self._known_end = known_end
        self._is_clean = is_clean
        self._tail: InvalidTail | None = None

    def note_lost_logs(self) -> None:
        """An empty segment whose time index has entries held records: only compaction leaves empty ones, with none."""
        for segment, following in pairwise(self._segments):
            if not segment.size and _has_entries(segment):
                reason = "the file is missing or empty, and its time index is not"
                _add_damage(segment, DamagedRange(0, 0, segment.base_offset, following.base_offset, reason))
                report_damage(segment, segment.damaged[-1])
        last = self._segments[-1] if self._segments else None
        if last is not None and not last.size and _has_entries(last):
            self._known_end = max(self._known_end, last.time_index.last_entry[1] + 1, last.offset_index.last_offset + 1)
            self._is_whole = True

    def check_indexes(self, names: dict[str, int]) -> None:
        """After a clean shutdown: read only segments whose indexes are invalid, and a last segment without its end."""
        last = self._segments[-1] if self._segments else None
        for segment in self._segments:
            is_intact = segment not in self._changed and _indexes_are_sane(segment, names)
            if not is_intact or (segment is last and not _has_end(segment)):
                self._check(segment)

    def check_from(self, recovery_point: int, names: dict[str, int]) -> None:
        """Read the part that may not be durable.

        The leader epochs from there on are those of the batches. The checkpoint may be newer than a batch that
        reappeared after a power failure in place of one that was never flushed.
        """
        knows_epochs = True
        for index, segment in enumerate(self._segments):
            is_last = index + 1 == len(self._segments)
            is_durable = not is_last and self._segments[index + 1].base_offset <= recovery_point
            if knows_epochs and not is_durable:
                knows_epochs = False
                self._epochs.truncate_from_end(segment.base_offset)
            if not is_durable or segment in self._changed or not _indexes_are_sane(segment, names):
                self._check(segment)

    def _check(self, segment: Segment) -> None:
        segment.transaction_index.begin_anew_if_corrupt(segment.base_offset)
        if segment.damaged and not segment.size:
            return
        is_last = segment is self._segments[-1]
        tail = check_segment(segment, self._epochs, self._interval)
        if is_last:
            self._tail = tail
        else:
            following = self._segments[self._segments.index(segment) + 1].base_offset
            damage = self._damage_at_end(segment, following, tail)
            if damage is not None:
                _add_damage(segment, damage)
        for damage in segment.damaged:
            report_damage(segment, damage)
        if not is_last or self._is_clean:
            segment.complete_indexes()
        if not is_last:
            segment.release()

    def _damage_at_end(self, segment: Segment, following: int, tail: InvalidTail | None) -> DamagedRange | None:
        """Compare the end of a checked segment with the beginning of the next one."""
        if tail is not None:
            return DamagedRange(tail.position, segment.size, tail.offset, following, tail.reason)
        if cut_overlap(segment, following):
            self._epochs.truncate_from_end(following)
        changed = header_changed_at_end(segment, following)
        if changed is None:
            return None if self._is_compacted else missing_end(segment, following)
        segment.offset_index.truncate_to_position(changed.position)
        self._epochs.truncate_from_end(changed.first_offset)
        return changed

    def settle_end(self, directory: str, pool: FilePool, now_ms: int) -> Truncation | None:
        """Truncate a torn tail. A log that ends before ``known_end`` continues there; the missing part is damage."""
        if not self._segments:
            return None
        last, tail, known_end = self._segments[-1], self._tail, self._known_end
        if not last.size and known_end > last.base_offset:
            tail = None
        end = last.read_next_offset() if tail is None else tail.offset
        if not self._is_whole and tail is not None and end < self._recovery_point:
            known_end = self._recovery_point
        if end < known_end and (self._is_whole or (known_end == self._recovery_point and tail is not None)):
            reason = f"the file ends before offset {known_end}, where the log ended" if tail is None else tail.reason
            position = last.size if tail is None else tail.position
            _add_damage(last, DamagedRange(position, last.size, end, known_end, reason))
            report_damage(last, last.damaged[-1])
            last.become_inactive()
            segment = Segment(directory, known_end, pool, created_ms=now_ms)
            segment.create_file()
            self._segments.append(segment)
            return None
        if end < known_end:
            _log.error(
                "%s ends at offset %d after the crash: records up to %d, which had been acknowledged, are lost",
                last.path, end, known_end - 1,
            )  # fmt: skip
        return None if tail is None else self._cut(last, tail)

    def _cut(self, segment: Segment, tail: InvalidTail) -> Truncation:
        removed = segment.size - tail.position
        kept = ""
        if not tail.is_cut_short:
            # All of the batch was written, so it may have been acknowledged to a client.
            kept = f"; they are kept as {copy_aside(segment.path, tail.position)}"
        os.truncate(segment.path, tail.position)
        segment.size = tail.position
        segment.checked.cut(tail.position)
        segment.inherited_size = min(segment.inherited_size, tail.position)
        _log.warning(
            "%s: the end is not a valid batch: at position %d, offset %d: %s; cut %d bytes%s",
            segment.path, tail.position, tail.offset, tail.reason, removed, kept,
        )  # fmt: skip
        return Truncation(segment.path, tail.position, tail.offset, removed, tail.reason)

    def rebuild_producers(self, log: PartitionLog, directory: str) -> None:
        """Read a segment whole if it turns out to be damaged."""
        checked: set[Segment] = set()
        while True:
            try:
                found = rebuild_producers(directory, log.segments, log.log_start_offset, log.log_end_offset)
            except CorruptSegmentError as error:
                damaged = next(segment for segment in log.segments if segment.path == error.path)
                if damaged in checked:
                    raise
                checked.add(damaged)
                log.check_segment(damaged)
            else:
                log.restore_producers(*found)
                return


def _add_damage(segment: Segment, damage: DamagedRange) -> None:
    segment.set_damaged([*segment.damaged, damage])


def _make_lost_logs(directory: str, sizes: dict[str, int]) -> list[str]:
    """Create an empty log file for an index without a log: a lost segment stays known.

    A deletion that was interrupted leaves other suffixes behind. An index after the last log proves nothing: it may be
    older than a truncation of the log, and the recovery point knows where the log ended.
    """
    made = []
    last = max((name for name in sizes if name.endswith(".log") and name[:-4].isdigit()), default="")
    for name in sorted(sizes):
        stem, _, extension = name.partition(".")
        if not stem.isdigit() or extension != "timeindex" or not name < last or f"{stem}.log" in sizes:
            continue
        with naming(f"{directory}/{name}"), open(f"{directory}/{name}", "rb") as file:
            has_entries = any(file.read(_FIRST_ENTRIES))
        if has_entries and f"{stem}.log{DELETED_SUFFIX}" not in sizes:
            _log.error("%s/%s.log is missing, but its time index exists", directory, stem)
            os.close(os.open(f"{directory}/{stem}.log", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))
            made.append(f"{stem}.log")
    return made


def _base_of_lost_log(sizes: dict[str, int]) -> int | None:
    """Return the first offset of a directory that has time indexes but no ``.log``."""
    suffixes = (".log", f".log{SWAP_SUFFIX}", f".log{DELETED_SUFFIX}", f".log{CLEANED_SUFFIX}")
    if any(name.endswith(suffixes) for name in sizes):
        return None
    stems = (name.removesuffix(".timeindex") for name in sizes if name.endswith(".timeindex"))
    return min((int(stem) for stem in stems if stem.isdigit()), default=None)


def _stand_in(directory: str, base_offset: int, known_end: int, pool: FilePool, now_ms: int) -> Segment:
    """Create an empty segment in place of a lost log: its offsets are not assigned again."""
    segment = Segment(directory, base_offset, pool, created_ms=now_ms)
    _log.error("%s is missing, and the log had reached offset %d", segment.path, known_end)
    segment.create_file()
    return segment


def _has_entries(segment: Segment) -> bool:
    try:
        segment.time_index.sanity_check()
    except CorruptIndexError:
        return False
    return bool(segment.time_index.count)


def _has_end(segment: Segment) -> bool:
    try:
        segment.read_next_offset()
    except (CorruptSegmentError, CorruptIndexError):
        return False
    return True


def _indexes_are_sane(segment: Segment, names: dict[str, int]) -> bool:
    if not segment.size:
        return True
    if not _has_indexes(segment, names):
        return False
    try:
        segment.offset_index.sanity_check()
        segment.time_index.sanity_check()
        if not segment.time_index.count:
            raise CorruptIndexError(segment.time_index.path, "it does not have an entry for the last batch")
        segment.transaction_index.sanity_check(segment.base_offset)
    except CorruptIndexError as error:
        _log.warning("rebuilding the indexes of %s: %s", segment.path, error)
        return False
    segment.release()
    return True


# Epochs, id


def _load_epochs(directory: str, *, exists: bool) -> tuple[LeaderEpochCheckpoint, bool]:
    """Return the epochs of the checkpoint, and whether it has any."""
    path = f"{directory}/{LEADER_EPOCH_CHECKPOINT}"
    try:
        epochs = LeaderEpochCheckpoint(path, is_new=not exists)
    except CorruptFileError as error:
        _log.error("rebuilding the leader epochs from the batches: %s", error)
        epochs = LeaderEpochCheckpoint(path, is_new=True)
    return epochs, bool(epochs.entries)


def _topic_id(directory: str) -> Uuid | None:
    try:
        return read_partition_metadata(directory)
    except CorruptFileError as error:
        _log.error("cannot read the topic id of a partition: %s", error)
        return None
