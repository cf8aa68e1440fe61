"""Sync the files that Spark is writing, so that the commit of a batch has little left to sync."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["sync_grown", "syncing"]

_EVERY_S = 0.4


@contextmanager
def syncing(folder: Path) -> Iterator[None]:
    """Sync the files in the folder repeatedly until the block ends. The folder need not exist yet.

    This guarantees nothing: a writer that needs a file on the disk syncs it when it is complete.
    """
    ends = threading.Event()
    thread = threading.Thread(target=_sync_until, args=(folder, ends), name="connect-early-sync", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


def _sync_until(folder: Path, ends: threading.Event) -> None:
    seen: dict[Path, int] = {}
    while not ends.wait(_EVERY_S):
        sync_grown(folder, seen)


def sync_grown(folder: Path, seen: dict[Path, int]) -> list[Path]:
    """Sync the files whose size differs from ``seen``, update ``seen``, and return the files."""
    synced: list[Path] = []
    # A folder may be removed during the walk; the walk skips it.
    found = (Path(place, name) for place, _, names in os.walk(folder) for name in names)
    for path in sorted(found):
        with suppress(OSError):  # It was renamed or removed meanwhile.
            size = path.stat().st_size
            if path.is_file() and seen.get(path) != size:
                number = os.open(path, os.O_RDONLY)
                try:
                    os.fdatasync(number)
                finally:
                    os.close(number)
                seen[path] = size
                synced.append(path)
    return synced
