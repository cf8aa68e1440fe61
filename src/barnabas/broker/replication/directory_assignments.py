"""What the controller has to be told about the log directories of this broker's replicas (AssignReplicasToDirs).

The controller chooses the directory of a replica on a broker with one, and learns it from a broker with several. The
last wish for a replica counts: one that comes while an older one is on its way is sent after it. One request is on its
way at a time; what it does not bring about is tried again for as long as the replica is here.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import NamedTuple

from barnabas.common.errors import ErrorCode
from barnabas.common.uuid import Uuid

__all__ = ["Assignment", "DirectoryAssignments", "ReplicaKey"]

ASSIGNMENTS_MAX = 2250
"""In one request, as Kafka's brokers: it fits into the controller's limit of a batch."""

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
        """Whether a request may go out now."""
        return bool(self._waiting) and not self._sent

    def want(self, key: ReplicaKey, directory_id: Uuid) -> None:
        """The replica is in this directory, or will be as soon as the controller knows it."""
        if self._sent.get(key) == directory_id:
            self._waiting.pop(key, None)
        else:
            self._waiting[key] = directory_id

    def withdraw(self, key: ReplicaKey) -> None:
        """The replica is not here any more, or the controller knows where it is."""
        self._waiting.pop(key, None)
        self._sent.pop(key, None)

    def next_request(self) -> dict[ReplicaKey, Uuid]:
        """What to send now; ``handle_answer`` or ``handle_failure`` must follow."""
        self._sent = dict(islice(self._waiting.items(), ASSIGNMENTS_MAX))
        for key in self._sent:
            del self._waiting[key]
        return dict(self._sent)

    def handle_answer(self, errors: Mapping[ReplicaKey, ErrorCode]) -> list[Assignment]:
        """What the controller has taken and nobody has changed his mind about; the rest waits for its next turn.

        A replica without an answer was not taken.
        """
        taken = []
        for key, directory_id in self._end_request().items():
            if errors.get(key, ErrorCode.UNKNOWN_SERVER_ERROR) != ErrorCode.NONE:
                self._waiting.setdefault(key, directory_id)
            elif key not in self._waiting:
                taken.append(Assignment(key, directory_id))
        return taken

    def handle_failure(self) -> None:
        """There was no answer, or it was an error for all of it."""
        for key, directory_id in self._end_request().items():
            self._waiting.setdefault(key, directory_id)

    def _end_request(self) -> dict[ReplicaKey, Uuid]:
        sent, self._sent = self._sent, {}
        return sent
