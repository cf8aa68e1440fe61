"""The figures that this worker has of its own work: history and load."""

from __future__ import annotations

from barnabas.common.clock import Clock
from barnabas.connect.decide.herder.herder import Herder
from barnabas.connect.decide.history.connector_history import WorkerHistory
from barnabas.connect.entities import History, WorkerLoad
from barnabas.connect.identifiers import ConnectorTaskId, TaskState

__all__ = ["WorkerFigures"]


class WorkerFigures:
    """``history`` is None where it is switched off. The worker counts as started now."""

    def __init__(self, herder: Herder, history: WorkerHistory | None, clock: Clock, version: str) -> None:
        self._herder = herder
        self._history = history
        self._clock = clock
        self._version = version
        self._started_ms = clock.now_ms()

    def history(self, connector: str, hours: int) -> History | None:
        return None if self._history is None else self._history.read(connector, hours, self._clock.now_ms())

    def load(self) -> WorkerLoad:
        context = self._herder.context
        assigned = self._herder.assigned_work.assigned
        tasks = [unit for unit in assigned if isinstance(unit, ConnectorTaskId)]
        statuses = [context.statuses.task(task) for task in tasks]
        history = self._history
        return WorkerLoad(
            worker_id=context.settings.worker_id,
            url=context.settings.url,
            version=self._version,
            is_leader=context.group.is_leader,
            started=self._started_ms,
            connectors=len(assigned) - len(tasks),
            tasks=len(tasks),
            failed_tasks=sum(status is not None and status.state is TaskState.FAILED for status in statuses),
            records_per_second=None if history is None else history.records_per_second(self._clock.now_ms()),
        )
