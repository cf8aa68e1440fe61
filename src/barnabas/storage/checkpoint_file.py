"""Reads and writes Kafka's checkpoint files: a version line (``0``), the number of entries, one entry a line.

A file is written whole to ``<path>.tmp``, made durable and renamed, so that a reader finds the old file or the new one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

from barnabas.storage.errors import CorruptFileError
from barnabas.storage.file_io import naming, write_all
from barnabas.storage.file_permissions import FILE_MODE

__all__ = ["read_checkpoint", "sync_file", "write_atomically", "write_checkpoint"]

VERSION = 0


def write_atomically(path: str, data: bytes, *, sync: bool = True) -> None:
    """Replace the file. Without ``sync`` it survives a kill of the process, but may not survive a power failure."""
    temporary = f"{path}.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    try:
        with naming(temporary):
            write_all(fd, data)
            if sync:
                os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(temporary, path)
    if sync:
        sync_directory(os.path.dirname(path))


def sync_directory(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with naming(path):
            os.fsync(fd)
    finally:
        os.close(fd)


def sync_file(path: str) -> None:
    """Make the current content of the file durable, if the file exists."""
    with suppress(FileNotFoundError):
        sync_directory(path)


def write_checkpoint(path: str, lines: Sequence[str], *, sync: bool = True) -> None:
    text = "\n".join([str(VERSION), str(len(lines)), *lines])
    write_atomically(path, f"{text}\n".encode(), sync=sync)


def read_checkpoint(path: str, fields: int) -> list[list[str]]:
    """Return the entries, each of ``fields`` words. A missing or empty file has none; anything malformed is an
    error."""
    try:
        with naming(path), open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return []
    if not lines:
        return []
    if lines[0] != str(VERSION):
        raise CorruptFileError(path, f"version {lines[0]!r} is not {VERSION}")
    if len(lines) < 2 or not lines[1].isdigit() or int(lines[1]) != len(lines) - 2:
        raise CorruptFileError(path, "the number of entries is not the one stated")
    entries = [line.split() for line in lines[2:]]
    for words in entries:
        if len(words) != fields:
            raise CorruptFileError(path, f"the entry {' '.join(words)!r} does not have {fields} fields")
    return entries
