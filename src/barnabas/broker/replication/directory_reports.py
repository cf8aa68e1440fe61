"""What heartbeats say about this broker's log directories: which ones failed, and which get no new replicas.

A directory that failed is named in every heartbeat until the broker stops. As long as the controller has not heard of
it, it takes this broker for the leader of partitions that nobody can use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from barnabas.common.uuid import Uuid

__all__ = ["DirectoryReports"]


class DirectoryReports:
    def __init__(self) -> None:
        self._offline: dict[Uuid, bool] = {}
        self.cordoned: Sequence[Uuid] | None = None
        """None while the controllers don't know of cordoned directories."""

    @property
    def offline(self) -> list[Uuid]:
        return list(self._offline)

    def failed(self, directory_id: Uuid) -> None:
        self._offline.setdefault(directory_id, False)

    def told(self, offline: Iterable[Uuid]) -> None:
        """The controller has answered a heartbeat that named these."""
        for directory_id in offline:
            self._offline[directory_id] = True

    def is_told(self, directory_id: Uuid) -> bool:
        return self._offline.get(directory_id, True)
