"""Manages the stray logs of a node: directories that the metadata log does not assign to this broker.

A stray is kept under another name and not served. It becomes the partition's log again when the metadata log
names its partition with its topic id, and its leader epochs are not later than the partition's.

``withheld`` are partitions whose log was set aside because its topic id is unknown. An empty log in its place
would look as if all records had been deleted, so none is created while this broker leads the partition.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress

from barnabas.common.topic_config import TopicConfig
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.storage.errors import StorageError
from barnabas.storage.file_pool import FilePool
from barnabas.storage.log_directories import LogDirectories
from barnabas.storage.log_directory import LogDirectory
from barnabas.storage.log_recovery import load_log
from barnabas.storage.log_table import LogTable
from barnabas.storage.partition_log import PartitionLog
from barnabas.storage.partition_metadata import PARTITION_METADATA, write_partition_metadata
from barnabas.storage.stray_directory import STRAY_NOTE, StrayDirectory, list_strays, stray_directory_name
from barnabas.storage.topic_ids_file import TOPIC_IDS_FILE, TopicIdNotes

__all__ = ["LogWithheld", "StrayLogs"]

_log = logging.getLogger(__name__)


class LogWithheld(StorageError):
    """The partition's records were set aside, and no empty log may take their place."""


class StrayLogs:
    def __init__(
        self,
        table: LogTable,
        directories: LogDirectories,
        notes: TopicIdNotes,
        pool: FilePool,
        new_unique_id: Callable[[], str],
    ) -> None:
        self._table = table
        self._directories = directories
        self._notes = notes
        self._pool = pool
        self._new_unique_id = new_unique_id
        self.known: dict[str, StrayDirectory] = {}
        """Strays by path."""
        self._paths: dict[tuple[TopicPartition, Uuid | None], list[str]] = {}
        self.withheld: dict[TopicPartition, str] = {}
        """The reason, by partition."""

    def __len__(self) -> int:
        return len(self.known)

    def find(self, directory: LogDirectory) -> None:
        """Load the strays of earlier starts."""
        for stray in list_strays(directory.path):
            self._keep(stray)
            if stray.topic_id is None:
                self.withheld[stray.topic_partition] = f"its records may be in {stray.path}: {stray.reason}"
            _log.warning(
                "%s has records of %s, of which this broker has no replica; they are kept: %s",
                stray.path, stray.topic_partition, stray.reason,
            )  # fmt: skip

    def claim(self, log: PartitionLog, topic_id: Uuid | None) -> bool:
        """Whether the log is that topic's. Without ``partition.metadata`` the copy of the id decides.

        An empty log counts as the topic's: a crash may occur between the creation of directory and file.
        """
        if topic_id is None or log.topic_id == topic_id:
            return True
        if log.log_end_offset > 0 and self._notes.ids.get(log.topic_partition) != topic_id:
            return False
        if log.log_end_offset == 0 and log.topic_id is not None:
            return False
        if log.log_end_offset > 0:
            _log.error(
                "%s/%s was missing or damaged: it is written again with the topic id %s, as in %s",
                log.directory, PARTITION_METADATA, topic_id, TOPIC_IDS_FILE,
            )  # fmt: skip
        log.topic_id = topic_id
        try:
            write_partition_metadata(log.directory, topic_id)
        except OSError as error:
            self._report(log.directory, error)
        return True

    def set_aside(self, log: PartitionLog, reason: str) -> None:
        """Take a log out of service and rename its directory. A disk error is reported."""
        directory = self._table.remove(log)
        path = self.new_path(directory, log.topic_partition)
        before = log.directory
        if log.topic_id is None:
            reason = f"{before}/{PARTITION_METADATA} does not name the topic of the log"
            self.withheld[log.topic_partition] = f"its records are in {path}: {reason}"
        stray = StrayDirectory(path, log.topic_partition, log.topic_id, reason)
        try:
            log.mark_deleted(path)
            directory.sync()
            stray.write_note()
        except OSError as error:
            self._report(before, error)
            return
        self._keep(stray)
        _log.error(
            "%s is kept as %s and not served: %s (offsets %d to %d); barnabas storage strays lists such directories",
            before, path, reason, log.log_start_offset, log.log_end_offset,
        )  # fmt: skip

    def adopt(
        self,
        topic_partition: TopicPartition,
        topic_id: Uuid | None,
        *,
        config: TopicConfig,
        leader_epoch: int,
        now_ms: int,
    ) -> PartitionLog | None:
        """Restore a stray of that name and id, not later than that epoch: it is checked as after a crash, and
        served."""
        if topic_id is None:
            return None
        for stray in [self.known[path] for path in self._paths.get((topic_partition, topic_id), ())]:
            directory = self._directories.of_path(stray.path)
            if directory is None:
                continue
            try:
                adopted = self._try_adopt(
                    stray, directory.partition_path(topic_partition), config, leader_epoch, now_ms
                )
            except OSError as error:
                self._report(stray.path, error)
                continue
            if adopted is not None:
                self._table.add(adopted, directory)
                return adopted
        return None

    def _try_adopt(
        self, stray: StrayDirectory, path: str, config: TopicConfig, leader_epoch: int, now_ms: int
    ) -> PartitionLog | None:
        os.rename(stray.path, path)
        log, _ = load_log(
            path,
            stray.topic_partition,
            config=config,
            pool=self._pool,
            log_start_offset=0,
            recovery_point=0,
            is_clean=False,
            now_ms=now_ms,
            is_same_boot=True,  # Its flushed offset is unknown: damage in it is not truncated.
        )
        if log.latest_epoch > leader_epoch:
            for segment in log.segments:
                segment.file.close()
            os.rename(path, stray.path)
            _log.error(
                "not restoring %s: its last leader epoch %d is later than epoch %d of the partition",
                stray.path, log.latest_epoch, leader_epoch,
            )  # fmt: skip
            return None
        with suppress(FileNotFoundError):
            os.unlink(f"{path}/{STRAY_NOTE}")
        self._forget(stray)
        self.withheld.pop(stray.topic_partition, None)
        _log.warning("restored %s as %s: the cluster has its topic", stray.path, path)
        return log

    def check_not_withheld(self, topic_partition: TopicPartition) -> None:
        """Raises LogWithheld."""
        reason = self.withheld.get(topic_partition)
        if reason is not None:
            raise LogWithheld(
                f"no log is created for {topic_partition}: {reason}. If the records belong to the topic, write its id "
                f"into {PARTITION_METADATA} there and start the node again; if they don't, remove that directory "
                "with barnabas storage strays --remove and start the node again"
            )

    def new_path(self, directory: LogDirectory, topic_partition: TopicPartition) -> str:
        return f"{directory.path}/{stray_directory_name(topic_partition, self._new_unique_id())}"

    def prune(self) -> None:
        """Remove entries whose directory was deleted meanwhile."""
        for stray in [stray for stray in self.known.values() if not os.path.isdir(stray.path)]:
            self._forget(stray)

    def _keep(self, stray: StrayDirectory) -> None:
        self.known[stray.path] = stray
        self._paths.setdefault((stray.topic_partition, stray.topic_id), []).append(stray.path)

    def _forget(self, stray: StrayDirectory) -> None:
        del self.known[stray.path]
        key = stray.topic_partition, stray.topic_id
        self._paths[key].remove(stray.path)
        if not self._paths[key]:
            del self._paths[key]

    def _report(self, path: str, error: OSError) -> None:
        directory = self._directories.of_path(path)
        if directory is not None:
            self._directories.failures.report(directory.path, error)
