"""Permissions of the files and directories that a node creates under its log directories, before the process's umask.

The owner may write, the group may read, others have no access: logs and checkpoints hold the data of all clients, and
the metadata log holds credentials.
"""

from __future__ import annotations

__all__ = ["DIRECTORY_MODE", "FILE_MODE"]

DIRECTORY_MODE = 0o750
FILE_MODE = 0o640
