"""Which files of a directory are the segments and snapshots of a metadata log, and which of them a read needs.

A log begins at offset 0 or at the end of a snapshot. Snapshots are named ``<end offset>-<epoch>.checkpoint``; their end
is exclusive. The one of formatting, 0-0, has no metadata.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from barnabas.pipelines.sources.errors import SourceUnavailable
from barnabas.pipelines.sources.stored_files import FileStore, StoredFile

__all__ = ["LogFiles", "SegmentFile", "SnapshotFile", "find_log", "needed_snapshot"]

_METADATA = "__cluster_metadata-0"
_SEGMENT = re.compile(r"(\d{20})\.log\Z")
_SNAPSHOT = re.compile(r"(\d{20})-(\d{10})\.checkpoint\Z")
_BOOTSTRAP = "bootstrap.checkpoint"


class SegmentFile(NamedTuple):
    base_offset: int
    path: str
    size: int
    next_base: int | None = None
    """Where the next segment begins. None for the last segment, which a node may be writing."""


class SnapshotFile(NamedTuple):
    end_offset: int
    epoch: int
    path: str
    size: int


class LogFiles(NamedTuple):
    folder: str
    segments: Sequence[SegmentFile]
    snapshots: Sequence[SnapshotFile]
    """Oldest first."""


def find_log(store: FileStore) -> LogFiles:
    """Return the log in a node's log directory, in a metadata log directory, or the single file that is named.

    Raises SourceUnavailable if none exists.
    """
    path = store.root
    single = store.file(path)
    if single is not None:
        found = _sorted_out(path.rpartition("/")[0], [single])
    elif store.is_folder(path):
        inside = f"{path}/{_METADATA}"
        folder = inside if store.is_folder(inside) else path
        found = _sorted_out(folder, store.files_in(folder))
    else:
        raise SourceUnavailable(f"{path} does not exist: name a directory with a metadata log, a segment or a snapshot")
    if not found.segments and not found.snapshots:
        raise SourceUnavailable(
            f"{path} holds no metadata log: name a node's log directory (metadata.log.dir, else the first of "
            f"log.dirs), the {_METADATA} in it or a copy of it, or one of its .log or .checkpoint files"
        )
    return found


def needed_snapshot(files: LogFiles) -> SnapshotFile | None:
    """Return the snapshot that describes what the log no longer has; None if the log begins at offset 0.

    It is the oldest one from which the log continues without a gap, so the longest history is kept. Raises
    SourceUnavailable if the log begins later and no snapshot leads up to it.
    """
    if not files.segments:
        return files.snapshots[-1] if files.snapshots else None
    start = files.segments[0].base_offset
    if start == 0:
        return None
    for snapshot in files.snapshots:
        if snapshot.end_offset >= start:
            return snapshot
    raise SourceUnavailable(
        f"{files.folder}: the log begins at offset {start}, and no snapshot covers what was before it; "
        "set the option snapshots to none to read the log alone"
    )


def _sorted_out(folder: str, files: Iterable[StoredFile]) -> LogFiles:
    segments: list[SegmentFile] = []
    snapshots: list[SnapshotFile] = []
    for file in files:
        if match := _SEGMENT.match(file.name):
            segments.append(SegmentFile(int(match[1]), file.path, file.size))
        elif (match := _SNAPSHOT.match(file.name)) and int(match[1]):
            snapshots.append(SnapshotFile(int(match[1]), int(match[2]), file.path, file.size))
        elif file.name == _BOOTSTRAP and folder.rpartition("/")[2] != _METADATA:
            snapshots.append(SnapshotFile(0, 0, file.path, file.size))
    segments.sort()
    following = [*(segment.base_offset for segment in segments[1:]), None]
    linked = [segment._replace(next_base=base) for segment, base in zip(segments, following, strict=False)]
    # bootstrap.checkpoint lies beside the metadata log's directory. It counts only if it alone was named.
    if segments or len(snapshots) > 1:
        snapshots = [snapshot for snapshot in snapshots if snapshot.end_offset]
    return LogFiles(folder, linked, sorted(snapshots))
