"""All partition logs of a node, over all of its log directories.

The node drives it: ``startup`` opens what is there (recovering it unless the last shutdown was clean), then from time
to time ``run_retention``, ``checkpoint`` and ``remove_deleted``, and at the end ``shutdown``. The cleaner works in a
thread of its own on the logs that it finds here; see ``log_cleaner``.

A log's settings are not on disk. Logs are opened with the node's defaults and get their own with ``update_config``,
once the node has loaded its metadata.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from threading import Lock
from time import perf_counter
from typing import NamedTuple

from barnabas.common.topic_config import TopicConfig
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.storage.errors import StorageError
from barnabas.storage.file_pool import FilePool
from barnabas.storage.log_directory import LogDirectory, delete_directory_name
from barnabas.storage.log_recovery import Truncation, load_log
from barnabas.storage.partition_log import PartitionLog
from barnabas.storage.partition_metadata import write_partition_metadata
from barnabas.storage.retention import apply_retention

__all__ = ["LoadReport", "LogDirUsage", "LogManager"]

_log = logging.getLogger(__name__)

# From this many unflushed logs on, one sync of everything is cheaper than an fsync for each of their files.
SYNC_ALL_LOGS_MIN = 32


class LoadReport(NamedTuple):
    """What start-up found. ``truncations`` is where it had to cut; those that are damage deserve a human."""

    partitions: int
    is_clean: bool
    truncations: list[Truncation]
    seconds: float


class LogDirUsage(NamedTuple):
    """For DescribeLogDirs: the volume, and the bytes of each partition that lives here."""

    path: str
    total_bytes: int
    usable_bytes: int
    partition_bytes: dict[TopicPartition, int]


class LogManager:
    def __init__(
        self,
        log_dirs: Sequence[str],
        *,
        default_config: TopicConfig | None = None,
        pool: FilePool | None = None,
        producer_id_expiration_ms: int = 86_400_000,
        new_unique_id: Callable[[], str] = lambda: os.urandom(16).hex(),
    ) -> None:
        """Nothing is touched before ``startup``."""
        if not log_dirs:
            raise ValueError("at least one log directory is needed")
        self.directories = [LogDirectory(path) for path in log_dirs]
        self.default_config = default_config if default_config is not None else TopicConfig()
        self.pool = pool if pool is not None else FilePool()
        self.producer_id_expiration_ms = producer_id_expiration_ms
        self.previous_broker_epoch = -1
        self._new_unique_id = new_unique_id
        self._cleaner_checkpoint_lock = Lock()
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self._logs_of_topic: dict[str, list[PartitionLog]] = {}
        self._directory_of: dict[TopicPartition, LogDirectory] = {}
        # (due, path) of directories that were renamed to be deleted.
        self._deleted: list[tuple[int, str]] = []
        # Set by the cleaner, told by it from then on: up to where each compacted log is clean.
        self.cleaner_offsets: dict[TopicPartition, int] = {}

    # Logs

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        return self._logs.get(topic_partition)

    def logs(self) -> list[PartitionLog]:
        return list(self._logs.values())

    def __len__(self) -> int:
        return len(self._logs)

    def get_or_create(
        self,
        topic_partition: TopicPartition,
        topic_id: Uuid | None,
        *,
        now_ms: int,
        config: TopicConfig | None = None,
    ) -> PartitionLog:
        """The partition's log, made in the directory with the fewest partitions if there is none.

        A log of an earlier topic with that name (another topic id) is deleted first.
        """
        log = self._logs.get(topic_partition)
        if log is not None:
            if topic_id is None or log.topic_id is None or log.topic_id == topic_id:
                if config is not None:
                    self._set_config(log, config)
                if log.topic_id is None and topic_id is not None:
                    # Its file was lost, or never written: a crash came between the directory and it.
                    write_partition_metadata(log.directory, topic_id)
                    log.topic_id = topic_id
                return log
            _log.warning("%s belongs to the earlier topic %s: deleting it", topic_partition, log.topic_id)
            self.delete(topic_partition, now_ms=now_ms)
        directory = self._emptiest_directory()
        path = directory.partition_path(topic_partition)
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
            raise StorageError(f"cannot make the log of {topic_partition} in {path}: {error}") from error
        self._add(log, directory)
        return log

    def update_config(self, topic: str, config: TopicConfig) -> None:
        """The topic's settings changed (or are known now): they hold from the next append on."""
        for log in self._logs_of_topic.get(topic, ()):
            self._set_config(log, config)

    def delete(self, topic_partition: TopicPartition, *, now_ms: int) -> bool:
        """Take the log away at once; its files go after ``file.delete.delay.ms``. False if there is none."""
        log = self._logs.pop(topic_partition, None)
        if log is None:
            return False
        directory = self._directory_of.pop(topic_partition)
        siblings = self._logs_of_topic[topic_partition.topic]
        siblings.remove(log)
        if not siblings:
            del self._logs_of_topic[topic_partition.topic]
        self.cleaner_offsets.pop(topic_partition, None)
        path = f"{directory.path}/{delete_directory_name(topic_partition, self._new_unique_id())}"
        log.mark_deleted(path)
        self._deleted.append((now_ms + log.config.file_delete_delay_ms, path))
        return True

    # Start and stop

    def startup(self, *, now_ms: int, config_of: Callable[[str], TopicConfig] | None = None) -> LoadReport:
        """Lock the directories and open every log in them."""
        began = perf_counter()
        for directory in self.directories:
            try:
                directory.lock()
            except StorageError:
                for locked in self.directories:
                    locked.unlock()
                raise
        epochs = [directory.take_clean_shutdown() for directory in self.directories]
        self.previous_broker_epoch = epochs[0] if epochs[0] is not None and len(set(epochs)) == 1 else -1
        truncations: list[Truncation] = []
        for directory, epoch in zip(self.directories, epochs, strict=True):
            self._load_directory(directory, epoch is not None, config_of, now_ms, truncations)
        return LoadReport(len(self._logs), None not in epochs, truncations, perf_counter() - began)

    def shutdown(self, *, now_ms: int, broker_epoch: int = -1) -> None:
        """Close every log, write the checkpoints and mark the directories as cleanly shut down."""
        dirty = sum(log.log_end_offset > log.recovery_point for log in self._logs.values())
        for log in self._logs.values():
            log.close(now_ms, sync=dirty < SYNC_ALL_LOGS_MIN)
        if dirty >= SYNC_ALL_LOGS_MIN:
            os.sync()
        self.checkpoint()
        self.pool.close_all()
        for directory in self.directories:
            directory.mark_clean_shutdown(broker_epoch)
            directory.unlock()
        self._logs.clear()
        self._logs_of_topic.clear()
        self._directory_of.clear()

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
        self._deleted += [(now_ms, path) for path in directory.deleted_partitions()]
        for path, topic_partition in directory.partitions().items():
            if topic_partition in self._logs:
                raise StorageError(
                    f"Duplicate log directories found: {self._logs[topic_partition].directory} and {path}"
                )
            log, truncation = load_log(
                path,
                topic_partition,
                config=config_of(topic_partition.topic) if config_of is not None else self.default_config,
                pool=self.pool,
                log_start_offset=log_start_offsets.get(topic_partition, 0),
                recovery_point=recovery_points.get(topic_partition, 0),
                is_clean=is_clean,
                now_ms=now_ms,
            )
            log.maybe_advance_high_watermark(high_watermarks.get(topic_partition, 0))
            self._add(log, directory)
            if truncation is not None:
                truncations.append(truncation)

    # Upkeep

    def run_retention(self, now_ms: int) -> int:
        """Retire expired segments, forget silent producers; return how many segments were retired."""
        count = 0
        for log in self.logs():
            count += apply_retention(log, now_ms)
            if log.has_producers:
                log.producers.remove_expired(now_ms, self.producer_id_expiration_ms)
        return count

    def flush_rolled(self) -> int:
        """Flush the segments that logs have rolled away from; return of how many logs.

        Made for a thread next to the loop: a full segment takes the disk a while.
        """
        return sum(log.flush_rolled() for log in self.logs())

    def flush_due(self, now_ms: int) -> int:
        """Flush the logs whose ``flush.ms`` has passed; return how many."""
        due = [
            log
            for log in self.logs()
            if log.log_end_offset > log.recovery_point and now_ms - log.last_flush_ms >= log.config.flush_ms
        ]
        for log in due:
            log.flush(now_ms)
        return len(due)

    def checkpoint(self) -> None:
        """Write recovery points, log starts, high watermarks and cleaner offsets of each directory.

        May be called from a thread: small files are forced to disk.
        """
        for directory in self.directories:
            logs = [log for log in self.logs() if self._directory_of.get(log.topic_partition) is directory]
            directory.write_recovery_points(_offsets(logs, lambda log: log.recovery_point))
            directory.write_high_watermarks(_offsets(logs, lambda log: log.high_watermark))
            directory.write_log_start_offsets(
                _offsets(
                    [log for log in logs if log.log_start_offset > log.segments[0].base_offset],
                    lambda log: log.log_start_offset,
                )
            )
        self.checkpoint_cleaner_offsets()

    def checkpoint_cleaner_offsets(self) -> None:
        """Write up to where logs are compacted. The cleaner calls this from its thread."""
        with self._cleaner_checkpoint_lock:
            offsets = dict(self.cleaner_offsets)
            for directory in self.directories:
                directory.write_cleaner_offsets(
                    {at: offset for at, offset in offsets.items() if self._directory_of.get(at) is directory}
                )

    def remove_deleted(self, now_ms: int, *, directories_max: int = 200) -> int:
        """Unlink files and directories whose delay has passed; return how many segments and directories.

        Directories go a few at a time: somebody may delete ten thousand topics at once.
        """
        count = sum(log.remove_retired_files(now_ms) for log in self.logs())
        due = [item for item in self._deleted if item[0] <= now_ms][:directories_max]
        if due:
            from shutil import rmtree  # Not worth its import before something is deleted.
        for item in due:
            rmtree(item[1], ignore_errors=True)
            self._deleted.remove(item)
        return count + len(due)

    def usage(self) -> list[LogDirUsage]:
        return [
            LogDirUsage(
                directory.path,
                *directory.space(),
                {
                    log.topic_partition: log.size_bytes()
                    for log in self.logs()
                    if self._directory_of[log.topic_partition] is directory
                },
            )
            for directory in self.directories
        ]

    def _add(self, log: PartitionLog, directory: LogDirectory) -> None:
        self._set_config(log, log.config)
        self._logs[log.topic_partition] = log
        self._logs_of_topic.setdefault(log.topic_partition.topic, []).append(log)
        self._directory_of[log.topic_partition] = directory

    def _set_config(self, log: PartitionLog, config: TopicConfig) -> None:
        log.config = config
        jitter = min(config.segment_jitter_ms, config.segment_ms)
        log.roll_jitter_ms = int.from_bytes(os.urandom(4), "big") % jitter if jitter else 0

    def _emptiest_directory(self) -> LogDirectory:
        if len(self.directories) == 1:
            return self.directories[0]
        counts = dict.fromkeys(self.directories, 0)
        for directory in self._directory_of.values():
            counts[directory] += 1
        return min(self.directories, key=lambda directory: counts[directory])


def _offsets(logs: Iterable[PartitionLog], offset_of: Callable[[PartitionLog], int]) -> dict[TopicPartition, int]:
    """Offsets that say something: a missing entry reads as 0."""
    return {log.topic_partition: offset for log in logs if (offset := offset_of(log)) > 0}
