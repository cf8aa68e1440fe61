"""The work of this worker: it brings each connector and task to its desired state.

Other parts set the desired state (``want``); only this one starts and stops work. Each connector and task has at most
one coroutine at a time, which stops before it starts. So a new configuration never runs beside the old one, in any
order of events, and ``is_quiet`` returns whether all work for other workers has stopped.

Work that has ended on its own is started again only with another ``version``: a new configuration, a requested restart,
or an automatic one (``automatic_restarts``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from barnabas.connect.decide.herder.outside import ConfigMap, Outside, TaskToStart
from barnabas.connect.decide.tasks.task_runtime import TaskEvent, TaskFailed
from barnabas.connect.errors import ConnectError
from barnabas.connect.identifiers import ConnectorTaskId, TargetState

__all__ = ["Admission", "LocalWork", "StartFailed", "Unit", "Wanted", "WorkListener", "named"]

Unit = str | ConnectorTaskId
"""A connector by its name, or a task."""


def named(unit: Unit) -> str:
    return f"task {unit}" if isinstance(unit, ConnectorTaskId) else f"connector {unit}"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The desired state of a connector or task. A new ``version`` restarts it; a new state is passed to it."""

    version: tuple[int, ...]
    target_state: TargetState
    connector_config: ConfigMap
    task_config: ConfigMap | None = None
    task_configs: Sequence[ConfigMap] = ()
    applied_config: ConfigMap | None = None


@dataclass(slots=True)
class _Running:
    version: tuple[int, ...]
    target_state: TargetState


class WorkListener(Protocol):
    """Receives the results of the work, in order."""

    def unit_starting(self, unit: Unit) -> None: ...

    def connector_started(self, connector: str, state: TargetState) -> None: ...

    def connector_state_set(self, connector: str, state: TargetState) -> None: ...

    def connector_failed(self, connector: str, trace: str, *, retriable: bool) -> None: ...

    def unit_stopped(self, unit: Unit) -> None: ...

    def task_event(self, event: TaskEvent) -> None: ...


class StartFailed(ConnectError):
    """A connector did not start. ``trace`` is for the status."""

    def __init__(self, trace: str, *, retriable: bool) -> None:
        super().__init__(trace)
        self.trace = trace
        self.retriable = retriable


class Admission(Protocol):
    """Called before a task starts. It may wait, until the task must stop at the latest."""

    async def __call__(
        self, start: TaskToStart, *, task_generation: int, is_wanted: Callable[[], bool]
    ) -> TaskToStart: ...


