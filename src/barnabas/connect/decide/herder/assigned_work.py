"""The work that this worker should run: its assignment, as the config topic describes it.

* An assignment names connectors and tasks; their settings and states are in the snapshot. Work that the snapshot does
  not (or no longer) have is not run.
* When new task configs of a connector are committed, its tasks stop on every worker before the group rebalances, and
  start again with it (``hold_tasks``): the new ones may divide the work differently, so none may run beside an old one.
* A stopped connector keeps its place but has no tasks; its former tasks stop immediately (KIP-875).
* ``restart`` creates another version of work that is already wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from barnabas.connect.decide.backing_stores.config_state import ClusterConfig
from barnabas.connect.decide.herder.local_work import LocalWork, Unit, Wanted
from barnabas.connect.identifiers import ConnectorTaskId, TargetState

__all__ = ["AssignedWork"]


class AssignedWork:
    def __init__(self, work: LocalWork, snapshot: Callable[[], ClusterConfig]) -> None:
        self._work = work
        self._snapshot = snapshot
        self._assigned: dict[Unit, None] = {}
        """Ordered, so that the same things happen in the same order everywhere."""
        self._held: set[ConnectorTaskId] = set()
        self._restarts: dict[Unit, int] = {}

    @property
    def assigned(self) -> frozenset[Unit]:
        return frozenset(self._assigned)

    def is_assigned(self, unit: Unit) -> bool:
        return unit in self._assigned

    def assign(self, units: Iterable[Unit], generation: int, *, is_outdated: bool = False) -> None:
        """Set the work of this worker after a rebalance.

        If it was decided on an older state of the config topic another rebalance follows, and tasks held for that one
        stay held.
        """
        self._assigned = dict.fromkeys(units)
        if not is_outdated:
            self._held.clear()
        self._restarts = {unit: count for unit, count in self._restarts.items() if unit in self._assigned}
        self._work.generation = generation
        self.refresh()

    def revoke(self, units: Iterable[Unit]) -> None:
        for unit in units:
            self._assigned.pop(unit, None)
        self.refresh()

    def hold_tasks(self, connector: str) -> None:
        """Stop its tasks until the next assignment."""
        self._held.update(
            unit for unit in self._assigned if isinstance(unit, ConnectorTaskId) and unit.connector == connector
        )
        self.refresh()

    def restart(self, units: Iterable[Unit]) -> None:
        for unit in units:
            self._restarts[unit] = self._restarts.get(unit, 0) + 1
        self.refresh()

    def refresh(self) -> None:
        """Update the work for a new snapshot."""
        config = self._snapshot()
        wanted = {}
        for unit in self._assigned:
            wanted_unit = (
                self._wanted_task(unit, config) if isinstance(unit, ConnectorTaskId) else self._wanted(unit, config)
            )
            if wanted_unit is not None:
                wanted[unit] = wanted_unit
        self._work.want(wanted)

    def _wanted(self, connector: str, config: ClusterConfig) -> Wanted | None:
        properties = config.connector_config(connector)
        if properties is None:
            return None
        state = config.target_state(connector) or TargetState.STARTED
        return Wanted((self._restarts.get(connector, 0),), state, properties)

    def _wanted_task(self, task: ConnectorTaskId, config: ClusterConfig) -> Wanted | None:
        connector_config, task_config = config.connector_config(task.connector), config.task_config(task)
        state = config.target_state(task.connector) or TargetState.STARTED
        if (
            connector_config is None
            or task_config is None
            or task in self._held
            or task not in config.tasks(task.connector)
            or state is TargetState.STOPPED
        ):
            return None
        version = (config.task_config_generation(task.connector) or 0, self._restarts.get(task, 0))
        task_configs = [config.task_config(other) or {} for other in config.tasks(task.connector)]
        applied_config = config.applied_config(task.connector)
        return Wanted(version, state, connector_config, task_config, task_configs, applied_config)
