"""Which files may have lines of an audit, and the lines of local ones, without Spark."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import BinaryIO

from barnabas.pipelines.sources.audit_lines import AuditRow, Unreadable, parse_line
from barnabas.pipelines.sources.log_batches import Damage, read_batches
from barnabas.pipelines.sources.text_lines import COMPRESSED, decompressed_lines, whole_lines
from barnabas.protocol.errors import DecodeError

__all__ = ["local_decisions", "may_be_audit", "segment_base"]

_SEGMENT = re.compile(r"(\d{20})\.log\Z")
_NOT_AUDIT = (".index", ".timeindex", ".txnindex", ".snapshot", ".deleted", ".swap", ".cleaned", ".crc", ".tmp")
_PARTITION_FILES = ("leader-epoch-checkpoint", "partition.metadata")
_NO_END = 1 << 63


def may_be_audit(name: str) -> bool:
    """Return whether a file of this name is read. Hidden files and those that a node keeps beside segments are not."""
    return not (name.startswith((".", "_")) or name.endswith(_NOT_AUDIT) or name in _PARTITION_FILES)


def segment_base(name: str) -> int | None:
    """Return the base offset of a segment of the audit's topic; None for other files."""
    match = _SEGMENT.match(name)
    return None if match is None else int(match[1])


def local_decisions(path: str) -> Iterator[AuditRow | Unreadable]:
    """Yield each decision in a file, or in the files below a folder, and why a line can't be read.

    Times without a zone are taken as UTC. Raises OSError.
    """
    for file_path in _files(path):
        with open(file_path, "rb") as file:
            yield from _decisions(file, os.path.basename(file_path))


def _files(path: str) -> Iterator[str]:
    if not os.path.isdir(path):
        yield path
        return
    for folder, folders, names in os.walk(path, onerror=_raised):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (os.path.join(folder, name) for name in sorted(names) if may_be_audit(name))


def _raised(error: OSError) -> None:
    """Without it, a folder that can't be listed would seem to be empty."""
    raise error


def _decisions(file: BinaryIO, name: str) -> Iterator[AuditRow | Unreadable]:
    for line in _lines(file, name):
        if isinstance(line, Unreadable):
            yield line
        elif line.strip():
            try:
                yield parse_line(line.decode(errors="replace"))
            except Unreadable as error:
                yield error


def _lines(file: BinaryIO, name: str) -> Iterator[bytes | Unreadable]:
    base_offset = segment_base(name)
    if base_offset is not None:
        yield from _values(file, base_offset)
        return
    try:
        found = decompressed_lines(file, name) if name.endswith(COMPRESSED) else whole_lines(file, 0, _NO_END)
        for _, line in found:
            yield line
    except (EOFError, ValueError, OSError) as error:
        yield Unreadable(f"{name} can't be read to its end: {error}")


def _values(file: BinaryIO, base_offset: int) -> Iterator[bytes | Unreadable]:
    for batch in read_batches(file, base_offset, has_gaps=True):
        if isinstance(batch, Damage):
            yield Unreadable(batch.text)
        elif not batch.is_control:
            try:
                yield from [record.value or b"" for record in batch.records()]
            except DecodeError as error:
                yield Unreadable(str(error))
