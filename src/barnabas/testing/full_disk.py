"""A disk without space for one node: writes below its folder fail with ENOSPC, reads and deletions work.

The functions of ``os`` by which ``barnabas.storage`` writes are replaced while a folder is full, and only then. So the
product contains no hook, and a node with free space runs exactly the code of every other node.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["fill_disk", "free_disk"]

_folders: set[str] = set()
_lock = threading.Lock()

_open = os.open
_mkdir = os.mkdir
_write = os.write
_pwrite = os.pwrite
_pwritev = os.pwritev
_ftruncate = os.ftruncate


def fill_disk(folder: str) -> None:
    """Refuse every write below the folder that needs space, in this process."""
    with _lock:
        _folders.add(os.path.realpath(folder))
        _install(_REFUSING)


def free_disk(folder: str) -> None:
    """Allow writes below the folder again. This does nothing for a folder with free space."""
    with _lock:
        _folders.discard(os.path.realpath(folder))
        if not _folders:
            _install(_REAL)


def _install(functions: Mapping[str, Callable[..., object]]) -> None:
    for name, function in functions.items():
        setattr(os, name, function)


def _refuse(path: str) -> None:
    if any(path.startswith(f"{folder}/") for folder in list(_folders)):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


def _refuse_descriptor(fd: int) -> None:
    try:
        path = _path_of(fd)
    except OSError:
        return
    _refuse(path)


def _path_of(fd: int) -> str:
    if sys.platform == "darwin":
        return fcntl.fcntl(fd, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0").decode()
    return os.readlink(f"/proc/self/fd/{fd}")


def _refusing_open(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
    if flags & os.O_CREAT and not os.path.exists(path):
        _refuse(os.path.realpath(path))
    return _open(path, flags, mode, dir_fd=dir_fd)


def _refusing_mkdir(path: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
    if not os.path.exists(path):
        _refuse(os.path.realpath(path))
    _mkdir(path, mode, dir_fd=dir_fd)


def _refusing_write(fd: int, data: ReadableBuffer) -> int:
    _refuse_descriptor(fd)
    return _write(fd, data)


def _refusing_pwrite(fd: int, data: ReadableBuffer, position: int) -> int:
    _refuse_descriptor(fd)
    return _pwrite(fd, data, position)


def _refusing_pwritev(fd: int, buffers: Sequence[ReadableBuffer], position: int) -> int:
    _refuse_descriptor(fd)
    return _pwritev(fd, buffers, position)


def _refusing_ftruncate(fd: int, size: int) -> None:
    if size > os.fstat(fd).st_size:  # A file that shrinks needs no space.
        _refuse_descriptor(fd)
    _ftruncate(fd, size)


_REAL: Mapping[str, Callable[..., object]] = {
    "open": _open,
    "mkdir": _mkdir,
    "write": _write,
    "pwrite": _pwrite,
    "pwritev": _pwritev,
    "ftruncate": _ftruncate,
}
_REFUSING: Mapping[str, Callable[..., object]] = {
    "open": _refusing_open,
    "mkdir": _refusing_mkdir,
    "write": _refusing_write,
    "pwrite": _refusing_pwrite,
    "pwritev": _refusing_pwritev,
    "ftruncate": _refusing_ftruncate,
}
