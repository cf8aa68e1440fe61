"""``partition.metadata``: the id of the topic of the partition in this directory.

After a topic was deleted and created again under the same name, this file identifies the directory of the old topic.
"""

from __future__ import annotations

import os

from barnabas.common.uuid import Uuid
from barnabas.storage.errors import CorruptFileError
from barnabas.storage.file_io import naming, write_all
from barnabas.storage.file_permissions import FILE_MODE

__all__ = ["PARTITION_METADATA", "read_partition_metadata", "write_partition_metadata"]

PARTITION_METADATA = "partition.metadata"
VERSION = 0
_BYTES_MAX = 4096


def write_partition_metadata(directory: str, topic_id: Uuid) -> None:
    """Write without fsync: creating ten thousand topics writes ten thousand of these files.

    A power failure may leave an empty file, which counts as a missing one.
    """
    path = f"{directory}/{PARTITION_METADATA}"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    try:
        with naming(path):
            write_all(fd, b"version: %d\ntopic_id: %s" % (VERSION, str(topic_id).encode()))
    finally:
        os.close(fd)


def read_partition_metadata(directory: str) -> Uuid | None:
    path = f"{directory}/{PARTITION_METADATA}"
    try:
        with naming(path), open(path, encoding="utf-8") as file:
            text = file.read(_BYTES_MAX)
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise CorruptFileError(path, f"it is not text: {error}") from error
    if not text:
        return None
    fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    if fields.get("version") != str(VERSION):
        raise CorruptFileError(path, f"version {fields.get('version')!r} is not {VERSION}")
    try:
        topic_id = Uuid.from_string(fields["topic_id"])
    except (KeyError, ValueError) as error:
        raise CorruptFileError(path, f"no valid topic id in {text!r}") from error
    if topic_id == Uuid.ZERO:
        raise CorruptFileError(path, f"{topic_id} is not the id of a topic")
    return topic_id
