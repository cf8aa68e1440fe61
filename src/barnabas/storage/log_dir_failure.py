"""Log directories whose disk failed: noticed anywhere, on any thread, and handled in one place, by the node's loop.

Kafka takes a directory out of use for any failed operation on its files; it comes back with the next start. So do we,
but for what is not the disk's fault: a lack of descriptors or memory, or a name that is taken.
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
"""The path of a directory, and what happened to it."""


def is_disk_failure(error: BaseException) -> bool:
    """Whether the error says that a directory can't be used any more: one of the system, bare or inside of ours."""
    if isinstance(error, OSError):
        return error.errno not in _NOT_THE_DISK
    return isinstance(error, StorageError) and error.__cause__ is not None and is_disk_failure(error.__cause__)


class LogDirFailureChannel:
    """From whoever meets the failure to the one who takes the directory out of use."""

    def __init__(self) -> None:
        self.on_failure: Callable[[], object] = lambda: None
        """Called on the thread that met a failure; somebody has to ``take`` soon."""
        self._failures: deque[LogDirFailure] = deque()
        self._known: set[str] = set()

    def report(self, path: str, error: BaseException | str) -> None:
        """A directory can't be used any more. Only the first report of each is told."""
        if path in self._known:
            return
        self._known.add(path)
        self._failures.append((path, str(error)))
        self.on_failure()

    def take(self) -> LogDirFailure | None:
        return self._failures.popleft() if self._failures else None
