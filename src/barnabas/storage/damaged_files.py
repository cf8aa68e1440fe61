"""What storage found to be lost, and how damaged bytes are kept: never thrown away, only moved aside.

A file that is moved aside gets the suffix ``.damaged`` (``.damaged.2`` and so on when that name is taken). Neither
barnabas nor Kafka reads such a file again; whoever has finished with it may delete it.
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
    """A log has lost records that it held durably, or may have held: its readable prefix ends at ``offset``."""

    path: str
    """The file with the first bad place, or the file that is missing."""
    position: int
    """The byte at which it cannot be read any further."""
    offset: int
    """The first offset that is lost."""
    known_end: int
    """The log once reached this end offset, as far as its files still tell."""
    reason: str
    evidence: str
    """What shows that more than a torn tail is lost."""

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
    """The log lost more than a torn tail. Nothing was cut or removed."""

    def __init__(self, damage: LogDamage) -> None:
        super().__init__(damage.path, damage.position, damage.reason)
        self.damage = damage
        self.args = (str(damage),)


def unused_aside_path(path: str) -> str:
    """The name under which the damaged file is kept; an earlier one of that name stays."""
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
    """Copy the bytes from ``position`` to the end durably into a file beside it; return that file's name."""
    aside = unused_aside_path(path)
    copy_rest(path, position, aside)
    sync_directory(os.path.dirname(path))
    return aside


def copy_rest(path: str, position: int, target_path: str) -> None:
    """Copy the bytes from ``position`` to the end into a file, which is durable afterwards; its name is not yet."""
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
