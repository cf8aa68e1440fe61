"""Compaction: for topics with ``cleanup.policy=compact`` keep (at least) the last value of every key.

A log has a clean part and, from the cleaner's checkpoint on, a dirty one; the active segment is never touched. The
cleaner takes the log with the greatest share of dirty bytes, reads the dirty part's keys into a map of bounded size,
then copies everything up to there without obsolete records, a group of segments into one new segment.
The new segment replaces the old ones atomically; a crash at any step leaves the old or the new ones.

Reading and writing use descriptors of their own, so this may run in a thread next to the node's loop. Appends and reads
continue meanwhile: they share only the tuple of segments. The caller provides the clock, and pauses for throttling.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from barnabas.common.crc32c import crc32c
from barnabas.common.topic_partition import TopicPartition
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.record_batch import BatchView
from barnabas.storage.batch_cleaner import BatchCleaner, walk_keys
from barnabas.storage.batch_header import ATTRIBUTES_OFFSET, BATCH_OVERHEAD, HEADER, HEADER_SIZE, header_problem
from barnabas.storage.cleaned_transactions import CleanedTransactions
from barnabas.storage.cleaner_offset_map import CleanerOffsetMap
from barnabas.storage.cleaning_pauses import CleaningPauses
from barnabas.storage.errors import CorruptSegmentError, StorageError
from barnabas.storage.file_pool import FilePool
from barnabas.storage.partition_log import PartitionLog
from barnabas.storage.produced_batch import read_end_transaction_marker
from barnabas.storage.segment import CLEANED_SUFFIX, RELATIVE_OFFSET_MAX, Segment
from barnabas.storage.transaction_index import AbortedTransaction

__all__ = ["CleanableRange", "CleanerStats", "CleaningAborted", "LogCleaner", "cleanable_range", "clean_log"]

_log = logging.getLogger(__name__)

DEDUPE_BUFFER_SIZE = 134_217_728
LOAD_FACTOR = 0.9
_NO_END = 2**63
_READ_SIZE = 1 << 20


class CleaningAborted(Exception):
    """The cleaner was stopped; its output is dropped, and the log is unchanged."""


class CleanableRange(NamedTuple):
    """The offsets that may be cleaned: dirty from ``first_dirty`` on, up to ``end``."""

    first_dirty: int
    end: int
    clean_bytes: int
    dirty_bytes: int
    is_due: bool
    """``max.compaction.lag.ms`` has passed for some record in it."""

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


class CleanerStats(NamedTuple):
    """The result of one cleaning: the offset up to which the log is clean, and its costs."""

    topic_partition: TopicPartition
    end_offset: int
    bytes_before: int
    bytes_after: int
    records_read: int
    records_kept: int
    keys: int


def cleanable_range(log: PartitionLog, checkpoint: int | None, now_ms: int) -> CleanableRange:
    """Return the part of the log that may be cleaned now, given the end of the last cleaning."""
    segments = log.segments
    config = log.config
    first_dirty = log.log_start_offset if checkpoint is None else checkpoint
    if not log.log_start_offset <= first_dirty <= log.log_end_offset:
        first_dirty = log.log_start_offset
    end = min(segments[-1].base_offset, log.last_stable_offset)
    dirty = [segment for segment, after in _with_end(segments) if after > first_dirty and segment.base_offset < end]
    if config.min_compaction_lag_ms > 0:
        for segment in dirty:
            if segment.largest_timestamp > now_ms - config.min_compaction_lag_ms:
                end = min(end, max(segment.base_offset, first_dirty))
                break
    end = max(end, first_dirty)
    dirty = [segment for segment in dirty if segment.base_offset < end]
    first_timestamp = next((segment.first_timestamp for segment in dirty if segment.size), None)
    is_due = first_timestamp is not None and first_timestamp < now_ms - config.max_compaction_lag_ms
    dirty_bytes = sum(segment.size for segment in dirty)
    clean_bytes = sum(
        segment.size for segment in segments if segment.base_offset < first_dirty and segment not in dirty
    )
    return CleanableRange(first_dirty, end, clean_bytes, dirty_bytes, is_due and dirty_bytes > 0)


def clean_log(
    log: PartitionLog,
    cleanable: CleanableRange,
    *,
    now_ms: int,
    dedupe_buffer_size: int = DEDUPE_BUFFER_SIZE,
    load_factor: float = LOAD_FACTOR,
    pause: Callable[[int], None] = lambda size: None,
) -> CleanerStats:
    """Clean ``cleanable`` of the log. ``pause`` is called after each batch with the bytes read; it may sleep or raise.

    Raises CorruptSegmentError if a batch is damaged: nothing is changed then.
    """
    return _Cleaning(log, now_ms, pause).run(cleanable, dedupe_buffer_size, load_factor)


class _Cleaning:
    """One cleaning of one log."""

    def __init__(self, log: PartitionLog, now_ms: int, pause: Callable[[int], None]) -> None:
        self._log = log
        self._now_ms = now_ms
        self._pause = pause
        self._bytes_before = 0
        self._bytes_after = 0

    def run(self, cleanable: CleanableRange, dedupe_buffer_size: int, load_factor: float) -> CleanerStats:
        keys_expected = cleanable.end - cleanable.first_dirty
        offset_map = CleanerOffsetMap(dedupe_buffer_size, load_factor=load_factor, keys_expected=keys_expected)
        segments = [segment for segment in self._log.segments if segment.base_offset < cleanable.end]
        self._fill(offset_map, segments, cleanable)
        end_offset = offset_map.latest_offset + 1
        batches = BatchCleaner(
            offset_map,
            transactions := CleanedTransactions(self._aborted(segments, end_offset)),
            last_of_producers=self._last_of_producers(),
            now_ms=self._now_ms,
            delete_retention_ms=self._log.config.delete_retention_ms,
        )
        for group in self._groups([segment for segment in segments if segment.base_offset < end_offset]):
            self._clean_group(group, batches, transactions)
        self._log.remove_stray_snapshots()
        return CleanerStats(
            self._log.topic_partition,
            end_offset,
            self._bytes_before,
            self._bytes_after,
            batches.records_read,
            batches.records_kept,
            offset_map.size,
        )

    # First pass: the keys of the dirty part

    def _fill(self, offset_map: CleanerOffsetMap, segments: Sequence[Segment], cleanable: CleanableRange) -> None:
        """Put the dirty part's keys into the map, up to its capacity."""
        transactions = CleanedTransactions(self._aborted(segments, cleanable.end))
        offset_map.latest_offset = cleanable.first_dirty - 1
        for segment, after in _with_end(segments):
            if after <= cleanable.first_dirty:
                continue
            for batch in self._batches(segment):
                view = BatchView(batch)
                if view.last_offset < cleanable.first_dirty:
                    continue
                if view.last_offset >= cleanable.end:
                    break
                if not self._fill_batch(offset_map, transactions, view, batch, cleanable.first_dirty):
                    return
                offset_map.latest_offset = view.last_offset
        offset_map.latest_offset = cleanable.end - 1

    def _fill_batch(
        self,
        offset_map: CleanerOffsetMap,
        transactions: CleanedTransactions,
        view: BatchView,
        batch: memoryview,
        first_dirty: int,
    ) -> bool:
        """Add a batch; False when the map is full: the batch then counts as not read."""
        if view.is_control:
            transactions.read_control_batch(view.producer_id, view.last_offset, read_end_transaction_marker(batch))
            return True
        if transactions.read_data_batch(view.producer_id, view.last_offset, is_transactional=view.is_transactional):
            return True
        if offset_map.size + view.count > offset_map.keys_max and offset_map.size:
            return False
        put, base_offset = offset_map.put, view.base_offset
        if view.count:
            for record in walk_keys(view.record_section(), view.count):
                offset = base_offset + record[3]
                if record[4] is not None and offset >= first_dirty:
                    put(record[4], offset)
        return True

    # Second pass: copy the retained records

    def _groups(self, segments: Sequence[Segment]) -> Iterator[list[Segment]]:
        """Group neighbouring segments that fit into one segment."""
        config = self._log.config
        group: list[Segment] = []
        size = 0
        for segment, after in _with_end(segments):
            # The last of them ends where the next one, which is not cleaned, starts: no group spans 2**31 offsets.
            last_offset = after - 1 if after < _NO_END else segment.base_offset
            if group and (
                size + segment.size > config.segment_size or last_offset - group[0].base_offset > RELATIVE_OFFSET_MAX
            ):
                yield group
                group, size = [], 0
            group.append(segment)
            size += segment.size
        if group:
            yield group

    def _clean_group(self, group: list[Segment], batches: BatchCleaner, transactions: CleanedTransactions) -> None:
        log = self._log
        pool = FilePool(1)
        cleaned = Segment(log.directory, group[0].base_offset, pool, suffix=CLEANED_SUFFIX, created_ms=self._now_ms)
        try:
            cleaned.delete()  # Files that an aborted attempt may have left.
            for segment in group:
                self._clean_segment(segment, cleaned, batches, transactions)
            if not cleaned.size:
                cleaned.create_file()
            cleaned.complete_indexes()
            cleaned.flush()
            cleaned.release()
            modified_ns = os.stat(group[-1].path).st_mtime_ns
            os.utime(cleaned.path, ns=(modified_ns, modified_ns))
            if not log.replace_segments(group, [cleaned], now_ms=self._now_ms):
                raise CleaningAborted(f"the segments of {log.topic_partition} changed while they were cleaned")
        except BaseException:
            if cleaned.suffix == CLEANED_SUFFIX:
                cleaned.delete()
            raise
        self._bytes_before += sum(segment.size for segment in group)
        self._bytes_after += cleaned.size

    def _clean_segment(
        self, segment: Segment, cleaned: Segment, batches: BatchCleaner, transactions: CleanedTransactions
    ) -> None:
        interval = self._log.config.index_interval_bytes
        for batch in self._batches(segment):
            kept = batches.clean(batch)
            if kept is not None:
                header = HEADER.unpack_from(kept)
                cleaned.append(
                    (kept,),
                    len(kept),
                    last_offset=header[0] + header[6],
                    max_timestamp=header[8],
                    index_interval_bytes=interval,
                )
            if transactions.retained_aborted:
                for transaction in transactions.retained_aborted:
                    cleaned.transaction_index.append(transaction)
                transactions.retained_aborted.clear()

    # Parts

    def _batches(self, segment: Segment) -> Iterator[memoryview]:
        """Yield the bytes of each batch after checking them, with a pause after each; memory is bounded.

        The checksum does not cover the base offset: a batch whose offsets do not follow is damaged too.
        """
        next_offset, offset_end = segment.base_offset, segment.base_offset + RELATIVE_OFFSET_MAX + 1
        fd = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            position, wanted = 0, _READ_SIZE
            while position < segment.size:
                piece = memoryview(os.pread(fd, min(wanted, segment.size - position), position))
                used, missing = 0, HEADER_SIZE
                while used + HEADER_SIZE <= len(piece):
                    header = HEADER.unpack_from(piece, used)
                    if header_problem(header[1], header[3], header[6], header[12]) is not None:
                        raise CorruptSegmentError(segment.path, position + used, "not a record batch")
                    size = header[1] + BATCH_OVERHEAD
                    batch = piece[used : used + size]
                    if len(batch) < size:
                        missing = size
                        break
                    if crc32c(batch[ATTRIBUTES_OFFSET:]) != header[4]:
                        raise CorruptSegmentError(
                            segment.path, position + used, f"the batch at offset {header[0]} is damaged"
                        )
                    if not next_offset <= header[0] <= header[0] + header[6] < offset_end:
                        raise CorruptSegmentError(
                            segment.path, position + used, f"offset {header[0]} after {next_offset - 1}"
                        )
                    next_offset = header[0] + header[6] + 1
                    yield batch
                    self._pause(size)
                    used += size
                position += used
                wanted = max(_READ_SIZE, missing)
                if position < segment.size < position + missing:
                    raise CorruptSegmentError(segment.path, position, "the segment ends inside a batch")
        finally:
            os.close(fd)

    def _aborted(self, segments: Sequence[Segment], end_offset: int) -> Iterable[AbortedTransaction]:
        """Return the aborted transactions with records below ``end_offset``, wherever they ended."""
        start = segments[0].base_offset if segments else 0
        for segment in self._log.segments:
            if segment.base_offset >= start:
                for transaction in list(segment.transaction_index.transactions):
                    if transaction.first_offset < end_offset:
                        yield transaction

    def _last_of_producers(self) -> dict[int, tuple[int, int]]:
        if not self._log.has_producers:
            return {}
        producers = list(self._log.producers.producers.values())
        return {producer.producer_id: (producer.last_data_offset, producer.epoch) for producer in producers}


