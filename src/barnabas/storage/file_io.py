"""System calls on files whose errors name the file, and whose writes are complete.

The system's error names the path only if the call took a path, not if it took a descriptor.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager

from barnabas.storage.batch_header import Buffer

__all__ = ["exists", "map_file", "naming", "pwrite_all", "read_range", "write_all"]

_PAGE = mmap.ALLOCATIONGRANULARITY
# A smaller range is cheaper to copy than to map.
_MAP_BYTES_MIN = 128 * 1024


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Add this file's name to system errors inside, unless they name one already."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = path
        raise


def write_all(fd: int, data: Buffer) -> None:
    """Write all bytes: when the disk fills up, the system writes only a part and reports the error on the next call."""
    remaining = memoryview(data)
    while remaining:
        remaining = remaining[os.write(fd, remaining) :]


def pwrite_all(fd: int, data: Buffer, position: int) -> None:
    """Do the same as ``write_all``, from a position of the file on."""
    remaining = memoryview(data)
    while remaining:
        written = os.pwrite(fd, remaining, position)
        remaining, position = remaining[written:], position + written


def read_range(fd: int, path: str, position: int, size: int) -> bytes | memoryview:
    """Return the bytes [position, position + size) of an open file; fewer if it ends before. They never change."""
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
    """Return the first ``size`` bytes of a file, through a descriptor of its own; fewer if it ends before."""
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
    """Whether the path exists. Raises OSError if the disk fails, where ``os.path.exists`` returns False."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True
