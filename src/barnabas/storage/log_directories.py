"""The log directories of a node together: which are in use, which failed, and where a new log goes.

What lived in a directory that failed is not made anew elsewhere: it may come back with the next start.
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

__all__ = ["LogDirectories", "LogDirectoryOffline"]

_log = logging.getLogger(__name__)

_UNCHOSEN = (None, Uuid.from_int(0), Uuid.from_int(1))
"""Directory ids of a replica that was not put anywhere yet: none, migrating, unassigned."""


class LogDirectoryOffline(StorageError):
    """The log lives, or may live, in a directory that is out of use."""


class LogDirectories:
    def __init__(
        self, paths: Sequence[str], *, ids: Mapping[str, Uuid] | None = None, offline: Mapping[str, str] | None = None
    ) -> None:
        """``offline``: those that can't be used from the beginning, and why."""
        if not paths:
            raise ValueError("at least one log directory is needed")
        self.all = [LogDirectory(path, (ids or {}).get(path, Uuid.ZERO)) for path in paths]
        for path, directory in zip(paths, self.all, strict=True):
            directory.failure = (offline or {}).get(path)
        self.failures = LogDirFailureChannel()
        self.preferred: dict[TopicPartition, LogDirectory] = {}
        """Where logs that are not there yet were asked to be made."""
        self._lost: dict[TopicPartition, Uuid | None] = {}

    @property
    def online(self) -> list[LogDirectory]:
        return [directory for directory in self.all if directory.is_online]

    def at(self, path: str) -> LogDirectory | None:
        """One of the directories by its absolute path, as it was configured."""
        return next((directory for directory in self.all if directory.path == path), None)

    def of_path(self, path: str) -> LogDirectory | None:
        """The directory in use that a partition's path lies in."""
        return next((directory for directory in self.online if os.path.dirname(path) == directory.path), None)

    # Locks

    def lock(self) -> None:
        """Claim all of them. Raises StorageError if somebody else uses one, or if none can be used."""
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
        _log.error("the log directory %s can't be used, the node goes on without it: %s", directory.path, error)
        directory.failure = str(error)

    def require_one(self) -> None:
        if not self.online:
            reasons = "; ".join(f"{directory.path}: {directory.failure}" for directory in self.all)
            raise StorageError(f"none of the log directories can be used: {reasons}")

    # Failures

    def attempt(self, directory: LogDirectory, work: Callable[[LogDirectory], None]) -> None:
        """Do something with a directory; a disk that fails is reported. Any thread may do it."""
        try:
            work(directory)
        except (OSError, StorageError) as error:
            if not is_disk_failure(error):
                raise
            self.failures.report(directory.path, error)

    def note_lost(self, topic_partition: TopicPartition, topic_id: Uuid | None) -> None:
        """The current log of the partition was in a directory that failed."""
        self._lost[topic_partition] = topic_id

    def forget(self, topic_partition: TopicPartition) -> None:
        """The partition was deleted: there is nothing to come back any more."""
        self._lost.pop(topic_partition, None)
        self.preferred.pop(topic_partition, None)

    def is_offline(self, topic_partition: TopicPartition, topic_id: Uuid | None, directory_id: Uuid | None) -> bool:
        """Whether the log of a partition that has none here is, or may be, in a directory that is out of use."""
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
        """Where a new log may be made, the best place first; ``count`` tells how many logs a directory has.

        Raises LogDirectoryOffline if the log exists in a directory that is out of use, or may exist in one.
        """
        self._check_not_offline(topic_partition, topic_id, directory_id)
        online = self.online
        if len(online) == 1:
            return online
        preferred = self.preferred.get(topic_partition)
        if preferred is None and directory_id not in _UNCHOSEN:
            preferred = next((each for each in online if each.id == directory_id), None)
        if preferred is not None and preferred.is_online:
            return [preferred]
        usable = [directory for directory in online if not directory.is_cordoned] or online
        return sorted(usable, key=count)

    def _check_not_offline(
        self, topic_partition: TopicPartition, topic_id: Uuid | None, directory_id: Uuid | None
    ) -> None:
        if topic_partition in self._lost and self._lost[topic_partition] in (None, topic_id):
            raise LogDirectoryOffline(f"the log directory of {topic_partition} is offline")
        if directory_id in _UNCHOSEN or any(each.id == directory_id for each in self.online):
            return
        offline = [directory.path for directory in self.all if not directory.is_online]
        if offline:
            raise LogDirectoryOffline(
                f"the log of {topic_partition} may be in a log directory that is offline: {', '.join(offline)}"
            )
