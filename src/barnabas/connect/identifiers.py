"""The common identifiers of Connect: tasks, states and target states."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["ConnectorTaskId", "ConnectorType", "TargetState", "TaskState"]


@dataclass(frozen=True, slots=True, order=True)
class ConnectorTaskId:
    """A task by its connector and its number, from 0. ``str()`` is Kafka's form: ``orders-0``."""

    connector: str
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"

    def transactional_id(self, group_id: str) -> str:
        """Return the id of the producer of an exactly-once source's task, in a group of workers (KIP-618)."""
        return f"{group_id}-{self}"


class ConnectorType(StrEnum):
    """The type as in the REST API. UNKNOWN is a connector whose class this worker does not have."""

    SOURCE = "source"
    SINK = "sink"
    UNKNOWN = "unknown"


class TargetState(StrEnum):
    """The state that a user wants; the value is the one of ``state.v2`` in the config topic."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


class TaskState(StrEnum):
    """The state of a connector or task, in the status topic. Only connectors are STOPPED; DESTROYED is written as a
    tombstone and never shown."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    STOPPED = "STOPPED"
    DESTROYED = "DESTROYED"
