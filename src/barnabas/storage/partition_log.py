"""The log of one partition: segments in order, with the operations of a leader and a follower.

Offsets: records exist in [``log_start_offset``, ``log_end_offset``); clients may read below ``high_watermark``, and
those that want committed transactions only below ``last_stable_offset``. Records below ``recovery_point`` are durable.
The owner, which knows the replicas, sets the high watermark (``maybe_advance_high_watermark``).

An append is in the file when ``append_as_leader`` returns, so that a killed process loses nothing; it is durable after
``flush``, which runs automatically only after every ``flush.messages`` records, as in Kafka.

One thread, the node's loop, appends and reads. The cleaner's thread replaces segments, and only through
``replace_segments``. The caller passes in the time; the log never reads a clock.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.topic_config import TopicConfig
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.protocol.produce_validation import ProduceRules
from barnabas.storage.batch_header import (
    BATCH_OVERHEAD,
    PREFIX,
    Buffer,
)
from barnabas.storage.checkpoint_file import sync_directory, sync_file
from barnabas.storage.damaged_files import unused_aside_path
from barnabas.storage.errors import CorruptFileError, CorruptIndexError, CorruptSegmentError
from barnabas.storage.file_permissions import DIRECTORY_MODE
from barnabas.storage.file_pool import FilePool
from barnabas.storage.leader_epoch_checkpoint import LEADER_EPOCH_CHECKPOINT, LeaderEpochCheckpoint
from barnabas.storage.log_reader import FetchedRecords, read_segments
from barnabas.storage.log_segments import LogSegments, segment_index
from barnabas.storage.partition_metadata import write_partition_metadata
from barnabas.storage.produced_batch import (
    AppendOrigin,
    ProducedBatch,
    produce_rules,
    read_produced_batch,
)
from barnabas.storage.producer_checks import apply_batch, find_duplicate
from barnabas.storage.producer_recovery import rebuild_producers
from barnabas.storage.producer_snapshot import delete_snapshot, list_snapshots, write_snapshot
from barnabas.storage.producer_state import ProducerState
from barnabas.storage.replicated_batches import EPOCH_MAX, replicated_batches
from barnabas.storage.segment import Segment
from barnabas.storage.segment_check import check_segment, missing_end, report_damage
from barnabas.storage.segment_damage import CheckedBytes, DamagedRange, DamagedRangeError

__all__ = ["AppendInfo", "FetchedRecords", "PartitionLog"]

_log = logging.getLogger(__name__)

NO_TIMESTAMP = -1


class AppendInfo(NamedTuple):
    """The result for the producer. A ``duplicate`` was not written: it has the offsets of the first append."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool = False


