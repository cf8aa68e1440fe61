"""Bounds open descriptors and loaded indexes: a node with 20,000 partitions must not need 20,000 of them.

The pool may close any of its files at any time, and opens it again on its next use. A file that was not used
since the last check is closed first (second chance: using a file costs one attribute write, not a list operation).

A pool belongs to one thread, the node's loop. A thread that flushes or compacts opens descriptors of its own: a
descriptor borrowed from here could be closed, and its number reused, during the work. It may only rename the files.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict

from barnabas.storage.index_file import IndexFile

__all__ = ["FilePool", "PooledFile"]

DEFAULT_FILES_MAX = 2048
# Loaded indexes of full segments take up to 2 MiB each.
INDEXES_MAX = 32
_renaming = threading.Lock()
"""Held from a rename on the disk until the file has its new path."""


class PooledFile:
    """A file that exists and is opened for reading and writing when it is first used."""

    __slots__ = ("_fd", "_pool", "_recent", "path")

    def __init__(self, pool: FilePool, path: str) -> None:
        self.path = path
        self._pool = pool
        self._fd = -1
        self._recent = False

    def fd(self) -> int:
        """A descriptor that is good until the next call of any file's ``fd`` in this pool."""
        if self._fd >= 0:
            self._recent = True
            return self._fd
        return self._pool.open(self)

    def rename(self, path: str) -> None:
        """Rename the file on the disk. Any thread may do so."""
        with _renaming:
            os.rename(self.path, path)
            self.path = path

    @property
    def is_open(self) -> bool:
        return self._fd >= 0

    def close(self) -> None:
        if self._fd >= 0:
            self._pool.close(self)


class FilePool:
    def __init__(self, files_max: int = DEFAULT_FILES_MAX) -> None:
        if files_max < 1:
            raise ValueError(f"files_max must be at least 1, not {files_max}")
        self.files_max = files_max
        self._open: OrderedDict[PooledFile, None] = OrderedDict()
        self._loaded_indexes: OrderedDict[IndexFile, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def open(self, file: PooledFile) -> int:
        while len(self._open) >= self.files_max:
            self._close_one()
        fd = file._fd = _open(file)
        file._recent = True
        self._open[file] = None
        return fd

    def close(self, file: PooledFile) -> None:
        self._open.pop(file, None)
        fd, file._fd = file._fd, -1
        os.close(fd)

    def remember(self, index: IndexFile) -> None:
        """Prepare to load an index: unload the oldest one if there are too many."""
        self._loaded_indexes[index] = None
        if len(self._loaded_indexes) > INDEXES_MAX:
            self._loaded_indexes.popitem(last=False)[0].release()

    def close_all(self) -> None:
        for file in list(self._open):
            self.close(file)

    def _close_one(self) -> None:
        while True:
            file, _ = self._open.popitem(last=False)
            if not file._recent:
                self.close(file)
                return
            file._recent = False
            self._open[file] = None


def _open(file: PooledFile) -> int:
    """Open the file. Its new path is set before another file takes the old one, so that an unchanged path was right."""
    while True:
        path = file.path
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            with _renaming:
                is_renamed = file.path != path
            if not is_renamed:
                raise
            continue
        if file.path == path:
            return fd
        os.close(fd)
