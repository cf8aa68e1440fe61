"""Manages all partition logs of a node, in all of its log directories.

The node drives it: ``startup`` opens the existing logs (recovering them unless the last shutdown was clean), then from
time to time ``run_retention``, ``checkpoint`` and ``remove_deleted``, and at the end ``shutdown``. The cleaner works in
a thread of its own on these logs; see ``log_cleaner``.

A log's settings are not on disk. Logs are opened with the node's defaults and receive their own through
``update_config``, once the node has loaded its metadata.

A directory whose disk fails is reported through ``directories.failures`` and taken offline with ``take_offline``;
the others stay online.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Lock
from time import perf_counter

from barnabas.common.topic_config import TopicConfig
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.storage.cleaning_pauses import CleaningPauses
from barnabas.storage.deleted_directories import DeletedDirectories
from barnabas.storage.duplicate_logs import superfluous
from barnabas.storage.errors import StorageError
from barnabas.storage.file_pool import FilePool
from barnabas.storage.log_checkpoints import write_checkpoints, write_high_watermarks
from barnabas.storage.log_dir_failure import is_disk_failure
from barnabas.storage.log_directories import LogDirectories, LogDirectoryOffline
from barnabas.storage.log_directory import DELETE_SUFFIX, LogDirectory, delete_directory_name, future_directory_name
from barnabas.storage.log_recovery import LoadReport, Truncation, load_log
from barnabas.storage.log_table import LogTable
from barnabas.storage.partition_log import PartitionLog
from barnabas.storage.recovery_point import boot_id
from barnabas.storage.replicated_batches import EPOCH_MAX
from barnabas.storage.retention import apply_retention
from barnabas.storage.stray_logs import StrayLogs
from barnabas.storage.topic_ids_file import TopicIdNotes

__all__ = ["LoadReport", "LogManager"]

_log = logging.getLogger(__name__)

# From this many unflushed logs on, one sync of everything is cheaper than an fsync for each of their files.
SYNC_ALL_LOGS_MIN = 32


class LogManager:
    def __init__(
        self,
        log_dirs: Sequence[str],
        *,
        default_config: TopicConfig | None = None,
        pool: FilePool | None = None,
        producer_id_expiration_ms: int = 86_400_000,
        new_unique_id: Callable[[], str] = lambda: os.urandom(16).hex(),
        directory_ids: Mapping[str, Uuid] | None = None,
        offline: Mapping[str, str] | None = None,
        boot: str | None = None,
    ) -> None:
        """No file is touched before ``startup``. ``offline``: unusable directories, with the reason.

        ``boot`` is the machine's boot id, if it differs from the system's.
        """
        self._boot = boot if boot is not None else boot_id()
        self.directories = LogDirectories(log_dirs, ids=directory_ids, offline=offline)
        self.default_config = default_config if default_config is not None else TopicConfig()
        self.pool = pool if pool is not None else FilePool()
        self.producer_id_expiration_ms = producer_id_expiration_ms
        self.previous_broker_epoch = -1
        self.table = LogTable()
        self.damaged: set[TopicPartition] = set()
        """Partitions whose current log has damaged ranges."""
        self.on_damaged: Callable[[TopicPartition], object] = lambda topic_partition: None
        """Called on the thread that found damage."""
        self.topic_id_notes = TopicIdNotes(self.table, self.directories)
        self.strays = StrayLogs(self.table, self.directories, self.topic_id_notes, self.pool, new_unique_id)
        self.cleaning_pauses = CleaningPauses()
        self._new_unique_id = new_unique_id
        self._checkpoint_lock = Lock()
        self._cleaner_checkpoint_lock = Lock()
        self._deleted = DeletedDirectories()
        # Set by the cleaner, and maintained by it: up to where each compacted log is clean.
        self.cleaner_offsets: dict[TopicPartition, int] = {}

    # Logs

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        return self.table.current.get(topic_partition)

    def future(self, topic_partition: TopicPartition) -> PartitionLog | None:
        """Return the partition's future log while it moves to another directory."""
        return self.table.future.get(topic_partition)

    def logs(self) -> list[PartitionLog]:
        return list(self.table.current.values())

    def __len__(self) -> int:
        return len(self.table.current)

    def get_or_create(
        self,
        topic_partition: TopicPartition,
        topic_id: Uuid | None,
        *,
        now_ms: int,
        config: TopicConfig | None = None,
        directory_id: Uuid | None = None,
        leader_epoch: int = EPOCH_MAX,
        is_followed: bool = False,
    ) -> PartitionLog:
        """Return the partition's log: the current one, a matching stray, or a new one in the directory of that id.

        A log of another topic with that name is set aside first. A log of a later epoch than ``leader_epoch`` does not
        match. ``is_followed``: another broker leads, so the records may be copied from there. Raises
        LogDirectoryOffline when the log may be in an offline directory, LogWithheld when its records were set aside.
        """
        log = self.get(topic_partition)
        if log is not None and not self.strays.claim(log, topic_id):
            reason = f"it belongs to another topic of that name, with the id {log.topic_id}; the topic has {topic_id}"
            self.set_aside(log, reason, now_ms=now_ms)
            log = None
        if log is not None:
            if config is not None:
                self._set_config(log, config)
            return log
        if self._has_arrived(topic_partition, topic_id, directory_id):
            return self.replace_current(topic_partition, now_ms=now_ms)
        adopted = self.strays.adopt(
            topic_partition, topic_id, config=config or self.default_config, leader_epoch=leader_epoch, now_ms=now_ms
        )
        if adopted is not None:
            self._set_config(adopted, adopted.config)
            return adopted
        if not is_followed:
            self.strays.check_not_withheld(topic_partition)
        for directory in self.directories.candidates(topic_partition, topic_id, directory_id, self.table.count):
            path = directory.partition_path(topic_partition)
            created = self._try_create(directory, path, topic_partition, topic_id, config, now_ms)
            if created is not None:
                self.table.add(created, directory)
                self.directories.preferred.pop(topic_partition, None)
                self.strays.withheld.pop(topic_partition, None)
                return created
        raise LogDirectoryOffline(f"no online log directory for {topic_partition}")

    def set_aside(self, log: PartitionLog, reason: str, *, now_ms: int) -> None:
        """Set a log aside under another name: the metadata log has no record of its deletion."""
        self.directories.forget(log.topic_partition)
        self.delete_future(log.topic_partition, now_ms=now_ms)
        self.cleaner_offsets.pop(log.topic_partition, None)
        self.damaged.discard(log.topic_partition)
        self.strays.set_aside(log, reason)

    def _has_arrived(self, topic_partition: TopicPartition, topic_id: Uuid | None, directory_id: Uuid | None) -> bool:
        """Whether a crash occurred between the last two steps of a move, so that only the future log exists."""
        future = self.future(topic_partition)
        if future is None or future.topic_id != topic_id:
            return False
        directory = self.table.directory_of(future)
        return directory is not None and directory.id == directory_id

    def create_future(self, topic_partition: TopicPartition, directory: LogDirectory, *, now_ms: int) -> PartitionLog:
        """Create an empty future log of the partition in another directory. Raises StorageError."""
        current = self.table.current[topic_partition]
        path = f"{directory.path}/{future_directory_name(topic_partition, self._new_unique_id())}"
        future = self._try_create(directory, path, topic_partition, current.topic_id, current.config, now_ms)
        if future is None:
            raise LogDirectoryOffline(f"{directory.path} is offline: cannot create {topic_partition} there")
        self.table.add(future, directory, is_future=True)
        return future

    def replace_current(self, topic_partition: TopicPartition, *, now_ms: int) -> PartitionLog:
        """Make the complete future log the current one, and delete the old one.

        The old one is renamed first: after a crash in between only the future log exists, which the next start uses.
        Raises OSError, with the disk reported, if the future log cannot be renamed; then the current one stays.
        """
        future = self.table.future[topic_partition]
        current = self.get(topic_partition)
        old_path = None if current is None else self._step_aside(current)
        directory = self.table.directory_of(future)
        if directory is None:
            raise LogDirectoryOffline(f"the future log of {topic_partition} no longer exists")
        try:
            future.move_to(directory.partition_path(topic_partition))
            directory.sync()
        except OSError as error:
            self.directories.failures.report(directory.path, error)
            if current is not None and old_path is not None:
                current.move_to(old_path)
            raise
        if current is not None:
            self._retire(current, now_ms)
        self.table.remove(future)
        self.table.add(future, directory)
        # It may hold records that the cleaner had removed from the old log.
        self.cleaner_offsets.pop(topic_partition, None)
        return future

    def _step_aside(self, current: PartitionLog) -> str | None:
        """Rename the current log out of the way; returns its earlier path, None if its disk failed."""
        directory, path = self.table.directory_of(current), current.directory
        if directory is None:
            return None
        try:
            current.move_to(self._deleted_path(directory, current))
            directory.sync()
        except OSError as error:
            self.directories.failures.report(directory.path, error)
            return None
        return path

    def update_config(self, topic: str, config: TopicConfig) -> None:
        """Apply the topic's settings, from the next append on."""
        for log in self.table.of_topic(topic):
            self._set_config(log, config)

    def delete(self, topic_partition: TopicPartition, *, now_ms: int) -> bool:
        """Remove the log immediately, and its files after ``file.delete.delay.ms``. False if it does not exist."""
        self.directories.forget(topic_partition)
        self.delete_future(topic_partition, now_ms=now_ms)
        log = self.get(topic_partition)
        if log is None:
            return False
        self.cleaner_offsets.pop(topic_partition, None)
        self._retire(log, now_ms)
        return True

    def delete_future(self, topic_partition: TopicPartition, *, now_ms: int) -> bool:
        """Cancel the partition's move. False if it was not moving."""
        future = self.future(topic_partition)
        if future is None:
            return False
        self._retire(future, now_ms)
        return True

    # Directories

    def directory_of(self, log: PartitionLog) -> LogDirectory | None:
        return self.table.directory_of(log)

    def report_failure(self, log: PartitionLog, error: BaseException) -> bool:
        """Report a failed operation on the log's files; False if the disk did not cause it. Any thread may call it."""
        directory = self.table.directory_of(log)
        if directory is None:
            return True  # It was taken offline, or deleted, meanwhile.
        if not is_disk_failure(error):
            return False
        self.directories.failures.report(directory.path, error)
        return True

    def take_offline(self, path: str, reason: str) -> list[PartitionLog]:
        """Take a directory offline until the next start; returns its current and future logs."""
        directory = self.directories.at(path)
        if directory is None or not directory.is_online:
            return []
        directory.failure = reason
        return self._forget_logs_in(directory)

    def _forget_logs_in(self, directory: LogDirectory) -> list[PartitionLog]:
        logs = self.table.in_directory(directory)
        for log in logs:
            if self.get(log.topic_partition) is log:
                self.directories.note_lost(log.topic_partition, log.topic_id)
            self.table.remove(log)
            for segment in log.segments:
                segment.file.close()
        return logs

    # Start and stop

    def startup(self, *, now_ms: int, config_of: Callable[[str], TopicConfig] | None = None) -> LoadReport:
        """Lock the directories and open every log in them.

        A directory that fails stays offline. Raises StorageError if all fail, or if another process uses one.
        """
        began = perf_counter()
        self.directories.lock()
        epochs: dict[LogDirectory, int | None] = {}
        truncations: list[Truncation] = []
        for directory in self.directories.online:
            try:
                epochs[directory] = epoch = directory.take_clean_shutdown()
                self._load_directory(directory, epoch is not None, config_of, now_ms, truncations)
            except (OSError, StorageError) as error:
                if not is_disk_failure(error):
                    raise
                self.directories.begin_without(directory, error)
                self._forget_logs_in(directory)
        found = [epochs[directory] for directory in self.directories.online]
        self.directories.require_one()
        # A damaged log has lost acknowledged records, which is as bad as an unclean shutdown.
        is_whole = len(set(found)) == 1 and not self.damaged
        self.previous_broker_epoch = found[0] if found[0] is not None and is_whole else -1
        return LoadReport(len(self), None not in found, truncations, perf_counter() - began)

    def shutdown(self, *, now_ms: int, broker_epoch: int = -1) -> None:
        """Close every log, write the checkpoints and mark the directories as cleanly shut down.

        A directory with a log that cannot be closed stays marked as after a crash.
        """
        dirty = sum(log.log_end_offset > log.recovery_point for log in self.table.all())
        for directory in self.directories.online:
            try:
                for log in self.table.in_directory(directory):
                    log.close(now_ms, sync=dirty < SYNC_ALL_LOGS_MIN)
            except (OSError, StorageError) as error:
                _log.error("cannot close the logs in %s: %s", directory.path, error)
                directory.failure = str(error)
        if dirty >= SYNC_ALL_LOGS_MIN:
            os.sync()
        self.checkpoint()
        self.pool.close_all()
        for directory in self.directories.all:
            if directory.is_online:
                self.directories.attempt(directory, lambda at: at.mark_clean_shutdown(broker_epoch))
            directory.unlock()
        self.table.clear()

    def _load_directory(
        self,
        directory: LogDirectory,
        is_clean: bool,
        config_of: Callable[[str], TopicConfig] | None,
        now_ms: int,
        truncations: list[Truncation],
    ) -> None:
        recovery_points = directory.read_recovery_points()
        log_start_offsets = directory.read_log_start_offsets()
        high_watermarks = directory.read_high_watermarks()
        self.cleaner_offsets.update(directory.read_cleaner_offsets())
        is_same_boot = directory.is_same_boot(self._boot)
        self.topic_id_notes.read(directory)
        self._deleted.add(directory.deleted_partitions(), due_ms=now_ms)
        self.strays.find(directory)
        current, future = directory.partitions(), directory.future_partitions()
        for path, topic_partition in (*current.items(), *future.items()):
            is_future = path in future
            known = (self.table.future if is_future else self.table.current).get(topic_partition)
            if known is not None and superfluous(known, path) == path:
                deleted = f"{directory.path}/{delete_directory_name(topic_partition, self._new_unique_id())}"
                os.rename(path, deleted)
                self._deleted.add([deleted], due_ms=now_ms + known.config.file_delete_delay_ms)
                continue
            if known is not None:
                self._retire(known, now_ms)
            log, truncation = load_log(
                path,
                topic_partition,
                config=config_of(topic_partition.topic) if config_of is not None else self.default_config,
                pool=self.pool,
                log_start_offset=log_start_offsets.get(topic_partition, 0),
                recovery_point=recovery_points.get(topic_partition, 0),
                is_clean=is_clean,
                now_ms=now_ms,
                high_watermark=high_watermarks.get(topic_partition, 0),
                is_same_boot=is_same_boot,
            )
            high_watermark = high_watermarks.get(topic_partition, 0)
            if not is_clean and not is_same_boot:
                # Above it may be records that were truncated before the power failure, in place of committed ones.
                high_watermark = min(high_watermark, log.recovery_point)
            log.maybe_advance_high_watermark(high_watermark)
            self._set_config(log, log.config)
            self.table.add(log, directory, is_future=is_future)
            if log.damaged:
                self._note_damage(log)
            if log.topic_id is None:
                self.strays.claim(log, self.topic_id_notes.ids.get(topic_partition))
            if truncation is not None:
                truncations.append(truncation)
        if not is_same_boot:
            if high_watermarks:
                # Written first: once the boot id is written, a log that ends below its high watermark counts as
                # damaged.
                write_high_watermarks(directory, self.table.in_directory(directory))
            directory.note_boot(self._boot)

    # Upkeep

    def run_retention(self, now_ms: int) -> int:
        """Retire expired segments, remove expired producers; return the number of retired segments."""

        def retain(log: PartitionLog) -> int:
            count = apply_retention(log, now_ms)
            if log.has_producers:
                log.producers.remove_expired(now_ms, self.producer_id_expiration_ms)
            return count

        return self._each(self.logs(), retain)

    def flush_rolled(self) -> int:
        """Flush the rolled segments of logs; return the number of logs.

        Runs on a thread beside the loop, because flushing a full segment takes long.
        """
        return self._each(self.table.all(), PartitionLog.flush_rolled)

    def flush_due(self, now_ms: int) -> int:
        """Flush the logs whose ``flush.ms`` has passed; return their number."""
        due = [
            log
            for log in self.logs()
            if log.log_end_offset > log.recovery_point and now_ms - log.last_flush_ms >= log.config.flush_ms
        ]

        def flush(log: PartitionLog) -> bool:
            log.flush(now_ms)
            return True

        return self._each(due, flush)

    def checkpoint(self) -> None:
        """Write recovery points, log starts, high watermarks and cleaner offsets of each directory.

        May be called from a thread: small files are forced to disk.
        """
        self._write_for_each(write_checkpoints)
        self.topic_id_notes.write()
        self.checkpoint_cleaner_offsets()

    def checkpoint_high_watermarks(self) -> None:
        """Write only the high watermarks, to which other replicas truncate their logs. May be called from a thread."""
        self._write_for_each(write_high_watermarks)

    def _write_for_each(self, write: Callable[[LogDirectory, Sequence[PartitionLog]], None]) -> None:
        with self._checkpoint_lock:
            for directory in self.directories.online:
                logs = self.table.in_directory(directory)
                self.directories.attempt(directory, lambda at, logs=logs: write(at, logs))  # type: ignore[misc]

    def note_truncation(self, log: PartitionLog) -> None:
        """Forget compaction beyond the end of a truncated log. To be followed by ``checkpoint``."""
        if self.cleaner_offsets.get(log.topic_partition, 0) > log.log_end_offset:
            self.cleaner_offsets[log.topic_partition] = log.log_end_offset

    def checkpoint_cleaner_offsets(self) -> None:
        """Write the offsets up to which logs are compacted. The cleaner calls this from its thread."""
        with self._cleaner_checkpoint_lock:
            offsets = dict(self.cleaner_offsets)
            for directory in self.directories.online:
                here = {log.topic_partition for log in self.table.in_directory(directory)}
                known = {at: offset for at, offset in offsets.items() if at in here}
                self.directories.attempt(directory, lambda at, known=known: at.write_cleaner_offsets(known))  # type: ignore[misc]

    def remove_deleted(self, now_ms: int, *, directories_max: int = 200) -> int:
        """Unlink files and directories whose delay has passed; return the number of segments and directories."""
        self.strays.prune()
        count = self._each(self.table.all(), lambda log: log.remove_retired_files(now_ms))
        return count + self._deleted.remove_due(now_ms, directories_max=directories_max)

    # Parts

    def _note_damage(self, log: PartitionLog) -> None:
        if self.get(log.topic_partition) is log:
            self.damaged.add(log.topic_partition)
            self.on_damaged(log.topic_partition)

    def _try_create(
        self,
        directory: LogDirectory,
        path: str,
        topic_partition: TopicPartition,
        topic_id: Uuid | None,
        config: TopicConfig | None,
        now_ms: int,
    ) -> PartitionLog | None:
        """Create a log; None if the directory's disk fails. Raises StorageError for other errors."""
        try:
            log = PartitionLog.create(
                path,
                topic_partition,
                topic_id=topic_id,
                config=config if config is not None else self.default_config,
                pool=self.pool,
                now_ms=now_ms,
            )
        except OSError as error:
            if not is_disk_failure(error):
                raise StorageError(f"cannot create the log of {topic_partition} in {path}: {error}") from error
            self.directories.failures.report(directory.path, error)
            return None
        self._set_config(log, log.config)
        return log

    def _retire(self, log: PartitionLog, now_ms: int) -> LogDirectory:
        """Remove a log from the table and rename its directory, to delete its files later; returns its log
        directory."""
        directory = self.table.remove(log)
        self.damaged.discard(log.topic_partition)
        path = log.directory if log.directory.endswith(DELETE_SUFFIX) else self._deleted_path(directory, log)
        try:
            log.mark_deleted(path)
        except OSError as error:
            self.directories.failures.report(directory.path, error)
        else:
            self._deleted.add([path], due_ms=now_ms + log.config.file_delete_delay_ms)
        return directory

    def _deleted_path(self, directory: LogDirectory, log: PartitionLog) -> str:
        return f"{directory.path}/{delete_directory_name(log.topic_partition, self._new_unique_id())}"

    def _each(self, logs: Iterable[PartitionLog], work: Callable[[PartitionLog], int]) -> int:
        """Return the sum of ``work`` over the logs. A disk error is reported, and the other logs continue."""
        total = 0
        for log in logs:
            try:
                total += work(log)
            except (OSError, StorageError) as error:
                if not self.report_failure(log, error):
                    raise
        return total

    def _set_config(self, log: PartitionLog, config: TopicConfig) -> None:
        log.config = config
        log.on_damaged = self._note_damage
        jitter = min(config.segment_jitter_ms, config.segment_ms)
        log.roll_jitter_ms = int.from_bytes(os.urandom(4), "big") % jitter if jitter else 0
