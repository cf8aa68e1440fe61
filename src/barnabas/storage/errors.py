"""Errors that storage raises when the disk, not the caller, is at fault.

``StorageError`` is a failure of the environment: a log directory that cannot be read or written. The two ``Corrupt``
errors name the file and the position for the operator.
"""

from __future__ import annotations

from barnabas.common.errors import Terminal

__all__ = ["CorruptFileError", "CorruptIndexError", "CorruptSegmentError", "StorageError"]


class StorageError(Exception, Terminal):
    """The disk failed, or holds data that cannot be trusted."""


class CorruptFileError(StorageError):
    """A checkpoint, snapshot or other small file does not have its format."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class CorruptIndexError(CorruptFileError):
    """An index contradicts itself. It is derived data, and is rebuilt from its segment."""


class CorruptSegmentError(CorruptFileError):
    """A segment holds something other than whole, valid record batches."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(path, f"at position {position}: {reason}")
        self.position = position
        self.problem = reason
        """The reason without the position."""
