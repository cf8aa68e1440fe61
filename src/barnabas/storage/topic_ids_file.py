"""``barnabas-topic-ids``: a second copy of the topic ids of a log directory's partitions.

``partition.metadata`` is the only place where Kafka writes the topic id of a partition's directory. When that file is
lost or damaged, the copy has the topic id. Kafka ignores the file. An outdated copy is harmless: it is read only if
``partition.metadata`` has no id, or one that the cluster does not know.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from threading import Lock

from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.storage.checkpoint_file import read_checkpoint, write_checkpoint
from barnabas.storage.errors import CorruptFileError
from barnabas.storage.log_directories import LogDirectories
from barnabas.storage.log_directory import LogDirectory
from barnabas.storage.log_table import LogTable

__all__ = ["TOPIC_IDS_FILE", "TopicIdNotes"]

_log = logging.getLogger(__name__)

TOPIC_IDS_FILE = "barnabas-topic-ids"

_Ids = Mapping[TopicPartition, Uuid]


class TopicIdNotes:
    """``ids`` are those of all directories' files at the start of the node."""

    def __init__(self, table: LogTable, directories: LogDirectories) -> None:
        self.ids: dict[TopicPartition, Uuid] = {}
        self._table = table
        self._directories = directories
        self._written: dict[LogDirectory, _Ids] = {}
        self._written_version = -1
        self._lock = Lock()

    def read(self, directory: LogDirectory) -> None:
        """Read a copy. A damaged one is ignored, and is written again."""
        path = _path(directory)
        try:
            ids = {
                TopicPartition(topic, int(partition)): Uuid.from_string(text)
                for topic, partition, text in read_checkpoint(path, 3)
            }
        except CorruptFileError as error:
            _log.warning("the copy of the topic ids is damaged and is written again: %s", error)
            ids = {}
        except ValueError as error:
            _log.warning("the copy of the topic ids is damaged and is written again: %s: %s", path, error)
            ids = {}
        self._written[directory] = ids
        self.ids.update(ids)

    def write(self) -> None:
        """Write the ids of each directory's logs, if logs were added or removed. May be called from a thread."""
        with self._lock:
            version = self._table.version
            if version == self._written_version:
                return
            self._written_version = version
            for directory in self._directories.online:
                ids = {
                    log.topic_partition: log.topic_id
                    for log in self._table.in_directory(directory)
                    if log.topic_id is not None and self._table.current.get(log.topic_partition) is log
                }
                if ids != self._written.get(directory, {}):
                    self._directories.attempt(directory, lambda at, ids=ids: _write(at, ids))  # type: ignore[misc]
                    self._written[directory] = ids


def _path(directory: LogDirectory) -> str:
    return f"{directory.path}/{TOPIC_IDS_FILE}"


def _write(directory: LogDirectory, ids: _Ids) -> None:
    lines = [f"{topic} {partition} {topic_id}" for (topic, partition), topic_id in ids.items()]
    write_checkpoint(_path(directory), lines)
