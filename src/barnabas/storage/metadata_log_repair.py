"""Truncates a damaged metadata log to its readable prefix. Every removed byte is moved aside, none is deleted.

A voter or broker with peers repairs itself, because it copies the missing records from the leader. A single node
does it only when its operator accepts the loss (``barnabas storage repair --accept-loss``).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress

from barnabas.storage import producer_snapshot
from barnabas.storage.checkpoint_file import sync_directory, sync_file
from barnabas.storage.damaged_files import LogDamage, copy_aside, move_aside
from barnabas.storage.metadata_log import METADATA_LOG_DIRECTORY
from barnabas.storage.metadata_log_opening import segment_sizes
from barnabas.storage.recovery_point import RecoveryPoint
from barnabas.storage.segment import segment_path

__all__ = ["cut_damaged_log"]

log = logging.getLogger(__name__)


def cut_damaged_log(log_dir: str, damage: LogDamage, *, report: Callable[[str], None] | None = None) -> None:
    """Keep the readable part before ``damage.offset``. After a crash in between, the repair runs again.

    ``report`` receives a line for each moved file; None: the node's log.
    """
    report = report or log.error
    directory = f"{log_dir}/{METADATA_LOG_DIRECTORY}"
    segments = segment_sizes(directory)
    cut_path = segment_path(directory, 0, "") if damage.path.endswith(".checkpoint") else damage.path
    if damage.path.endswith(".checkpoint") and os.path.exists(damage.path):
        report(f"{damage.path}: {damage.reason}; the file is kept as {move_aside(damage.path)}")
    for base_offset in sorted(segments, reverse=True):
        path = segment_path(directory, base_offset, ".log")
        if base_offset > damage.offset or (path == cut_path and damage.position == 0):
            _move_segment_aside(directory, base_offset, report)
        elif path == cut_path and damage.position < segments[base_offset]:
            aside = copy_aside(path, damage.position)
            os.truncate(path, damage.position)
            sync_file(path)
            report(
                f"{path}: truncated at position {damage.position}, offset {damage.offset}: {damage.reason}. "
                f"{segments[base_offset] - damage.position} bytes are kept as {aside}"
            )
    for offset in producer_snapshot.list_snapshots(directory):
        if offset > damage.offset:
            producer_snapshot.delete_snapshot(directory, offset)
    RecoveryPoint(directory).lower(damage.offset)
    sync_directory(directory)


def _move_segment_aside(directory: str, base_offset: int, report: Callable[[str], None]) -> None:
    path = segment_path(directory, base_offset, ".log")
    report(f"{path}: the segment is after the damage; it is kept as {move_aside(path)}")
    for extension in (".index", ".timeindex"):
        with suppress(FileNotFoundError):
            os.unlink(segment_path(directory, base_offset, extension))