class LocalWork:
    def __init__(self, outside: Outside, listener: WorkListener, admit: Admission) -> None:
        self._admit = admit
        self.generation = -1
        """The group's generation, passed to tasks when they start."""
        self._outside = outside
        self._listener = listener
        self._wanted: dict[Unit, Wanted] = {}
        self._running: dict[Unit, _Running] = {}
        self._ended: dict[Unit, tuple[int, ...]] = {}
        """Work that ended on its own, with its version."""
        self._failures: dict[Unit, str] = {}
        self._steered: set[Unit] = set()

    def is_running(self, unit: Unit) -> bool:
        """Return whether it holds resources: started and not known to have ended."""
        return unit in self._running

    def running(self) -> list[Unit]:
        return list(self._running)

    def is_steady(self, unit: Unit) -> bool:
        """Return whether it has reached its desired state, or has ended."""
        return unit not in self._steered

    def failure(self, unit: Unit) -> str | None:
        """Return why a connector did not start, if that was its last result."""
        return self._failures.get(unit)

    def want(self, wanted: Mapping[Unit, Wanted]) -> None:
        """Set everything that should run here from now on."""
        before, self._wanted = self._wanted, dict(wanted)
        self._ended = {unit: version for unit, version in self._ended.items() if unit in wanted}
        self._failures = {unit: trace for unit, trace in self._failures.items() if unit in wanted}
        for unit in dict.fromkeys((*before, *wanted, *self._running)):  # In a deterministic order.
            self._bring_about(unit)

    def is_quiet(self, units: Iterable[Unit] | None = None) -> bool:
        """Return whether none (of these) runs that should not."""
        units = self._running if units is None else units
        return not any(self._has_to_stop(unit) for unit in units)

    def ended(self, unit: Unit) -> bool:
        """Note that a task has ended on its own, or a connector has failed. Return False if that was known, or if it is
        being stopped: then its end must not prevent its next start."""
        if unit not in self._running or self._has_to_stop(unit):
            return False
        self._ended[unit] = self._running.pop(unit).version
        return True

    def give_up(self, unit: Unit) -> bool:
        """Stop work that runs but can't continue, and count that as an end. Return False if it does not run."""
        running = self._running.get(unit)
        if running is None:
            return False
        self._ended[unit] = running.version
        self._bring_about(unit)
        return True

    def _bring_about(self, unit: Unit) -> None:
        if unit not in self._steered and self._next_step(unit) is not None:
            self._steered.add(unit)
            self._outside.start(self._steer(unit))

    def _has_to_stop(self, unit: Unit) -> bool:
        running, wanted = self._running.get(unit), self._wanted.get(unit)
        if running is None:
            return False
        return wanted is None or wanted.version != running.version or self._ended.get(unit) == running.version

    def _next_step(self, unit: Unit) -> str | None:
        if self._has_to_stop(unit):
            return "stop"
        wanted = self._wanted.get(unit)
        running = self._running.get(unit)
        if wanted is None:
            return None
        if running is None:
            return "start" if self._ended.get(unit) != wanted.version else None
        return "set state" if running.target_state is not wanted.target_state else None

    async def _steer(self, unit: Unit) -> None:
        try:
            while (step := self._next_step(unit)) is not None:
                if step == "stop":
                    await self._stop(unit)
                elif step == "start":
                    await self._start(unit, self._wanted[unit])
                else:
                    await self._set_state(unit, self._wanted[unit].target_state)
        finally:
            self._steered.discard(unit)

    async def _stop(self, unit: Unit) -> None:
        if isinstance(unit, ConnectorTaskId):
            await self._outside.stop_tasks((unit,))
        else:
            await self._outside.stop_connector(unit)
        running = self._running.pop(unit, None)
        if running is not None and self._ended.get(unit) != running.version:
            self._listener.unit_stopped(unit)

    async def _start(self, unit: Unit, wanted: Wanted) -> None:
        self._ended.pop(unit, None)
        self._failures.pop(unit, None)
        self._running[unit] = _Running(wanted.version, wanted.target_state)
        self._listener.unit_starting(unit)
        if isinstance(unit, ConnectorTaskId):
            await self._start_task(unit, wanted)
            return
        try:
            await self._outside.start_connector(unit, wanted.connector_config, wanted.target_state)
        except StartFailed as failure:
            if self.ended(unit):
                self._failures[unit] = failure.trace
                self._listener.connector_failed(unit, failure.trace, retriable=failure.retriable)
        else:
            if unit in self._running:
                self._listener.connector_started(unit, wanted.target_state)

    async def _start_task(self, task: ConnectorTaskId, wanted: Wanted) -> None:
        described = TaskToStart(
            task,
            wanted.connector_config,
            wanted.task_config or {},
            wanted.target_state,
            self.generation,
            wanted.task_configs,
            wanted.applied_config,
        )

        def is_wanted() -> bool:
            return not self._has_to_stop(task)

        try:
            start = await self._admit(described, task_generation=wanted.version[0], is_wanted=is_wanted)
        except (ConnectError, OSError) as error:
            self._listener.task_event(TaskFailed(task, f"{type(error).__name__}: {error}"))
            return
        if is_wanted():
            await self._outside.start_task(start, self._listener.task_event)

    async def _set_state(self, unit: Unit, state: TargetState) -> None:
        self._running[unit].target_state = state
        if isinstance(unit, ConnectorTaskId):
            await self._outside.set_task_state(unit, state)
            return
        await self._outside.set_connector_state(unit, state)
        if unit in self._running:
            self._listener.connector_state_set(unit, state)
