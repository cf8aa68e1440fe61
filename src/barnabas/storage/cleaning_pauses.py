"""Tracks which logs must not be compacted now, agreed between the node's loop and the cleaner's thread."""

from __future__ import annotations

from threading import Lock

from barnabas.common.topic_partition import TopicPartition

__all__ = ["CleaningPauses"]


class CleaningPauses:
    def __init__(self) -> None:
        self._lock = Lock()
        self._paused: set[TopicPartition] = set()
        self._cleaning: TopicPartition | None = None

    # The node's loop

    def pause(self, topic_partition: TopicPartition) -> None:
        """Prevent further cleanings of the log; a running one is aborted soon, see ``is_cleaning``."""
        with self._lock:
            self._paused.add(topic_partition)

    def resume(self, topic_partition: TopicPartition) -> None:
        with self._lock:
            self._paused.discard(topic_partition)

    def is_cleaning(self, topic_partition: TopicPartition) -> bool:
        return self._cleaning == topic_partition

    # The cleaner's thread

    def try_begin(self, topic_partition: TopicPartition) -> bool:
        with self._lock:
            if topic_partition in self._paused:
                return False
            self._cleaning = topic_partition
            return True

    def end(self) -> None:
        with self._lock:
            self._cleaning = None

    def is_paused(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._paused
