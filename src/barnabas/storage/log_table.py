"""Every log of a node by its partition, and the log directory of each.

A partition has one current log. While it moves to another directory it also has a future log there, which becomes
the current one at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from barnabas.common.topic_partition import TopicPartition
from barnabas.storage.log_directory import LogDirectory
from barnabas.storage.partition_log import PartitionLog

__all__ = ["LogTable"]


class LogTable:
    """Changed by the node's loop only; other threads may copy lists of the logs."""

    def __init__(self) -> None:
        self.current: dict[TopicPartition, PartitionLog] = {}
        self.future: dict[TopicPartition, PartitionLog] = {}
        self._of_topic: dict[str, list[PartitionLog]] = {}
        self._directory_of: dict[PartitionLog, LogDirectory] = {}
        self._counts: Counter[LogDirectory] = Counter()
        self.version = 0
        """Grows with each log that is added or removed."""

    def all(self) -> list[PartitionLog]:
        return [*list(self.current.values()), *list(self.future.values())]

    def of_topic(self, topic: str) -> Sequence[PartitionLog]:
        return self._of_topic.get(topic, ())

    def directory_of(self, log: PartitionLog) -> LogDirectory | None:
        return self._directory_of.get(log)

    def in_directory(self, directory: LogDirectory) -> list[PartitionLog]:
        return [log for log in self.all() if self._directory_of.get(log) is directory]

    def count(self, directory: LogDirectory) -> int:
        return self._counts[directory]

    def add(self, log: PartitionLog, directory: LogDirectory, *, is_future: bool = False) -> None:
        (self.future if is_future else self.current)[log.topic_partition] = log
        self._of_topic.setdefault(log.topic_partition.topic, []).append(log)
        self._directory_of[log] = directory
        self._counts[directory] += 1
        self.version += 1

    def remove(self, log: PartitionLog) -> LogDirectory:
        """Remove the log, which must exist; returns its log directory."""
        topic_partition = log.topic_partition
        for logs in (self.current, self.future):
            if logs.get(topic_partition) is log:
                del logs[topic_partition]
        siblings = self._of_topic[topic_partition.topic]
        siblings.remove(log)
        if not siblings:
            del self._of_topic[topic_partition.topic]
        directory = self._directory_of.pop(log)
        self._counts[directory] -= 1
        self.version += 1
        return directory

    def clear(self) -> None:
        self.current.clear()
        self.future.clear()
        self._of_topic.clear()
        self._directory_of.clear()
        self._counts.clear()
