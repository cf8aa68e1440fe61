"""The folder of a worker's checkpoints, Spark's log and scratch files, only for the worker's user and group.

By default it is below the system's temporary folder, where another user may create a folder of that name first.
"""

from __future__ import annotations

import os
from pathlib import Path

from barnabas.connect.plugins.api import TerminalError

__all__ = ["DIRECTORY_MODE", "open_work_directory"]

DIRECTORY_MODE = 0o750
_OTHERS, _OTHERS_WRITE = 0o007, 0o002
_SETTING = "barnabas.connect.spark.directory"


def open_work_directory(path: Path) -> None:
    """Create the folder, or check that it is ours. Raise TerminalError for another user's folder, and OSError."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
    found = path.stat()
    if found.st_uid != os.geteuid():
        if not path.parent.stat().st_mode & _OTHERS_WRITE:
            return  # Only an administrator of the machine can have created it.
        raise TerminalError(
            f"{path} belongs to another user (id {found.st_uid}), who could read and change the checkpoints of tasks. "
            f"Set {_SETTING} to a folder of the worker's own."
        )
    if found.st_mode & _OTHERS:
        path.chmod(found.st_mode & 0o7770)
