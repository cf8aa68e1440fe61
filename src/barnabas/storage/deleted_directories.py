"""Removes directories of deleted partitions after ``file.delete.delay.ms``, after a restart too; they are renamed
first."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["DeletedDirectories"]


class DeletedDirectories:
    def __init__(self) -> None:
        self._waiting: list[tuple[int, str]] = []

    def add(self, paths: Iterable[str], *, due_ms: int) -> None:
        self._waiting += [(due_ms, path) for path in paths]

    def remove_due(self, now_ms: int, *, directories_max: int) -> int:
        """Remove a few, and return their number: a client may delete ten thousand topics in one request."""
        due = [item for item in self._waiting if item[0] <= now_ms][:directories_max]
        if due:
            from shutil import rmtree  # Imported only when something is deleted.
        for item in due:
            rmtree(item[1], ignore_errors=True)
            self._waiting.remove(item)
        return len(due)
