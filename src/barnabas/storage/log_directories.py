"""The log directories of a node: which are online, which failed, and where a new log is created.

Logs in a failed directory are not created elsewhere: the directory may be usable after the next start.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence

from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.storage.errors import StorageError
from barnabas.storage.log_dir_failure import LogDirFailureChannel, is_disk_failure
from barnabas.storage.log_directory import LogDirectory, LogDirectoryInUse

__all__ = ["DIRECTORIES_UNCHOSEN", "LogDirectories", "LogDirectoryOffline"]

_log = logging.getLogger(__name__)

DIRECTORIES_UNCHOSEN = (None, Uuid.from_int(0), Uuid.from_int(1))
"""Directory ids of a replica without a directory: none, migrating, unassigned."""


class LogDirectoryOffline(StorageError):
    """The log lives, or may live, in an offline directory."""


class LogDirectories:
    def __init__(
        self, paths: Sequence[str], *, ids: Mapping[str, Uuid] | None = None, offline: Mapping[str, str] | None = None
    ) -> None:
        """``offline``: directories that are unusable from the start, with the reason."""
        if not paths:
            raise ValueError("at least one log directory is needed")
        self.all = [LogDirectory(path, (ids or {}).get(path, Uuid.ZERO)) for path in paths]
        for path, directory in zip(paths, self.all, strict=True):
            directory.failure = (offline or {}).get(path)
        self.failures = LogDirFailureChannel()
        self.preferred: dict[TopicPartition, LogDirectory] = {}
        """The directories requested for logs that do not exist yet."""
        self._lost: dict[TopicPartition, Uuid | None] = {}
        self.has_unread = bool(offline)
        """Whether a directory failed before its logs were listed, so that any log may be in it."""

    @property
    def online(self) -> list[LogDirectory]:
        return [directory for directory in self.all if directory.is_online]

    def at(self, path: str) -> LogDirectory | None:
        """Return a directory by its absolute path, as it was configured."""
        return next((directory for directory in self.all if directory.path == path), None)

    def of_path(self, path: str) -> LogDirectory | None:
        """Return the online directory that contains a partition's path."""
        return next((directory for directory in self.online if os.path.dirname(path) == directory.path), None)

    # Locks

    def lock(self) -> None:
        """Lock all of them. Raises StorageError if another process uses one, or if none can be used."""
        for directory in self.online:
            try:
                directory.lock()
            except LogDirectoryInUse:
                for locked in self.all:
                    locked.unlock()
                raise
            except StorageError as error:
                self.begin_without(directory, error)
        self.require_one()

    def begin_without(self, directory: LogDirectory, error: BaseException) -> None:
        _log.error("cannot use the log directory %s, the node starts without it: %s", directory.path, error)
        directory.failure = str(error)
        self.has_unread = True

    def require_one(self) -> None:
        if not self.online:
            reasons = "; ".join(f"{directory.path}: {directory.failure}" for directory in self.all)
            raise StorageError(f"none of the log directories can be used: {reasons}")

    # Failures

    def attempt(self, directory: LogDirectory, work: Callable[[LogDirectory], None]) -> None:
        """Run ``work`` on a directory; a disk error is reported. May be called on any thread."""
        try:
            work(directory)
        except (OSError, StorageError) as error:
            if not is_disk_failure(error):
                raise
            self.failures.report(directory.path, error)

    def note_lost(self, topic_partition: TopicPartition, topic_id: Uuid | None) -> None:
        """Note that the current log of the partition was, or may have been, in a failed directory."""
        self._lost[topic_partition] = topic_id

    def forget(self, topic_partition: TopicPartition) -> None:
        """Forget a deleted partition: its log in an offline directory will not be used again."""
        self._lost.pop(topic_partition, None)
        self.preferred.pop(topic_partition, None)

    def is_offline(self, topic_partition: TopicPartition, topic_id: Uuid | None, directory_id: Uuid | None) -> bool:
        """Whether the log of a partition without an online log is, or may be, in an offline directory."""
        if len(self.online) == len(self.all):
            return False
        try:
            self._check_not_offline(topic_partition, topic_id, directory_id)
        except LogDirectoryOffline:
            return True
        return False

    # Placement

    def candidates(
        self,
        topic_partition: TopicPartition,
        topic_id: Uuid | None,
        directory_id: Uuid | None,
        count: Callable[[LogDirectory], int],
    ) -> list[LogDirectory]:
        """Return the directories for a new log, the best first; ``count`` returns the number of logs of a directory.

        Raises LogDirectoryOffline if the log exists in an offline directory, or may exist in one.
        """
        self._check_not_offline(topic_partition, topic_id, directory_id)
        online = self.online
        if len(online) == 1:
            return online
        preferred = self.preferred.get(topic_partition)
        if preferred is None and directory_id not in DIRECTORIES_UNCHOSEN:
            preferred = next((directory for directory in online if directory.id == directory_id), None)
        if preferred is not None and preferred.is_online:
            return [preferred]
        usable = [directory for directory in online if not directory.is_cordoned] or online
        return sorted(usable, key=count)

    def _check_not_offline(
        self, topic_partition: TopicPartition, topic_id: Uuid | None, directory_id: Uuid | None
    ) -> None:
        if topic_partition in self._lost and self._lost[topic_partition] in (None, topic_id):
            raise LogDirectoryOffline(f"the log directory of {topic_partition} is offline")
        if directory_id in DIRECTORIES_UNCHOSEN or any(directory.id == directory_id for directory in self.online):
            return
        offline = [directory.path for directory in self.all if not directory.is_online]
        if offline:
            raise LogDirectoryOffline(
                f"the log of {topic_partition} may be in a log directory that is offline: {', '.join(offline)}"
            )
