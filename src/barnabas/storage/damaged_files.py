"""Describes lost parts of a log, and keeps damaged bytes: they are moved aside, never deleted.

A file that is moved aside gets the suffix ``.damaged`` (``.damaged.2`` and so on when that name is taken). Neither
barnabas nor Kafka reads such a file again; the operator may delete it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from barnabas.storage.checkpoint_file import sync_directory
from barnabas.storage.errors import CorruptSegmentError
from barnabas.storage.file_io import exists, naming, write_all
from barnabas.storage.file_permissions import FILE_MODE

__all__ = [
    "DAMAGED_SUFFIX",
    "DamagedLogError",
    "LogDamage",
    "copy_aside",
    "copy_rest",
    "move_aside",
    "unused_aside_path",
]

DAMAGED_SUFFIX = ".damaged"
_COPY_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class LogDamage:
    """A loss of records that were, or may have been, durable: the log's readable prefix ends at ``offset``."""

    path: str
    """The file with the first damage, or the missing file."""
    position: int
    """The position of the first byte that cannot be read."""
    offset: int
    """The first offset that is lost."""
    known_end: int
    """The end offset that the log once reached, according to its remaining files."""
    reason: str
    evidence: str
    """The evidence that the log lost more than a torn tail."""

    def __str__(self) -> str:
        if self.known_end <= self.offset:
            return f"{self.path}: at position {self.position}: {self.reason}, and {self.evidence}"
        lost = (
            f"offset {self.offset}"
            if self.known_end == self.offset + 1
            else f"offsets {self.offset} to {self.known_end - 1}"
        )
        return f"{self.path}: at position {self.position}: {self.reason}; {lost} cannot be read, and {self.evidence}"


class DamagedLogError(CorruptSegmentError):
    """The log lost more than a torn tail. Nothing was truncated or removed."""

    def __init__(self, damage: LogDamage) -> None:
        super().__init__(damage.path, damage.position, damage.reason)
        self.damage = damage
        self.args = (str(damage),)


def unused_aside_path(path: str) -> str:
    """Return the name under which the damaged file is kept; an existing file of that name stays."""
    aside, number = path + DAMAGED_SUFFIX, 2
    while exists(aside):
        aside = f"{path}{DAMAGED_SUFFIX}.{number}"
        number += 1
    return aside


def move_aside(path: str) -> str:
    """Rename the file durably; return its new name."""
    aside = unused_aside_path(path)
    os.rename(path, aside)
    sync_directory(os.path.dirname(path))
    return aside


def copy_aside(path: str, position: int) -> str:
    """Copy the bytes from ``position`` to the end durably into a file beside it; return the name of that file."""
    aside = unused_aside_path(path)
    copy_rest(path, position, aside)
    sync_directory(os.path.dirname(path))
    return aside


def copy_rest(path: str, position: int, target_path: str) -> None:
    """Copy the bytes from ``position`` to the end into a durable file, whose directory entry is not durable yet."""
    source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        target = os.open(target_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
        try:
            os.lseek(source, position, os.SEEK_SET)
            while chunk := _read(path, source):
                with naming(target_path):
                    write_all(target, chunk)
            with naming(target_path):
                os.fsync(target)
        finally:
            os.close(target)
    finally:
        os.close(source)


def _read(path: str, source: int) -> bytes:
    with naming(path):
        return os.read(source, _COPY_BYTES)
