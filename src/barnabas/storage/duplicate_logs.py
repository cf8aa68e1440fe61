"""Chooses between two directories of one partition in different log directories.

A disk that fails during the creation of a log leaves a directory without records, and the log is created on another
disk. If both directories hold records, only an operator can decide which one to keep.
"""

from __future__ import annotations

import logging
import os

from barnabas.storage.errors import StorageError
from barnabas.storage.partition_log import PartitionLog

__all__ = ["superfluous"]

_log = logging.getLogger(__name__)


def superfluous(known: PartitionLog, path: str) -> str:
    """Return the one without records. Raises StorageError if both have records, and OSError."""
    if not _has_records(path):
        removed, kept = path, known.directory
    elif not known.log_end_offset and not _has_records(known.directory):
        removed, kept = known.directory, path
    else:
        raise StorageError(
            f"Duplicate log directories found: {known.directory} and {path}. "
            "Delete the older one: the one on a disk that failed and was put back"
        )
    _log.warning("%s is removed: it is empty, and %s is the log of the partition", removed, kept)
    return removed


def _has_records(directory: str) -> bool:
    """Whether the log in the directory has, or ever had, records."""
    with os.scandir(directory) as entries:
        logs = [entry for entry in entries if ".log" in entry.name]
        return any(entry.stat().st_size or not entry.name.startswith(f"{0:020d}.") for entry in logs)
