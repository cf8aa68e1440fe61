"""The identity of a replica: its node id and the directory that holds its metadata log."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.common.uuid import Uuid

__all__ = ["ReplicaKey", "OffsetAndEpoch"]


class ReplicaKey(NamedTuple):
    """A node id with a directory id; ``Uuid.ZERO`` means that the directory is not known."""

    id: int
    directory_id: Uuid = Uuid.ZERO

    @property
    def has_directory(self) -> bool:
        return self.directory_id != Uuid.ZERO

    def matches(self, other: ReplicaKey) -> bool:
        """Return True unless the ids differ, or both have a directory id and these differ."""
        if self.id != other.id:
            return False
        return not self.has_directory or not other.has_directory or self.directory_id == other.directory_id

    def __str__(self) -> str:
        return f"{self.id}@{self.directory_id}" if self.has_directory else str(self.id)


class OffsetAndEpoch(NamedTuple):
    """An end offset (exclusive) and the epoch of the record before it; names a snapshot too."""

    offset: int
    epoch: int

    def __str__(self) -> str:
        return f"{self.offset}-{self.epoch}"
