"""What the pages show, as values: connectors and tasks with what is known of them. Templates only lay it out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from barnabas.connect.decide.tasks.task_progress import TaskProgress
from barnabas.connect.decide.validation.connector_rules import consumer_group_of
from barnabas.connect.entities import ConnectorInfo, ConnectorStatus
from barnabas.connect.identifiers import ConnectorTaskId, ConnectorType, TaskState
from barnabas.connect.rest.console.consumer_lag import GroupLag

__all__ = ["ConnectorView", "Failure", "Setting", "TaskView", "Totals", "group_of", "is_worker_address"]

_SECRET = re.compile(r"(password|passphrase|secret|jaas\.config|token|credentials?|(^|\.)key)$", re.IGNORECASE)
_REFERENCE = re.compile(r"\$\{[^}]*\}")
_ADDRESS = re.compile(r"(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}")
_OTHER_CLUSTER = ("consumer.override.bootstrap.servers", "admin.override.bootstrap.servers")


@dataclass(frozen=True, slots=True)
class Failure:
    what: str
    trace: str

    @property
    def reason(self) -> str:
        return next((line for line in self.trace.splitlines() if line.strip()), "It gave no reason.")


@dataclass(frozen=True, slots=True)
class TaskView:
    id: ConnectorTaskId
    state: str
    worker_id: str
    is_here: bool
    """On the worker that is asked."""
    trace: str = ""
    progress: TaskProgress | None = None
    per_second: float | None = None

    @property
    def number(self) -> int:
        return self.id.task

    @property
    def failure(self) -> Failure | None:
        is_failed = self.state == TaskState.FAILED or self.trace
        return Failure(f"Task {self.number}", self.trace) if is_failed else None


@dataclass(frozen=True, slots=True)
class Setting:
    """``is_hidden`` where a screen that others see should not show it at once. A reference shows nothing anyway."""

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
    """None where there is none to tell: of sources, and of sinks whose group is on another cluster."""

    @property
    def failures(self) -> Sequence[Failure]:
        own = [Failure("Connector", self.trace)] if self.trace or self.state == TaskState.FAILED else []
        return own + [each.failure for each in self.tasks if each.failure is not None]

    @property
    def task_states(self) -> Mapping[str, int]:
        counts: dict[str, int] = {}
        for each in self.tasks:
            counts[each.state] = counts.get(each.state, 0) + 1
        return dict(sorted(counts.items()))

    @property
    def worst_state(self) -> str:
        """FAILED if anything of it has failed: who looks at a list should not have to count."""
        return TaskState.FAILED.value if any(each.state == TaskState.FAILED for each in self.tasks) else self.state

    @property
    def per_second(self) -> float | None:
        """Records: of a sink those that are committed, wherever its tasks run; of a source those read here."""
        if self.lag is not None:
            return self.lag.per_second
        known = [each.per_second for each in self.tasks if each.per_second is not None]
        return sum(known) if known else None

    @property
    def is_stopped(self) -> bool:
        return self.state == TaskState.STOPPED

    @property
    def is_running(self) -> bool:
        """Whether there is something to pause."""
        return self.state not in (TaskState.PAUSED, TaskState.STOPPED)


@dataclass(frozen=True, slots=True)
class Totals:
    connectors: int
    tasks: int
    running: int
    failed: int

    @classmethod
    def of(cls, connectors: Sequence[ConnectorView]) -> Totals:
        tasks = [task for each in connectors for task in each.tasks]
        own = sum(each.state == TaskState.FAILED for each in connectors)
        return cls(
            len(connectors),
            len(tasks),
            sum(each.state == TaskState.RUNNING for each in tasks),
            own + sum(each.state == TaskState.FAILED for each in tasks),
        )


def group_of(info: ConnectorInfo, status: ConnectorStatus | None) -> str | None:
    """The consumer group of a sink, None where this worker's cluster can't tell of it."""
    type_ = info.type if info.type is not ConnectorType.UNKNOWN or status is None else status.type
    if type_ is not ConnectorType.SINK or any(info.config.get(name) for name in _OTHER_CLUSTER):
        return None
    group = consumer_group_of(info.name, info.config)
    return None if _REFERENCE.search(group) else group


def is_worker_address(worker_id: str) -> bool:
    """Whether ``host:port`` is what it is; statuses come from a topic that others can write."""
    return _ADDRESS.fullmatch(worker_id) is not None
