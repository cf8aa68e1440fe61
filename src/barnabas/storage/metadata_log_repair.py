"""Cut a damaged metadata log back to its readable prefix. Nothing is thrown away: every removed byte is moved aside.

A voter or broker with peers does this by itself, because it takes the missing records from the leader. A node alone
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
    """Leave of the log what can be read before ``damage.offset``. A crash in between is found and repaired again.

    ``report`` takes each line that says what was moved; the log of the node when it is None.
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
                f"{path}: cut at position {damage.position}, offset {damage.offset}: {damage.reason}. "
                f"{segments[base_offset] - damage.position} bytes are kept as {aside}"
            )
    for offset in producer_snapshot.list_snapshots(directory):
        if offset > damage.offset:
            producer_snapshot.delete_snapshot(directory, offset)
    RecoveryPoint(directory).lower(damage.offset)
    sync_directory(directory)


def _move_segment_aside(directory: str, base_offset: int, report: Callable[[str], None]) -> None:
    path = segment_path(directory, base_offset, ".log")
    report(f"{path}: the segment lies behind the damage; it is kept as {move_aside(path)}")
    for extension in (".index", ".timeindex"):
        with suppress(FileNotFoundError):
            os.unlink(segment_path(directory, base_offset, extension))
