"""Errors because of which a node can't start or can't continue."""

from __future__ import annotations

from barnabas.storage.errors import StorageError

__all__ = ["LogDirectoriesLost", "NodeStartError"]


class NodeStartError(Exception):
    """The node can't start. The message is for the operator."""


class LogDirectoriesLost(StorageError):
    """The node can't continue: all its log directories failed, or one that it requires."""
