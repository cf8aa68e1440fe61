"""Why a node can't start, or can't go on."""

from __future__ import annotations

from barnabas.storage.errors import StorageError

__all__ = ["LogDirectoriesLost", "NodeStartError"]


class NodeStartError(Exception):
    """The node can't start; the message is for the operator."""


class LogDirectoriesLost(StorageError):
    """The node can't go on: the disks of all its log directories failed, or one that it can't do without."""
