"""Names and notes of stray directories, whose partitions do not belong to a replica of this broker.

Kafka's name is ``topic-partition.<unique id>-stray``. A long topic name is shortened there, and the name does not show
the reason, so the directory also holds ``barnabas.stray``, which Kafka ignores.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.storage.batch_header import BATCH_OVERHEAD, HEADER, HEADER_SIZE, header_problem
from barnabas.storage.errors import CorruptFileError
from barnabas.storage.file_io import naming, write_all
from barnabas.storage.file_permissions import FILE_MODE
from barnabas.storage.log_directory import NAME_LENGTH_MAX
from barnabas.storage.partition_metadata import read_partition_metadata

__all__ = ["STRAY_NOTE", "StrayDirectory", "StrayUsage", "list_strays", "stray_directory_name", "stray_usage"]

STRAY_NOTE = "barnabas.stray"
STRAY_SUFFIX = "-stray"

_NAME = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)\.[0-9a-f]{32}-stray")
_NOTE_BYTES_MAX = 65_536


def stray_directory_name(topic_partition: TopicPartition, unique_id: str) -> str:
    """Return Kafka's name of a stray directory; a long topic name is shortened to fit."""
    suffix = f"-{topic_partition.partition}.{unique_id}{STRAY_SUFFIX}"
    return f"{topic_partition.topic[: NAME_LENGTH_MAX - len(suffix)]}{suffix}"


class StrayDirectory(NamedTuple):
    path: str
    topic_partition: TopicPartition
    topic_id: Uuid | None
    reason: str

    @property
    def name(self) -> str:
        return os.path.basename(self.path)

    def write_note(self) -> None:
        note = {
            "version": 0,
            "topic": self.topic_partition.topic,
            "partition": self.topic_partition.partition,
            "reason": self.reason,
        }
        path = f"{self.path}/{STRAY_NOTE}"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
        try:
            with naming(path):
                write_all(fd, json.dumps(note).encode())
        finally:
            os.close(fd)


def list_strays(log_dir: str) -> list[StrayDirectory]:
    """Return the stray directories of a log directory, by name. Raises OSError."""
    found = []
    with os.scandir(log_dir) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            match = _NAME.fullmatch(entry.name)
            if match is not None and entry.is_dir():
                found.append(_read(entry.path, TopicPartition(match["topic"], int(match["partition"]))))
    return found


def _read(path: str, named: TopicPartition) -> StrayDirectory:
    reason = "it was marked as a stray by an earlier start, or by Kafka"
    topic_id = None
    try:
        topic_id = read_partition_metadata(path)
    except (CorruptFileError, OSError) as error:
        reason = str(error)
    note = _read_note(path)
    topic, partition, noted_reason = note.get("topic"), note.get("partition"), note.get("reason")
    if isinstance(topic, str) and isinstance(partition, int):
        named = TopicPartition(topic, partition)
    if isinstance(noted_reason, str):
        reason = noted_reason
    return StrayDirectory(path, named, topic_id, reason)


def _read_note(path: str) -> Mapping[str, object]:
    with suppress(OSError, ValueError), naming(f"{path}/{STRAY_NOTE}"), open(f"{path}/{STRAY_NOTE}", "rb") as file:
        note = json.loads(file.read(_NOTE_BYTES_MAX))
        if isinstance(note, dict):
            return note
    return {}


class StrayUsage(NamedTuple):
    """``records`` counts the records by the batch headers, without those after damage in a segment."""

    bytes: int
    records: int


def stray_usage(path: str) -> StrayUsage:
    size = records = 0
    with os.scandir(path) as entries:
        for entry in entries:
            if not entry.is_file():
                continue
            size += entry.stat().st_size
            if entry.name.endswith(".log"):
                records += _count_records(entry.path)
    return StrayUsage(size, records)


def _count_records(path: str) -> int:
    count = position = 0
    with naming(path), open(path, "rb") as file:
        while len(data := file.read(HEADER_SIZE)) == HEADER_SIZE:
            header = HEADER.unpack(data)
            if header_problem(header[1], header[3], header[6], header[12]) is not None:
                break
            count += header[12]
            position += header[1] + BATCH_OVERHEAD
            file.seek(position)
    return count
