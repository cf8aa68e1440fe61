"""Calls of the system on files, so that each error names the file and each write is a whole one.

The system names the path in the error of a call that was given one, and not in that of a call on a descriptor.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager

from barnabas.storage.batch_header import Buffer

__all__ = ["exists", "map_file", "naming", "pwrite_all", "read_range", "write_all"]

_PAGE = mmap.ALLOCATIONGRANULARITY
# Below this a copy is cheaper than a mapping.
_MAP_BYTES_MIN = 128 * 1024


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Errors of the system in here name this file, unless they name one already."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = path
        raise


def write_all(fd: int, data: Buffer) -> None:
    """Write all bytes: the system takes only a part when the disk becomes full, and says so with the next call."""
    remaining = memoryview(data)
    while remaining:
        remaining = remaining[os.write(fd, remaining) :]


def pwrite_all(fd: int, data: Buffer, position: int) -> None:
    """As ``write_all``, from a position of the file on."""
    remaining = memoryview(data)
    while remaining:
        written = os.pwrite(fd, remaining, position)
        remaining, position = remaining[written:], position + written


def read_range(fd: int, path: str, position: int, size: int) -> bytes | memoryview:
    """The bytes [position, position + size) of an open file; fewer where it ends before. They stay as they are."""
    if size < _MAP_BYTES_MIN:
        try:
            return os.pread(fd, size, position)
        except OSError as error:
            error.filename = path
            raise
    start = position % _PAGE
    with naming(path):
        size = min(size, os.fstat(fd).st_size - position)
        if size <= 0:
            return b""
        return memoryview(mmap.mmap(fd, start + size, prot=mmap.PROT_READ, offset=position - start))[start:]


def map_file(path: str, size: int) -> memoryview:
    """The first ``size`` bytes of a file, through a descriptor of its own; fewer where it ends before."""
    if not size:
        return memoryview(b"")
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with naming(path):
            size = min(size, os.fstat(fd).st_size)
            return memoryview(mmap.mmap(fd, size, prot=mmap.PROT_READ) if size else b"")
    finally:
        os.close(fd)


def exists(path: str) -> bool:
    """Whether the path exists. Raises OSError if the disk does not say, where ``os.path.exists`` says no."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True
