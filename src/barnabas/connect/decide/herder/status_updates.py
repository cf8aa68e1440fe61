"""Write the statuses of connectors and tasks, and read them for the REST API.

A worker writes the status of its own work. When it gives work up it writes UNASSIGNED, unless another worker has
written since. The leader cleans up after each rebalance: it deletes statuses of work that is no longer configured, and
writes UNASSIGNED for work without an owner because its worker was lost. (Kafka shows such work as RUNNING on the lost
worker until another worker gets it.)

What must not look healthy stays in the status until it is over, whatever state follows, and whichever worker runs the
work: the last failure until a batch succeeds, topics that a sink waits for, and the number of skipped records.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace

from barnabas.connect.decide.backing_stores.status_records import (
    Failure,
    Scaling,
    Status,
    StatusRecord,
    TopicStatus,
    connector_status_record,
    task_status_record,
    topic_status_record,
    topic_status_removal,
)
from barnabas.connect.decide.herder.herder_context import HerderContext
from barnabas.connect.decide.herder.local_work import Unit, named
from barnabas.connect.decide.herder.status_views import (
    connector_details,
    connector_state,
    task_details,
    task_status,
)
from barnabas.connect.entities import ActiveTopics, ConnectorStatus, TaskStatus
from barnabas.connect.errors import ConnectError, NotFound
from barnabas.connect.identifiers import ConnectorTaskId, TargetState, TaskState

__all__ = ["Statuses", "state_of"]

log = logging.getLogger(__name__)

_COUNTS_EVERY_MS = 5_000
"""How often new counts of a task are written at most."""
_NO_RESTART = "It was started again, but no batch has succeeded since."


def state_of(target_state: TargetState) -> TaskState:
    """Return the status of work that has reached its target state."""
    return {
        TargetState.STARTED: TaskState.RUNNING,
        TargetState.PAUSED: TaskState.PAUSED,
        TargetState.STOPPED: TaskState.STOPPED,
    }[target_state]


class Statuses:
    def __init__(self, context: HerderContext) -> None:
        self._context = context
        self._generation = 0
        """The last generation of which this worker was a member."""
        self._here: dict[Unit, Status] = {}
        """The last written status of each connector and task on this worker."""
        self._left: dict[Unit, Status] = {}
        """The last status of work that was given up here, until it starts again: the topic may not have it yet."""
        self._writing = 0
        self._uncounted: set[Unit] = set()
        """Tasks whose counts will be written soon."""

    # -- writing

    def set(self, unit: Unit, state: TaskState, *, has_version: bool = True) -> None:
        """Set the state. A failure stays until ``recovered``, and with it the number of restarts."""
        self._set(unit, self._status(unit, state, has_version=has_version))

    def failed(self, unit: Unit, failure: Failure) -> None:
        self._set(unit, replace(self._status(unit, TaskState.FAILED), failure=failure))

    def recovered(self, unit: Unit) -> Failure | None:
        """Note that the work has succeeded since its last failure. Return that failure, if there was one."""
        status = self._here.get(unit)
        if status is None or status.failure is None:
            return None
        self._set(unit, replace(status, failure=None))
        return status.failure

    def restart_requested(self, unit: Unit) -> None:
        """Note that a user restarts it: earlier automatic restarts do not count any more."""
        status = self._last(unit)
        if status is not None and status.failure is not None:
            failure = replace(status.failure, restarts=0, next=_NO_RESTART)
            self._set(unit, replace(self._own(status), failure=failure))

    def waits_for(self, connector: str, topics: tuple[str, ...]) -> None:
        """Note the topics of a running sink that do not exist."""
        status = self._here.get(connector)
        if status is not None and status.waits_for != topics:
            self._set(connector, replace(status, waits_for=topics))

    def scaled(self, connector: str, scaling: Scaling) -> None:
        """Note a decision of autoscaling."""
        status = self._here.get(connector)
        if status is not None and status.scaling != scaling:
            self._set(connector, replace(status, scaling=scaling))

    def skipped(self, task: ConnectorTaskId, records: int, dead_letters: int) -> None:
        """Count skipped records. The first are written at once, later ones after a few seconds."""
        status = self._here.get(task)
        if status is None:
            return
        self._here[task] = replace(
            status,
            skipped_records=status.skipped_records + records,
            dead_letters=status.dead_letters + dead_letters,
        )
        if task not in self._uncounted:
            self._uncounted.add(task)
            self._context.outside.start(self._write_counts(task))

    async def _write_counts(self, task: ConnectorTaskId) -> None:
        try:
            written: Status | None = None
            while (status := self._here.get(task)) is not None and status != written:
                written = status
                self._write(task, status)
                await self._context.outside.sleep(_COUNTS_EVERY_MS)
        finally:
            self._uncounted.discard(task)

    def last_failure(self, unit: Unit) -> Failure | None:
        """Return the failure since which the work has not succeeded, on any worker."""
        status = self._last(unit)
        return None if status is None else status.failure

    def counts(self, task: ConnectorTaskId) -> tuple[int, int]:
        """Return the skipped records of a task and its dead letters, since it was created."""
        status = self._last(task)
        return (0, 0) if status is None else (status.skipped_records, status.dead_letters)

    def take(self, unit: Unit) -> None:
        """Note that work will start here, so the status of another worker is outdated. (A start may take long.)"""
        context = self._context
        known = context.statuses.connector(unit) if isinstance(unit, str) else context.statuses.task(unit)
        if known is not None and known.worker_id != context.settings.worker_id:
            if known.state is not TaskState.UNASSIGNED:
                log.info("taking over %s, which was %s on worker %s", named(unit), known.state.value, known.worker_id)
            self.set(unit, TaskState.UNASSIGNED)

    def let_go(self, unit: Unit) -> None:
        """Note that work has stopped here. The leader removes the status of work that is no longer configured."""
        status = self._status(unit, TaskState.UNASSIGNED)
        self._here.pop(unit, None)
        if not self._is_configured(unit):
            return
        self._left[unit] = status
        if self._context.statuses.may_write_safely(unit, status):
            self._write(unit, status)

    def replayed(self, unit: Unit, status: Status | None) -> None:
        """Note a status that was written.

        A previous owner, or a leader that saw no owner, may have written after the present owner. The owner then writes
        its status again.
        """
        mine = self._here.get(unit)
        if mine is None or status is None or status.state is not TaskState.UNASSIGNED:
            return
        if mine.state is TaskState.UNASSIGNED:
            return
        if self._is_configured(unit) and status.generation <= self._generation:
            self._write(unit, replace(mine, generation=self._generation))

    def assigned(self, units: frozenset[Unit]) -> None:
        """Set the work of this worker after a rebalance."""
        self._here = {unit: status for unit, status in self._here.items() if unit in units}
        self._left = {unit: status for unit, status in self._left.items() if self._is_configured(unit)}
        self._generation = self._context.group.generation
        if self._context.group.is_leader:
            self._remove_unconfigured()
            self._disown_abandoned()

    def uses_topics(self, task: ConnectorTaskId, topics: Iterable[str]) -> None:
        """Remember topics that a connector has not used before (KIP-558)."""
        if not self._context.settings.is_topic_tracking_enabled:
            return
        known = self._context.statuses.topics(task.connector)
        for topic in topics:
            if topic not in known:
                now_ms = self._context.outside.now_ms()
                self._start_write(topic_status_record(TopicStatus(topic, task.connector, task.task, now_ms)))

    async def reset_active_topics(self, name: str) -> None:
        for topic in self._context.statuses.topics(name):
            await self._context.outside.write_status(topic_status_removal(topic, name))

    def is_said_to_run(self, unit: Unit) -> bool:
        """Return whether the last status from this worker says that it runs."""
        status = self._here.get(unit)
        return status is not None and status.state is TaskState.RUNNING

    def is_all_written(self) -> bool:
        return not self._writing

    # -- queries

    def connector_status(self, name: str) -> ConnectorStatus:
        statuses = self._context.statuses
        status = statuses.connector(name)
        if status is None or self._is_gone(name):
            raise NotFound(f"No status found for connector {name}")
        tasks = [task_status(task, status) for task, status in statuses.tasks(name).items()]
        return ConnectorStatus(name, connector_state(status), tasks, self._context.connector_type(name))

    def connector_details(self, name: str) -> ConnectorStatus:
        """Return the status with fields that Kafka's workers do not have."""
        plain, statuses = self.connector_status(name), self._context.statuses
        config = self._context.config.connector_config(name) or {}
        status = statuses.connector(name)
        if status is None:
            return plain
        tasks: list[TaskStatus] = [task_details(task, found) for task, found in statuses.tasks(name).items()]
        return ConnectorStatus(name, connector_details(status, config), tasks, plain.type)

    def task_status(self, task: ConnectorTaskId) -> TaskStatus:
        status = self._context.statuses.task(task)
        if status is None or self._is_gone(task.connector):
            raise NotFound(f"No status found for task {task}")
        return task_status(task, status)

    def task_details(self, task: ConnectorTaskId) -> TaskStatus:
        """Return the status with fields that Kafka's workers do not have."""
        plain, status = self.task_status(task), self._context.statuses.task(task)
        return plain if status is None else task_details(task, status)

    def _is_gone(self, connector: str) -> bool:
        """Return whether it was deleted. Its last status stays in the topic until its worker has stopped it."""
        return self._context.config.connector_config(connector) is None

    def active_topics(self, name: str) -> ActiveTopics:
        """Return the topics; an empty list for an unknown connector."""
        return ActiveTopics(name, list(self._context.statuses.topics(name)))

    # -- internals

    def _set(self, unit: Unit, status: Status) -> None:
        self._here[unit] = status
        self._left.pop(unit, None)
        self._write(unit, status)

    def _last(self, unit: Unit) -> Status | None:
        """Return the last status of this worker, otherwise the last that any worker has written."""
        statuses = self._context.statuses
        known = statuses.connector(unit) if isinstance(unit, str) else statuses.task(unit)
        left = self._left.get(unit)
        if left is not None and known is not None and known.worker_id == left.worker_id:
            known = left
        return self._here.get(unit) or known

    def _own(self, status: Status) -> Status:
        return replace(status, worker_id=self._context.settings.worker_id, generation=self._generation)

    def _status(self, unit: Unit, state: TaskState, *, has_version: bool = True) -> Status:
        """Return a status that keeps what is not over."""
        context = self._context
        connector = unit.connector if isinstance(unit, ConnectorTaskId) else unit
        properties = context.config.connector_config(connector)
        version = None
        if has_version and properties is not None:
            version = context.plugins.connector_version(properties)
        status = Status(state, context.settings.worker_id, self._generation, version=version)
        last = self._last(unit)
        if last is None:
            return status
        return replace(
            status,
            failure=_since(last.failure, state),
            waits_for=last.waits_for if state is TaskState.RUNNING else (),
            skipped_records=last.skipped_records,
            dead_letters=last.dead_letters,
            scaling=last.scaling,
        )

    def _write(self, unit: Unit, status: Status | None) -> None:
        if isinstance(unit, ConnectorTaskId):
            self._start_write(task_status_record(unit, status))
        else:
            self._start_write(connector_status_record(unit, status))

    def _start_write(self, record: StatusRecord) -> None:
        self._writing += 1
        self._context.outside.start(self._write_record(record))

    async def _write_record(self, record: StatusRecord) -> None:
        try:
            await self._context.outside.write_status(record)
        except (ConnectError, OSError) as error:
            log.error("status %s could not be written: %s", record[0].decode(), error)
        finally:
            self._writing -= 1

    def _is_configured(self, unit: Unit) -> bool:
        config = self._context.config
        if isinstance(unit, ConnectorTaskId):
            return config.contains(unit.connector) and unit.task < config.task_count(unit.connector)
        return config.contains(unit)

    def _units(self) -> list[tuple[Unit, Status]]:
        """Return all connectors and tasks that have a status."""
        statuses = self._context.statuses
        units: list[Unit] = [*statuses.all_tasks(), *statuses.connectors()]
        found = ((unit, statuses.connector(unit) if isinstance(unit, str) else statuses.task(unit)) for unit in units)
        return [(unit, status) for unit, status in found if status is not None]

    def _remove_unconfigured(self) -> None:
        for unit, _ in self._units():
            if not self._is_configured(unit):
                self._write(unit, None)
                if isinstance(unit, str):
                    for topic in self._context.statuses.topics(unit):
                        self._start_write(topic_status_removal(topic, unit))

    def _disown_abandoned(self) -> None:
        owners = self._context.group.owners
        members = self._context.group.member_worker_ids
        for unit, status in self._units():
            if self._is_configured(unit) and unit not in owners and status.worker_id not in members:
                if status.state is not TaskState.UNASSIGNED:
                    lost = replace(status, state=TaskState.UNASSIGNED, generation=self._generation, trace=None)
                    self._write(unit, replace(lost, waits_for=()))


def _since(failure: Failure | None, state: TaskState) -> Failure | None:
    """Return the failure with a sentence about what has happened since."""
    if failure is None or state is TaskState.STOPPED:
        return None
    if state is not TaskState.RUNNING:
        return failure
    if not failure.restarts:
        return replace(failure, next=_NO_RESTART)
    restart = f"restart {failure.restarts} of {failure.restarts_max}"
    return replace(failure, next=f"It runs again after {restart}, but no batch has succeeded since.")
