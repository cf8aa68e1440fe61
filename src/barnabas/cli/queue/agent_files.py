"""Where the agents of this user have their sockets: in a folder that no other user can enter."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from barnabas.cli.arguments.cluster_options import UsageError

__all__ = ["agent_name", "agent_names", "agents_folder", "lock_path", "log_path", "socket_path"]

_NAME_LENGTH = 16
_FOLDER_BYTES_MAX = 80
"""The path of a unix socket has at most 103 bytes on some systems."""


def agents_folder() -> Path:
    """Return the folder, created if necessary. Raise UsageError for one that another user could enter."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(runtime) / "barnabas" if runtime else Path(tempfile.gettempdir()) / f"barnabas-{os.getuid()}"
    if len(os.fsencode(folder)) > _FOLDER_BYTES_MAX:
        raise UsageError(f"{folder}: too long for a socket; set XDG_RUNTIME_DIR to a folder with a shorter path")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}; set XDG_RUNTIME_DIR to a folder of yours") from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise UsageError(f"{folder}: other users can enter it; delete it, or set XDG_RUNTIME_DIR to a folder of yours")
    return folder


def agent_name(bootstrap: str, properties: Mapping[str, str], group: str, topic: str) -> str:
    """Return the name of the agent for a topic in a group, of one user of one cluster."""
    identity = json.dumps([bootstrap, sorted(properties.items()), group, topic])
    return hashlib.sha256(identity.encode()).hexdigest()[:_NAME_LENGTH]


def agent_names(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.sock"))


def socket_path(folder: Path, name: str) -> Path:
    return folder / f"{name}.sock"


def lock_path(folder: Path, name: str) -> Path:
    """Return the file that a running agent has locked."""
    return folder / f"{name}.lock"


def log_path(folder: Path, name: str) -> Path:
    return folder / f"{name}.log"
