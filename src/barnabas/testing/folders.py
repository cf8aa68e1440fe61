"""Temporary folders for the data of nodes, in memory where the system offers it."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

__all__ = ["new_folder", "remove_folder"]

_MEMORY = "/dev/shm"
_FREE_MIN = 256 * 1024 * 1024
"""Containers often have 64 MiB there, which a test can fill by accident."""


def new_folder(*, in_memory: bool) -> Path:
    """Create a folder that only this user may read. ``in_memory`` is a wish: without enough memory it is on disk."""
    parent = _MEMORY if in_memory and _has_room(_MEMORY) else None
    return Path(tempfile.mkdtemp(prefix="barnabas-", dir=parent))


def remove_folder(folder: Path) -> None:
    """Remove the folder. A process that is about to end may still create files in it, so it is tried twice."""
    for _ in range(2):
        shutil.rmtree(folder, ignore_errors=True)


def _has_room(path: str) -> bool:
    try:
        found = os.statvfs(path)
    except OSError:
        return False
    return os.access(path, os.W_OK) and found.f_bavail * found.f_frsize >= _FREE_MIN
