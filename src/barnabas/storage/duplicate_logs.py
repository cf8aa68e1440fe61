"""Two directories of one partition in different log directories.

A disk that fails while a log is made leaves a directory without records, and the log is made on another disk. When both
hold records, only an operator knows which is the one to keep.
"""

from __future__ import annotations

import logging
import os

from barnabas.storage.errors import StorageError
from barnabas.storage.partition_log import PartitionLog

__all__ = ["superfluous"]

_log = logging.getLogger(__name__)


def superfluous(known: PartitionLog, path: str) -> str:
    """The one of the two that holds no records. Raises StorageError when both do, and OSError."""
    if not _has_records(path):
        goes, stays = path, known.directory
    elif not known.log_end_offset and not _has_records(known.directory):
        goes, stays = known.directory, path
    else:
        raise StorageError(
            f"Duplicate log directories found: {known.directory} and {path}. "
            "Delete the one that is the older one: that of a disk that failed and came back"
        )
    _log.warning("%s holds no records, and %s is the log of the partition: the former is removed", goes, stays)
    return goes


def _has_records(directory: str) -> bool:
    """Whether the log in it has, or ever had, any."""
    with os.scandir(directory) as entries:
        logs = [entry for entry in entries if ".log" in entry.name]
        return any(entry.stat().st_size or not entry.name.startswith(f"{0:020d}.") for entry in logs)
