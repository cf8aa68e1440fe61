"""The log directories of this broker's replicas that must be reported to the controller (AssignReplicasToDirs).

The controller chooses the directory of a replica on a broker with one directory, and learns it from a broker with
several. The last assignment of a replica counts: if an older one is in flight, the new one is sent after it. One
request is in flight at a time. A failed assignment is retried as long as the replica is on this broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import NamedTuple

from barnabas.common.errors import ErrorCode
from barnabas.common.uuid import Uuid

__all__ = ["Assignment", "DirectoryAssignments", "ReplicaKey"]

ASSIGNMENTS_MAX = 2250
"""The maximum number of replicas in a request, as in Kafka: their records fit into one batch of the controller."""

ReplicaKey = tuple[Uuid, int]
"""Topic id and partition."""


class Assignment(NamedTuple):
    key: ReplicaKey
    directory_id: Uuid


class DirectoryAssignments:
    def __init__(self) -> None:
        self._waiting: dict[ReplicaKey, Uuid] = {}
        self._sent: dict[ReplicaKey, Uuid] = {}

    def __len__(self) -> int:
        return len(self._waiting) + len(self._sent)

    @property
    def is_due(self) -> bool:
        """Whether a request may be sent now."""
        return bool(self._waiting) and not self._sent

    def want(self, key: ReplicaKey, directory_id: Uuid) -> None:
        """Report that the replica is in this directory, or moves there once the controller knows it."""
        if self._sent.get(key) == directory_id:
            self._waiting.pop(key, None)
        else:
            self._waiting[key] = directory_id

    def withdraw(self, key: ReplicaKey) -> None:
        """Drop the report: the replica was removed, or the controller knows its directory."""
        self._waiting.pop(key, None)
        self._sent.pop(key, None)

    def next_request(self) -> dict[ReplicaKey, Uuid]:
        """Return the assignments to send. The caller must then call ``handle_answer`` or ``handle_failure``."""
        self._sent = dict(islice(self._waiting.items(), ASSIGNMENTS_MAX))
        for key in self._sent:
            del self._waiting[key]
        return dict(self._sent)

    def handle_answer(self, errors: Mapping[ReplicaKey, ErrorCode]) -> list[Assignment]:
        """Return the assignments that the controller accepted and that are still current. The others are sent again.

        A replica without a result was not accepted.
        """
        taken = []
        for key, directory_id in self._end_request().items():
            if errors.get(key, ErrorCode.UNKNOWN_SERVER_ERROR) != ErrorCode.NONE:
                self._waiting.setdefault(key, directory_id)
            elif key not in self._waiting:
                taken.append(Assignment(key, directory_id))
        return taken

    def handle_failure(self) -> None:
        """Handle a request that failed as a whole or was not answered."""
        for key, directory_id in self._end_request().items():
            self._waiting.setdefault(key, directory_id)

    def _end_request(self) -> dict[ReplicaKey, Uuid]:
        sent, self._sent = self._sent, {}
        return sent
