"""Restarts that users request: of a connector, of a task, or of both in one request (KIP-745).

The last kind is a record in the config topic. Every worker that reads it restarts its part of the connector. Of several
waiting requests for a connector, the one with the greatest impact applies. The statuses decide which parts restart; a
paused connector stays paused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from barnabas.connect.decide.backing_stores.config_records import restart_record
from barnabas.connect.decide.backing_stores.config_state import RestartRequested
from barnabas.connect.decide.herder.assigned_work import AssignedWork
from barnabas.connect.decide.herder.group_log import listed
from barnabas.connect.decide.herder.herder_context import HerderContext
from barnabas.connect.decide.herder.local_work import LocalWork, Unit
from barnabas.connect.decide.herder.status_updates import Statuses
from barnabas.connect.entities import ConnectorState, ConnectorStatus, TaskStatus
from barnabas.connect.errors import ConnectError, NotAssigned, NotFound
from barnabas.connect.identifiers import ConnectorTaskId, TaskState

__all__ = ["Restarts"]

log = logging.getLogger(__name__)


class Restarts:
    """``on_restart`` is called with the restarted work: a user's request overrides earlier failures."""

    def __init__(
        self,
        context: HerderContext,
        work: LocalWork,
        assigned_work: AssignedWork,
        statuses: Statuses,
        on_restart: Callable[[Unit], None],
    ) -> None:
        self._context = context
        self._work = work
        self._assigned_work = assigned_work
        self._statuses = statuses
        self._on_restart = on_restart
        self._pending: dict[str, RestartRequested] = {}
        self._is_under_way = False

    # -- one connector or one task

    async def restart_connector(self, name: str) -> None:
        await self._context.settled(is_up_to_date=True)
        await self._context.find_connector(name, f"Unknown connector: {name}")
        await self._restart_here(name, f"connector {name}")

    async def restart_task(self, task: ConnectorTaskId) -> None:
        await self._context.settled(is_up_to_date=True)
        await self._context.find_connector(task.connector, f"Unknown connector: {task.connector}")
        if task not in self._context.config.tasks(task.connector):
            raise NotFound(f"Unknown task: {task}")
        await self._restart_here(task, f"task {task}")

    async def _restart_here(self, unit: Unit, what: str) -> None:
        if not self._assigned_work.is_assigned(unit):
            self._context.require_leader("Only the leader can process restart requests.")
            owner = self._context.group.owners.get(unit)
            raise NotAssigned(f"Cannot restart {what} since it is not assigned to this member", owner)
        log.info("restarting %s, as a user requested", what)
        self._on_restart(unit)
        self._assigned_work.restart((unit,))
        await self._context.outside.until(lambda: self._work.is_steady(unit))
        failure = self._work.failure(unit)
        if failure is not None:
            raise ConnectError(f"Failed to start {what}: {failure}")

    # -- a connector and its tasks

    async def restart(self, name: str, *, include_tasks: bool, only_failed: bool) -> ConnectorStatus:
        """Write the request. Return the states that will apply while it is carried out."""
        async with self._context.as_leader("Only the leader can process restart requests."):
            await self._context.find_connector(name, f"Unknown connector: {name}")
            request = RestartRequested(name, include_tasks, only_failed)
            before = self._statuses.connector_status(name)
            plan = self._plan(request)
            await self._context.write_configs(
                restart_record(name, include_tasks=include_tasks, only_failed=only_failed)
            )
            return _planned(before, plan)

    def requested(self, request: RestartRequested) -> None:
        """Note that a request was read."""
        waiting = self._pending.get(request.connector)
        if waiting is None or request.impact > waiting.impact:
            self._pending[request.connector] = request
        if not self._is_under_way:
            self._is_under_way = True
            self._context.outside.start(self._carry_out())

    async def _carry_out(self) -> None:
        try:
            await self._context.outside.until(lambda: self._context.group.is_up_to_date)
            pending, self._pending = self._pending, {}
            for request in pending.values():
                units = [unit for unit in self._plan(request) if self._assigned_work.is_assigned(unit)]
                log.info("restarting %s, as a user requested", listed(units))
                for unit in units:
                    self._on_restart(unit)
                    self._statuses.set(unit, TaskState.RESTARTING, has_version=False)
                self._assigned_work.restart(units)
        finally:
            self._is_under_way = False

    def _plan(self, request: RestartRequested) -> list[Unit]:
        statuses = self._context.statuses
        connector = statuses.connector(request.connector)
        if connector is None or not self._context.config.contains(request.connector):
            return []
        units: list[Unit] = []
        if not request.only_failed or connector.state is TaskState.FAILED:
            units.append(request.connector)
        if request.include_tasks:
            configured = self._context.config.tasks(request.connector)
            units.extend(
                task
                for task, status in statuses.tasks(request.connector).items()
                if task in configured and (not request.only_failed or status.state is TaskState.FAILED)
            )
        return units


def _planned(before: ConnectorStatus, plan: list[Unit]) -> ConnectorStatus:
    """Return the states with RESTARTING for every part that will restart."""
    connector = before.connector
    if before.name in plan:
        connector = ConnectorState(TaskState.RESTARTING.value, connector.worker_id, connector.version, connector.trace)
    tasks = [
        TaskStatus(task.id, TaskState.RESTARTING.value, task.worker_id, task.version, task.trace)
        if ConnectorTaskId(before.name, task.id) in plan
        else task
        for task in before.tasks
    ]
    return ConnectorStatus(before.name, connector, tasks, before.type)