class PartitionLog:
    __slots__ = (
        "_epochs",
        "_producers",
        "_rules",
        "_rules_of",
        "_segments",
        "_snapshot_offset",
        "config",
        "directory",
        "high_watermark",
        "last_flush_ms",
        "log_end_offset",
        "log_start_offset",
        "on_damaged",
        "on_log_start_moved",
        "recovery_point",
        "roll_jitter_ms",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        directory: str,
        topic_partition: TopicPartition,
        *,
        topic_id: Uuid | None,
        config: TopicConfig,
        pool: FilePool,
        segments: Sequence[Segment],
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        epochs: LeaderEpochCheckpoint | None = None,
        producers: ProducerState | None = None,
        snapshot_offset: int = -1,
        now_ms: int,
    ) -> None:
        """Build a log from its parts. See ``create`` for a new one, ``log_recovery.load_log`` for one on disk."""
        self.directory = directory
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.config = config
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.high_watermark = log_start_offset
        self.recovery_point = recovery_point
        self.last_flush_ms = now_ms
        self.on_log_start_moved: Callable[[], None] | None = None
        self.on_damaged: Callable[[PartitionLog], None] | None = None
        """Called when new damage is found."""
        # Random jitter from the manager, so that segments that were created together do not roll together.
        self.roll_jitter_ms = 0
        self._segments = LogSegments(directory, pool, segments)
        self._epochs = epochs
        self._producers = producers
        self._rules: ProduceRules | None = None
        self._rules_of: TopicConfig | None = None
        self._snapshot_offset = snapshot_offset

    @classmethod
    def create(
        cls,
        directory: str,
        topic_partition: TopicPartition,
        *,
        topic_id: Uuid | None,
        config: TopicConfig,
        pool: FilePool,
        now_ms: int,
    ) -> PartitionLog:
        """Create the directory of a new partition; its files are created with the first record."""
        os.mkdir(directory, DIRECTORY_MODE)
        if topic_id is not None:
            write_partition_metadata(directory, topic_id)
        return cls(
            directory,
            topic_partition,
            topic_id=topic_id,
            config=config,
            pool=pool,
            segments=[Segment(directory, 0, pool, created_ms=now_ms)],
            log_start_offset=0,
            log_end_offset=0,
            recovery_point=0,
            epochs=LeaderEpochCheckpoint(f"{directory}/{LEADER_EPOCH_CHECKPOINT}", is_new=True),
            now_ms=now_ms,
        )

    def __repr__(self) -> str:
        return f"PartitionLog({self.topic_partition}, {self.log_start_offset}..{self.log_end_offset})"

    # State

    @property
    def segments(self) -> tuple[Segment, ...]:
        return self._segments.all

    @property
    def active_segment(self) -> Segment:
        return self._segments.all[-1]

    @property
    def is_deleted(self) -> bool:
        return self._segments.is_gone

    @property
    def epochs(self) -> LeaderEpochCheckpoint:
        if self._epochs is None:
            self._epochs = LeaderEpochCheckpoint(f"{self.directory}/{LEADER_EPOCH_CHECKPOINT}")
        return self._epochs

    @property
    def producers(self) -> ProducerState:
        if self._producers is None:
            self._producers = ProducerState()
        return self._producers

    @property
    def has_producers(self) -> bool:
        return self._producers is not None and bool(self._producers.producers)

    @property
    def last_stable_offset(self) -> int:
        """Return the high watermark, or the first offset of the oldest open transaction."""
        if self._producers is None:
            return self.high_watermark
        first_unstable = self._producers.first_unstable_offset
        return self.high_watermark if first_unstable is None else min(first_unstable, self.high_watermark)

    @property
    def latest_epoch(self) -> int:
        return self.epochs.latest_epoch

    def size_bytes(self) -> int:
        return self._segments.size_bytes()

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the greatest known epoch up to ``epoch`` and the offset after its last record, or (-1, -1)."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def assign_epoch_start(self, leader_epoch: int) -> None:
        """Become leader: the epoch starts at the log's end. An epoch before the last belongs to an earlier leadership.

        A starting broker reads those from the metadata log; other leaders wrote after it, and this log has their
        records.
        """
        if leader_epoch > self.latest_epoch:
            self.epochs.assign(leader_epoch, self.log_end_offset)

    def maybe_advance_high_watermark(self, offset: int) -> bool:
        """Move the high watermark up to ``offset``, never down and never beyond the log's end."""
        offset = min(offset, self.log_end_offset)
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        if self._producers is not None:
            self._producers.high_watermark_advanced(offset)
        return True

    # Appending

    def append_as_leader(
        self,
        records: Buffer,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> AppendInfo:
        """Assign offsets to one batch and write it. Raises ApiException for a batch that the log rejects."""
        batch = read_produced_batch(records, self.rules, now_ms=now_ms, origin=origin, partition=self.topic_partition)
        return self.append_batch(batch, leader_epoch=leader_epoch, now_ms=now_ms)

    @property
    def rules(self) -> ProduceRules:
        """Return the rules for a batch. They are immutable, and are replaced when the settings change."""
        rules = self._rules
        if rules is None or self._rules_of is not self.config:
            rules = self._rules = produce_rules(self.config)
            self._rules_of = self.config
        return rules

    def append_batch(self, batch: ProducedBatch, *, leader_epoch: int, now_ms: int) -> AppendInfo:
        """Append a batch that ``read_produced_batch`` accepted, with the same time."""
        is_log_append_time = self.config.log_append_time
        if batch.producer_id >= 0:
            duplicate = find_duplicate(self.producers, batch, self.segments, what=str(self.topic_partition))
            if duplicate is not None:
                return AppendInfo(
                    duplicate.first_offset,
                    duplicate.last_offset,
                    duplicate.timestamp if is_log_append_time else NO_TIMESTAMP,
                    self.log_start_offset,
                    True,
                )
        if batch.size > self.config.segment_size:
            raise ApiException(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"Message batch size is {batch.size} bytes in append to partition {self.topic_partition}, "
                f"which exceeds the maximum configured segment size of {self.config.segment_size}.",
            )
        first_offset = self.log_end_offset
        last_offset = first_offset + batch.last_offset_delta
        segment = self._roll_if_needed(batch.size, batch.max_timestamp, last_offset, now_ms)
        segment.append(
            (PREFIX.pack(first_offset, batch.size - BATCH_OVERHEAD, leader_epoch), batch.rest),
            batch.size,
            last_offset=last_offset,
            max_timestamp=batch.max_timestamp,
            index_interval_bytes=self.config.index_interval_bytes,
        )
        epochs = self._epochs
        if epochs is None or leader_epoch > epochs.latest_epoch:
            self.epochs.assign(leader_epoch, first_offset)
        self.log_end_offset = last_offset + 1
        if batch.producer_id >= 0:
            apply_batch(self.producers, batch, last_offset, segment)
        if last_offset + 1 - self.recovery_point >= self.config.flush_messages:
            self.flush(now_ms)
        return AppendInfo(
            first_offset, last_offset, now_ms if is_log_append_time else NO_TIMESTAMP, self.log_start_offset
        )

    def append_as_follower(self, records: Buffer, *, now_ms: int, leader_epoch: int = EPOCH_MAX) -> int:
        """Write batches with the offsets and epochs of the leader of ``leader_epoch``; return their size.

        An incomplete batch at the end is left out, and so are batches from a later epoch on: their sender does not lead
        in the requested epoch. Raises ApiException for a batch that is damaged or does not follow the log's end; the
        batches before it are written then.
        """
        written = 0
        for batch, base_offset, batch_epoch, data in replicated_batches(records, leader_epoch, self.topic_partition):
            last_offset = base_offset + batch.last_offset_delta
            if base_offset < self.log_end_offset:
                self._begin_inside(base_offset, last_offset, now_ms)
            segment = self._roll_if_needed(batch.size, batch.max_timestamp, last_offset, now_ms)
            segment.append(
                (data,),
                batch.size,
                last_offset=last_offset,
                max_timestamp=batch.max_timestamp,
                index_interval_bytes=self.config.index_interval_bytes,
            )
            if batch_epoch != self.epochs.latest_epoch:
                self.epochs.appended(batch_epoch, base_offset)
            self.log_end_offset = last_offset + 1
            if batch.producer_id >= 0:
                apply_batch(self.producers, batch, last_offset, segment)
            written += batch.size
        if self.log_end_offset - self.recovery_point >= self.config.flush_messages:
            self.flush(now_ms)
        return written

    def _begin_inside(self, base_offset: int, last_offset: int, now_ms: int) -> None:
        """Append the whole batch to an empty log that starts inside it, as the leader's log does."""
        start = self.log_start_offset
        if self.log_end_offset != start or last_offset < start:
            raise ApiException(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"Batch at offset {base_offset} is below the end {self.log_end_offset} of {self.topic_partition}",
            )
        self.truncate_fully_and_start_at(base_offset, now_ms=now_ms)
        self.log_start_offset = self.high_watermark = start

    # Rolling

    def _roll_if_needed(self, size: int, max_timestamp: int, last_offset: int, now_ms: int) -> Segment:
        """Return the active segment, or a new one if the batch does not fit into it."""
        segment = self.segments[-1]
        config = self.config
        if segment.size == 0:
            fits = segment.fits(size, last_offset)
        else:
            first_timestamp = segment.first_timestamp
            waited = (
                max_timestamp - first_timestamp
                if first_timestamp is not None and first_timestamp >= 0 and max_timestamp >= 0
                else now_ms - segment.created_ms
            )
            segment_ms = min(config.segment_ms, config.max_compaction_lag_ms) if config.compact else config.segment_ms
            fits = (
                segment.size + size <= config.segment_size
                and waited <= segment_ms - self.roll_jitter_ms
                and not self._indexes_are_full(segment)
                and segment.fits(size, last_offset)
            )
        return segment if fits else self.roll(now_ms)

    def _indexes_are_full(self, segment: Segment) -> bool:
        """Estimate from the size: an entry is added at most every ``index.interval.bytes``."""
        config = self.config
        entries_max = config.segment_index_bytes // 12
        if segment.size <= entries_max * config.index_interval_bytes:
            return False
        return segment.time_index.count >= entries_max or segment.offset_index.count >= config.segment_index_bytes // 8

    def roll(self, now_ms: int) -> Segment:
        """Close the active segment for writing and start a new one at the log's end."""
        active = self.segments[-1]
        if active.base_offset == self.log_end_offset and active.size == 0:
            return active
        active.become_inactive()
        segment = self._segments.add(self.log_end_offset, now_ms=now_ms)
        self.take_producer_snapshot()
        self.epochs.flush()
        return segment

    # Reading

    def read(
        self,
        fetch_offset: int,
        max_bytes: int,
        *,
        max_offset: int | None = None,
        min_one_message: bool = False,
        committed_only: bool = False,
    ) -> FetchedRecords:
        """Read batches from the one that holds ``fetch_offset`` on, below ``max_offset`` (default: the log's end).

        Returns no batch if the first one is larger than ``max_bytes``, unless ``min_one_message``: then that batch.
        Raises OFFSET_OUT_OF_RANGE outside of the log. The records stay valid when the log changes afterwards.
        """
        end_offset = self.log_end_offset
        if not self.log_start_offset <= fetch_offset <= end_offset:
            raise ApiException(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Received request for offset {fetch_offset} for partition {self.topic_partition}, "
                f"but we only have log segments in the range {self.log_start_offset} to {end_offset}.",
            )
        if max_offset is None or max_offset > end_offset:
            max_offset = end_offset
        if fetch_offset >= max_offset:
            return FetchedRecords(b"", [] if committed_only else None)
        try:
            return self._read(fetch_offset, max_bytes, max_offset, min_one_message, committed_only)
        except FileNotFoundError:
            # The cleaner replaced the segment after this read took the list and before it opened the file.
            return self._read(fetch_offset, max_bytes, max_offset, min_one_message, committed_only)
        except DamagedRangeError as error:
            raise self._damaged(error) from error
        except (CorruptSegmentError, CorruptIndexError) as error:
            self.check_damaged(error)
        try:
            return self._read(fetch_offset, max_bytes, max_offset, min_one_message, committed_only)
        except (CorruptSegmentError, CorruptIndexError) as error:
            raise self._damaged(error) from error

    def _read(
        self, fetch_offset: int, max_bytes: int, max_offset: int, min_one_message: bool, committed_only: bool
    ) -> FetchedRecords:
        segments = self.segments
        return read_segments(
            segments,
            segment_index(segments, fetch_offset),
            fetch_offset,
            max_bytes=max_bytes,
            max_offset=max_offset,
            is_whole_log=max_offset == self.log_end_offset,
            min_one_message=min_one_message,
            committed_only=committed_only,
        )

    # Damage

    @property
    def damaged(self) -> list[DamagedRange]:
        """Return the known damage, by offset. A log is checked when it is opened, and where it is read."""
        start = self.log_start_offset
        return [damage for segment in self.segments for damage in segment.damaged if damage.next_offset > start]

    def set_damage_aside(self, first: DamagedRange | None = None, *, now_ms: int) -> list[str]:
        """Truncate the log where its damage, or this one, begins; returns the files that keep the old content."""
        first = first or self.damaged[0]
        kept = []
        for segment in self.segments:
            if segment.size and (segment.base_offset > first.first_offset or first in segment.damaged):
                kept.append(unused_aside_path(segment.path))
                os.link(segment.path, kept[-1])
        sync_directory(self.directory)
        self.truncate_to(first.first_offset, now_ms=now_ms)
        return kept

    def check_damaged(self, error: CorruptFileError) -> None:
        """Handle an invalid file: read its segment whole, rebuild the indexes, record and report damage."""
        name = os.path.basename(error.path)
        for segment in self.segments:
            if name.startswith(f"{segment.base_offset:020d}."):
                _log.error("checking %s and its indexes: %s", segment.path, error)
                self.check_segment(segment)

    def forget_checks(self, offset: int) -> None:
        """Have the batches around the offset checked again before they are returned."""
        segments = self.segments
        segment = segments[segment_index(segments, offset)]
        segment.checked = CheckedBytes(segment.size)

    def check_segment(self, segment: Segment) -> None:
        before = set(segment.damaged)
        size = segment.size
        tail = check_segment(segment, None, self.config.index_interval_bytes)
        index = self.segments.index(segment)
        is_last = index + 1 == len(self.segments)
        end_offset = self.log_end_offset if is_last else self.segments[index + 1].base_offset
        if tail is not None and tail.offset < end_offset:
            damage = DamagedRange(tail.position, size, tail.offset, end_offset, tail.reason)
            segment.set_damaged([*segment.damaged, damage])
        elif tail is None and not is_last and not self.config.compact:
            missing = missing_end(segment, end_offset)
            segment.set_damaged([*segment.damaged, *([missing] if missing is not None else [])])
        for damage in segment.damaged:
            if damage not in before:
                report_damage(segment, damage)
        if not is_last:
            segment.complete_indexes()
            segment.release()
        if set(segment.damaged) != before and self.on_damaged is not None:
            self.on_damaged(self)

    def _damaged(self, error: CorruptFileError) -> ApiException:
        return ApiException(ErrorCode.CORRUPT_MESSAGE, f"The log of {self.topic_partition} is damaged: {error.reason}")

    # Removing

    def delete_records_before(self, offset: int, *, now_ms: int) -> int:
        """Move the log's start up to ``offset`` (-1: the high watermark) and drop the segments below it.

        Returns the new start. Raises OFFSET_OUT_OF_RANGE above the high watermark, POLICY_VIOLATION for a log
        that is compacted only.
        """
        if not self.config.delete:
            raise ApiException(
                ErrorCode.POLICY_VIOLATION,
                f"Records of partition {self.topic_partition} can not be deleted due to the configured policy",
            )
        offset = self.high_watermark if offset == -1 else offset
        if not 0 <= offset <= self.high_watermark:
            raise ApiException(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"The specified offset {offset} is out of range: "
                f"the high watermark of {self.topic_partition} is {self.high_watermark}",
            )
        self.maybe_increment_log_start(offset)
        count = 0
        while count + 1 < len(self.segments) and self.segments[count + 1].base_offset <= self.log_start_offset:
            count += 1
        self.delete_oldest_segments(count, now_ms=now_ms)
        return self.log_start_offset

    def maybe_increment_log_start(self, offset: int) -> bool:
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.high_watermark = max(self.high_watermark, offset)
        self.recovery_point = max(self.recovery_point, offset)
        self.epochs.truncate_from_start(offset)
        if self.on_log_start_moved is not None:
            self.on_log_start_moved()
        return True

    def delete_oldest_segments(self, count: int, *, now_ms: int) -> None:
        """Retire the first ``count`` segments; the log then starts at the next one. At least one segment stays."""
        if count <= 0:
            return
        if count >= len(self.segments):
            self.roll(now_ms)
        self._segments.retire_oldest(count, due_ms=now_ms + self.config.file_delete_delay_ms)
        self.maybe_increment_log_start(self.segments[0].base_offset)
        self.remove_stray_snapshots()

    def remove_stray_snapshots(self) -> None:
        """Remove the producer snapshots without a segment at their offset, up to the last snapshot taken."""
        starts = {segment.base_offset for segment in self.segments}
        for offset in list_snapshots(self.directory):
            if offset < self._snapshot_offset and offset not in starts:
                delete_snapshot(self.directory, offset)

    def truncate_to(self, offset: int, *, now_ms: int) -> None:
        """Remove everything from ``offset`` on (whole batches: one that contains it is removed).

        A log that would start after its new end starts there then. An epoch that this broker began as leader without a
        record is removed in any case: another leader's epoch may have begun there.
        """
        if offset >= self.log_end_offset:
            self.epochs.truncate_from_end(self.log_end_offset)
            return
        if offset <= self.segments[0].base_offset:
            self.truncate_fully_and_start_at(offset, now_ms=now_ms)
            return
        end_offset = self._segments.truncate_to(offset, due_ms=now_ms + self.config.file_delete_delay_ms)
        self.log_end_offset = end_offset
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self._after_truncation()

    def truncate_fully_and_start_at(self, offset: int, *, now_ms: int) -> None:
        """Remove every record, and the state of epochs and producers; the log starts and ends at ``offset``."""
        self._segments.start_anew(offset, now_ms=now_ms, due_ms=now_ms + self.config.file_delete_delay_ms)
        self.log_start_offset = self.log_end_offset = self.high_watermark = offset
        self.epochs.clear()
        for snapshot in list_snapshots(self.directory):
            delete_snapshot(self.directory, snapshot)
        self._after_truncation()

    def _after_truncation(self) -> None:
        """Make the truncation durable before anything is appended.

        Otherwise a power failure may bring back a truncated segment beside new ones of a later epoch. The epochs of
        such a log look right, so that its replica would never find the records in which it differs from the leader.
        """
        end = self.log_end_offset
        self.recovery_point = min(self.recovery_point, end)
        self.high_watermark = min(self.high_watermark, end)
        self.epochs.truncate_from_end(end)
        if not self.epochs.flush(sync=True):
            sync_directory(self.directory)
        for offset in list_snapshots(self.directory):
            if offset > end:
                delete_snapshot(self.directory, offset)
        self.restore_producers(*rebuild_producers(self.directory, self.segments, self.log_start_offset, end))

    def restore_producers(self, producers: ProducerState, snapshot_offset: int) -> None:
        """Load the state of the producers from disk."""
        producers.high_watermark_advanced(self.high_watermark)
        self._producers = producers
        self._snapshot_offset = snapshot_offset

    def replace_segments(self, old: Sequence[Segment], new: Sequence[Segment], *, now_ms: int) -> bool:
        """Replace segments by cleaned ones, see ``LogSegments.replace``. May be called from the cleaner's thread."""
        return self._segments.replace(old, new, due_ms=now_ms + self.config.file_delete_delay_ms)

    def remove_retired_files(self, now_ms: int, *, all_of_them: bool = False) -> int:
        """Unlink the files of segments that were retired long enough ago; return their number."""
        return self._segments.remove_retired(now_ms, all_of_them=all_of_them)

    def mark_deleted(self, directory: str) -> None:
        """Rename the directory of a deleted partition; its files are removed later."""
        self._segments.move_to(directory)
        self.directory = directory

    def move_to(self, directory: str) -> None:
        """Rename the directory of a copied log that becomes current, on the same volume."""
        self._segments.rename_to(directory)
        self.directory = directory
        if self._epochs is not None:
            self._epochs.path = f"{directory}/{LEADER_EPOCH_CHECKPOINT}"

    # Durability

    def flush(self, now_ms: int) -> int:
        """Make everything up to the log's end durable; return that offset, the new recovery point."""
        end = self.log_end_offset
        if end > self.recovery_point:
            self._flush_segments(self.segments)
            self.epochs.flush(sync=True)
            self.recovery_point = max(self.recovery_point, end)
        self.last_flush_ms = now_ms
        return end

    def flush_rolled(self) -> bool:
        """Flush the segments that are no longer written to, so that recovery need not read them.

        May run in another thread than appends do. Returns whether it flushed any, and the log was not truncated
        meanwhile.
        """
        *rolled, active = self.segments
        if not rolled or active.base_offset <= self.recovery_point:
            return False
        # Written at each roll; later batches are in segments that recovery reads.
        sync_file(f"{self.directory}/{LEADER_EPOCH_CHECKPOINT}")
        self._flush_segments(rolled)

        def advance() -> None:
            self.recovery_point = max(self.recovery_point, active.base_offset)

        return self._segments.if_still_there(active, advance)

    def _flush_segments(self, segments: Sequence[Segment]) -> None:
        for segment in segments:
            segment.flush()

    def take_producer_snapshot(self, *, sync: bool = False) -> None:
        """Write the state of the producers, unless the last snapshot has this offset."""
        if self.log_end_offset > self._snapshot_offset:
            entries = self._producers.to_snapshot() if self._producers is not None else []
            write_snapshot(self.directory, self.log_end_offset, entries, sync=sync)
            self._snapshot_offset = self.log_end_offset

    def close(self, now_ms: int, *, sync: bool = True) -> None:
        """Close the log cleanly; it cannot be used afterwards.

        Without ``sync`` the caller makes the whole volume durable before it calls the shutdown clean: one call
        instead of six for every partition.
        """
        if self.log_end_offset > 0 or self.segments[0].size:
            self.active_segment.close()
            for segment in self.segments:
                segment.release()
            self.take_producer_snapshot(sync=sync)
            if sync:
                self.flush(now_ms)
            self.recovery_point = self.log_end_offset
        self.epochs.flush(sync=sync)
        self.remove_retired_files(now_ms, all_of_them=True)