class LogCleaner:
    """Chooses the dirtiest log, cleans it, and records up to where each log is clean."""

    def __init__(
        self,
        logs: Callable[[], Iterable[PartitionLog]],
        cleaner_offsets: dict[TopicPartition, int],
        *,
        checkpoint: Callable[[], None] = lambda: None,
        dedupe_buffer_size: int = DEDUPE_BUFFER_SIZE,
        load_factor: float = LOAD_FACTOR,
        pause: Callable[[int], None] = lambda size: None,
        pauses: CleaningPauses | None = None,
        report_failure: Callable[[PartitionLog, BaseException], bool] = lambda log, error: False,
        report_damage: Callable[[PartitionLog, CorruptSegmentError], object] = lambda log, error: None,
    ) -> None:
        """``cleaner_offsets`` is updated after each cleaning, then ``checkpoint`` is called to write it.

        ``report_failure`` receives the error, and returns whether a disk caused it.
        """
        self._logs = logs
        self._cleaner_offsets = cleaner_offsets
        self._checkpoint = checkpoint
        self._dedupe_buffer_size = dedupe_buffer_size
        self._load_factor = load_factor
        self._pause = pause
        self._pauses = pauses if pauses is not None else CleaningPauses()
        self._report_failure = report_failure
        self._report_damage = report_damage
        self.uncleanable: dict[TopicPartition, str] = {}
        """Damaged logs with their errors: they are not cleaned until the node restarts."""

    def dirtiest(self, now_ms: int) -> tuple[PartitionLog, CleanableRange] | None:
        """Return the log that needs cleaning most, None if none does."""
        chosen: tuple[PartitionLog, CleanableRange] | None = None
        for log in self._logs():
            if not log.config.compact or log.is_deleted or log.topic_partition in self.uncleanable:
                continue
            if self._pauses.is_paused(log.topic_partition):
                continue
            cleanable = cleanable_range(log, self._cleaner_offsets.get(log.topic_partition), now_ms)
            if not cleanable.dirty_bytes:
                continue
            if not cleanable.is_due and cleanable.dirty_ratio <= log.config.min_cleanable_dirty_ratio:
                continue
            if chosen is None or cleanable.dirty_ratio > chosen[1].dirty_ratio:
                chosen = log, cleanable
        return chosen

    def clean_dirtiest(self, now_ms: int) -> CleanerStats | None:
        """Clean one log, if one needs it. A damaged log is excluded, one that changed meanwhile is retried."""
        chosen = self.dirtiest(now_ms)
        if chosen is None or not self._pauses.try_begin(chosen[0].topic_partition):
            return None
        try:
            return self._clean(*chosen, now_ms)
        finally:
            self._pauses.end()

    def _clean(self, log: PartitionLog, cleanable: CleanableRange, now_ms: int) -> CleanerStats | None:
        def pause(size: int) -> None:
            if self._pauses.is_paused(log.topic_partition):
                raise CleaningAborted(f"{log.topic_partition} moves to another directory")
            self._pause(size)

        try:
            stats = clean_log(
                log,
                cleanable,
                now_ms=now_ms,
                dedupe_buffer_size=self._dedupe_buffer_size,
                load_factor=self._load_factor,
                pause=pause,
            )
        except (CorruptSegmentError, DecodeError) as error:
            self.uncleanable[log.topic_partition] = str(error)
            _log.error("cannot compact %s: %s", log.topic_partition, error)
            if isinstance(error, CorruptSegmentError):
                self._report_damage(log, error)
            return None
        except (CleaningAborted, FileNotFoundError) as error:
            if not log.is_deleted:
                _log.info("compaction of %s was aborted: %s", log.topic_partition, error)
            return None
        except (OSError, StorageError) as error:
            if not self._report_failure(log, error):
                _log.warning("compaction of %s was aborted: %s", log.topic_partition, error)
            return None
        self._cleaner_offsets[log.topic_partition] = stats.end_offset
        self._checkpoint()
        return stats


def _with_end(segments: Sequence[Segment]) -> Iterator[tuple[Segment, int]]:
    """Yield each segment and the offset where the next one starts (for the last one: unknown)."""
    for index, segment in enumerate(segments):
        yield segment, segments[index + 1].base_offset if index + 1 < len(segments) else _NO_END
