"""The values that the pages show: connectors and tasks with their states. Templates only lay them out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from barnabas.connect.decide.herder.status_views import waiting_text
from barnabas.connect.decide.lag.consumer_lag import GroupLag
from barnabas.connect.decide.tasks.task_progress import TaskProgress
from barnabas.connect.entities import (
    ConnectorDetails,
    LastFailure,
    TaskDetails,
    TaskStatus,
)
from barnabas.connect.identifiers import ConnectorTaskId, TaskState

__all__ = [
    "ConnectorView",
    "Failure",
    "Setting",
    "TaskView",
    "Totals",
    "is_worker_address",
    "task_view",
]

_SECRET = re.compile(r"(password|passphrase|secret|jaas\.config|token|credentials?|(^|\.)key)$", re.IGNORECASE)
_REFERENCE = re.compile(r"\$\{[^}]*\}")
_ADDRESS = re.compile(r"(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}")


@dataclass(frozen=True, slots=True)
class Failure:
    what: str
    trace: str

    @property
    def reason(self) -> str:
        return next((line for line in self.trace.splitlines() if line.strip()), "No reason was given.")


@dataclass(frozen=True, slots=True)
class TaskView:
    id: ConnectorTaskId
    state: str
    worker_id: str
    is_here: bool
    """Whether it runs on this worker."""
    trace: str = ""
    progress: TaskProgress | None = None
    per_second: float | None = None
    last_failure: LastFailure | None = None
    skipped_records: int = 0
    dead_letters: int = 0

    @property
    def number(self) -> int:
        return self.id.task

    @property
    def failure(self) -> Failure | None:
        is_failed = self.state == TaskState.FAILED or self.trace
        return Failure(f"Task {self.number}{_restart(self.last_failure)}", self.trace) if is_failed else None


@dataclass(frozen=True, slots=True)
class Setting:
    """``is_hidden``: hide the value on a screen that others may see. A reference shows no value anyway."""

    name: str
    value: str

    @property
    def is_hidden(self) -> bool:
        return _SECRET.search(self.name) is not None and _REFERENCE.fullmatch(self.value) is None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorView:
    name: str
    type: str
    class_name: str
    version: str
    state: str
    worker_id: str
    trace: str
    tasks: tuple[TaskView, ...]
    lag: GroupLag | None = None
    """None where unknown: for sources, and for sinks whose group is on another cluster."""
    details: ConnectorDetails | None = None

    @property
    def own_failure(self) -> Failure | None:
        """The failure of the connector itself. Waiting for a topic is none."""
        details = self.details
        if self.state != TaskState.FAILED and (not self.trace or (details is not None and not details.last_failure)):
            return None
        return Failure(f"Connector{_restart(details.last_failure if details else None)}", self.trace)

    @property
    def failures(self) -> Sequence[Failure]:
        own = [] if self.own_failure is None else [self.own_failure]
        return own + [task.failure for task in self.tasks if task.failure is not None]

    @property
    def waiting(self) -> str:
        return "" if self.details is None else waiting_text(self.details.waits_for)

    @property
    def dead_letter_topic(self) -> str:
        return "" if self.details is None else self.details.dead_letter_topic

    @property
    def skipped_records(self) -> int:
        return sum(task.skipped_records for task in self.tasks)

    @property
    def dead_letters(self) -> int:
        return sum(task.dead_letters for task in self.tasks)

    @property
    def task_states(self) -> Mapping[str, int]:
        counts: dict[str, int] = {}
        for task in self.tasks:
            counts[task.state] = counts.get(task.state, 0) + 1
        return dict(sorted(counts.items()))

    @property
    def worst_state(self) -> str:
        """FAILED if the connector or a task has failed."""
        return TaskState.FAILED.value if any(task.state == TaskState.FAILED for task in self.tasks) else self.state

    @property
    def per_second(self) -> float | None:
        """Records per second: for a sink those committed by all its tasks, for a source those read on this worker."""
        if self.lag is not None:
            return self.lag.per_second
        known = [task.per_second for task in self.tasks if task.per_second is not None]
        return sum(known) if known else None

    @property
    def is_stopped(self) -> bool:
        return self.state == TaskState.STOPPED

    @property
    def is_running(self) -> bool:
        """Whether the connector can be paused."""
        return self.state not in (TaskState.PAUSED, TaskState.STOPPED)


@dataclass(frozen=True, slots=True)
class Totals:
    connectors: int
    tasks: int
    running: int
    failed: int

    @classmethod
    def of(cls, connectors: Sequence[ConnectorView]) -> Totals:
        tasks = [task for connector in connectors for task in connector.tasks]
        own = sum(connector.state == TaskState.FAILED for connector in connectors)
        return cls(
            len(connectors),
            len(tasks),
            sum(task.state == TaskState.RUNNING for task in tasks),
            own + sum(task.state == TaskState.FAILED for task in tasks),
        )


def task_view(task: ConnectorTaskId, status: TaskStatus, *, is_here: bool) -> TaskView:
    view = TaskView(task, status.state, status.worker_id, is_here, status.trace)
    if not isinstance(status, TaskDetails):
        return view
    return replace(
        view,
        last_failure=status.last_failure,
        skipped_records=status.skipped_records,
        dead_letters=status.dead_letters,
    )


def _restart(failure: LastFailure | None) -> str:
    return "" if failure is None or not failure.restarts else f" (restart {failure.restarts} of {failure.restarts_max})"


def is_worker_address(worker_id: str) -> bool:
    """Return whether it has the form ``host:port``; statuses are from a topic that other programs can write."""
    return _ADDRESS.fullmatch(worker_id) is not None
