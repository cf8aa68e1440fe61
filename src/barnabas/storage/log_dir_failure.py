"""Collects failures of log directories from any thread, for the node's loop to handle.

Kafka takes a directory offline for any failed operation on its files, until the next start. So does barnabas,
except for errors that the disk did not cause: a lack of descriptors or memory, or a name that is taken.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable

from barnabas.storage.errors import StorageError

__all__ = ["LogDirFailure", "LogDirFailureChannel", "is_disk_failure"]

_NOT_THE_DISK = frozenset(
    (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR, errno.EEXIST, errno.ENAMETOOLONG)
)

LogDirFailure = tuple[str, str]
"""The path of a failed directory, and the reason."""


def is_disk_failure(error: BaseException) -> bool:
    """Whether the error means that a directory cannot be used: a system error, bare or as the cause of ours."""
    if isinstance(error, OSError):
        return error.errno not in _NOT_THE_DISK
    return isinstance(error, StorageError) and error.__cause__ is not None and is_disk_failure(error.__cause__)


class LogDirFailureChannel:
    """A queue of failures, from the threads that find them to the loop that takes the directory offline."""

    def __init__(self) -> None:
        self.on_failure: Callable[[], object] = lambda: None
        """Called on the thread that found a failure; the loop must call ``take`` soon."""
        self._failures: deque[LogDirFailure] = deque()
        self._known: set[str] = set()

    def report(self, path: str, error: BaseException | str) -> None:
        """Report a failed directory. Only the first report of each directory counts."""
        if path in self._known:
            return
        self._known.add(path)
        self._failures.append((path, str(error)))
        self.on_failure()

    def take(self) -> LogDirFailure | None:
        return self._failures.popleft() if self._failures else None
