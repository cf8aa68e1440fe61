"""The log of a test node: a file with the output of all its starts."""

from __future__ import annotations

from pathlib import Path

__all__ = ["NodeLog"]

_LINES_SHOWN = 30


class NodeLog:
    def __init__(self, path: Path, title: str) -> None:
        """``title`` names the node in the report of a test."""
        self.path = path
        self.title = title

    def text(self, since: int = 0) -> str:
        """Return the log from a position in bytes on; empty before the first start."""
        try:
            with self.path.open("rb") as file:
                file.seek(since)
                return file.read().decode(errors="replace")
        except FileNotFoundError:
            return ""

    def size(self) -> int:
        """Return the present length in bytes."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def tail(self) -> str:
        """Return the last lines, for an error message."""
        lines = self.text().splitlines()
        return "\n".join(["the last lines of its log:", *lines[-_LINES_SHOWN:]]) if lines else "its log is empty"
