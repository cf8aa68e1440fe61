"""The log directories that heartbeats report: failed ones and cordoned ones.

A failed directory is named in every heartbeat until the broker stops. Until the controller has received it, this broker
remains the leader of partitions that cannot be used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from barnabas.common.uuid import Uuid

__all__ = ["DirectoryReports"]


class DirectoryReports:
    def __init__(self) -> None:
        self._offline: dict[Uuid, bool] = {}
        self.cordoned: Sequence[Uuid] | None = None
        """None while the controllers do not support cordoned directories."""

    @property
    def offline(self) -> list[Uuid]:
        return list(self._offline)

    def failed(self, directory_id: Uuid) -> None:
        self._offline.setdefault(directory_id, False)

    def note_reported(self, offline: Iterable[Uuid]) -> None:
        """Note that the controller has answered a heartbeat that named these directories."""
        for directory_id in offline:
            self._offline[directory_id] = True

    def is_reported(self, directory_id: Uuid) -> bool:
        return self._offline.get(directory_id, True)
