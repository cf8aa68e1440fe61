"""The ``Outside`` of a simulated worker: topics, group, connectors and tasks that take time and can fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from barnabas.connect.decide.backing_stores.config_records import ConfigRecord
from barnabas.connect.decide.backing_stores.status_records import StatusRecord
from barnabas.connect.decide.herder.outside import ConfigMap, TaskToStart
from barnabas.connect.decide.tasks.task_runtime import TaskFailed, TaskListener, TaskPaused, TaskRunning
from barnabas.connect.entities import ConfigInfos, ConnectorOffset, ConnectorOffsets
from barnabas.connect.errors import ConnectError
from barnabas.connect.identifiers import ConnectorTaskId, ConnectorType, TargetState
from barnabas.connect.run.herder_tasks import HerderTasks
from tests.simulation.connect.world import WALL_MS

if TYPE_CHECKING:
    from tests.simulation.connect.worker import SimulatedWorker

__all__ = ["GRACEFUL_STOP_MS", "SimulatedOutside"]

T = TypeVar("T")

GRACEFUL_STOP_MS = 5_000


class _Clock:
    def __init__(self, worker: SimulatedWorker) -> None:
        self._worker = worker

    def monotonic_ms(self) -> int:
        return int(self._worker.world.now_ms)

    def now_ms(self) -> int:
        return WALL_MS + int(self._worker.world.now_ms) + self._worker.wall_skew_ms


class SimulatedOutside(HerderTasks):
    def __init__(self, worker: SimulatedWorker) -> None:
        super().__init__(worker.world.loop, _Clock(worker), worker.world.failures.append)
        self._worker = worker
        self._world = worker.world
        self._checks = worker.cluster.checks
        self._listeners: dict[ConnectorTaskId, TaskListener] = {}
        self._unwritten: dict[bytes, list[bytes | None]] = {}
        """The statuses of each key that are not written yet, in their order."""

    def die(self) -> None:
        """End as after kill -9: all work stops, including any that a cancellation would start."""
        self._is_closed = True

    async def _answer(self, begin: Callable[[Callable[[], None], Callable[[str], None]], None]) -> None:
        """Call ``begin`` with the callbacks ``done`` and ``failed``; wait until one of them is called."""
        answer: asyncio.Future[None] = self._loop.create_future()

        def done() -> None:
            if not answer.done():
                answer.set_result(None)

        def failed(reason: str) -> None:
            if not answer.done():
                answer.set_exception(ConnectError(reason))

        begin(done, failed)
        await answer

    # -- topics

    async def write_configs(self, records: Sequence[ConfigRecord]) -> None:
        written = [(record.key, record.value) for record in records]
        await self.call(self._answer(lambda done, failed: self._worker.configs.write(written, done, failed)))

    async def read_configs_to_end(self, timeout_ms: int) -> None:
        await self.call(self._answer(lambda done, failed: self._worker.configs.read_to_end(timeout_ms, done, failed)))

    async def write_status(self, record: StatusRecord) -> None:
        """Queue the write of a status and return immediately; the writes of a key follow one another."""
        key, value = record
        unwritten = self._unwritten.setdefault(key, [])
        unwritten.append(value)
        if len(unwritten) == 1:
            self._write_first_status(key)
        await self.call(self._world.pause(0))

    def _write_first_status(self, key: bytes) -> None:
        unwritten = self._unwritten[key]

        def done() -> None:
            unwritten.pop(0)
            if unwritten and not self._worker.is_dead:
                self._write_first_status(key)

        def failed(_: str) -> None:
            self._worker.later(300, lambda: self._write_first_status(key))

        self._worker.statuses.write([(key, unwritten[0])], done, failed)

    # -- group

    async def rejoin_group(self, reason: str) -> None:
        self._worker.membership.request_rejoin(reason, self._world.now_ms)
        self._worker.drive_membership()
        self.state_changed()

    async def report_work_stopped(self, stop_id: int) -> None:
        self._worker.membership.work_stopped(stop_id, self._world.now_ms)
        self._worker.drive_membership()
        self.state_changed()

    async def report_configs_read(self, *, is_read: bool) -> None:
        if is_read:
            self._worker.membership.configs_read(self._world.now_ms)
        else:
            self._worker.membership.configs_unreadable(self._world.now_ms)
        self._worker.drive_membership()
        self.state_changed()

    # -- connectors

    async def start_connector(self, connector: str, config: ConfigMap, target_state: TargetState) -> None:
        self._checks.claimed(connector, self._worker.name, config)
        await self.call(self._world.pause(self._world.random.uniform(1, 50)))

    async def stop_connector(self, connector: str) -> None:
        await self.call(self._world.pause(self._stop_ms()))
        self._checks.released(connector, self._worker.name)

    async def set_connector_state(self, connector: str, target_state: TargetState) -> None:
        await self.call(self._world.pause(1))

    async def generate_task_configs(self, connector: str, config: ConfigMap, max_tasks: int) -> list[dict[str, str]]:
        await self.call(self._world.pause(self._world.random.uniform(1, 200)))
        return [{"stamp": str(config["stamp"]), "task": str(task)} for task in range(max_tasks)]

    # -- tasks

    async def start_task(self, start: TaskToStart, listener: TaskListener) -> None:
        task, random = start.task, self._world.random
        self._checks.claimed(task, self._worker.name, start.task_config)
        self._listeners[task] = listener
        if start.target_state is TargetState.PAUSED:
            self._happens(task, TaskPaused(task), 20)
        elif random.random() < self._worker.cluster.task_failure_rate:
            self._happens(task, TaskFailed(task, "the simulated task failed"), random.uniform(1, 3_000))
        else:
            self._happens(task, TaskRunning(task), random.uniform(1, 800))
        await self.call(self._world.pause(0))

    def _happens(self, task: ConnectorTaskId, event: TaskRunning | TaskPaused | TaskFailed, delay_ms: float) -> None:
        claim = self._checks.claim(task, self._worker.name)
        if claim is None:
            return
        claim.last_event = event  # A task's events are ordered, so this one cancels the pending ones.

        def happen() -> None:
            if self._checks.claim(task, self._worker.name) is not claim or claim.last_event is not event:
                return  # The task was stopped meanwhile, or a later event replaced this one.
            if isinstance(event, TaskFailed):
                self._checks.released(task, self._worker.name)
            self._listeners[task](event)

        self._worker.later(delay_ms, happen)

    async def stop_tasks(self, tasks: Sequence[ConnectorTaskId]) -> None:
        await self.call(self._world.pause(self._stop_ms()))
        for task in tasks:
            self._checks.released(task, self._worker.name)

    async def set_task_state(self, task: ConnectorTaskId, target_state: TargetState) -> None:
        event = TaskPaused(task) if target_state is TargetState.PAUSED else TaskRunning(task)
        self._happens(task, event, 30)
        await self.call(self._world.pause(0))

    def _stop_ms(self) -> float:
        random = self._world.random
        return random.uniform(1, 300) if random.random() < 0.9 else random.uniform(300, GRACEFUL_STOP_MS - 100)

    # -- others

    async def set_logger_level(self, namespace: str, level: str) -> None:
        raise NotImplementedError

    async def send_task_configs(self, leader_url: str, connector: str, configs: Sequence[ConfigMap]) -> None:
        await self.call(self._worker.cluster.send_task_configs(self._worker, leader_url, connector, configs))

    async def fence_producers(self, transactional_ids: Sequence[str]) -> None:
        raise NotImplementedError

    async def validate_config(self, config: ConfigMap) -> ConfigInfos:
        await self.call(self._world.pause(self._world.random.uniform(0, 30)))
        return ConfigInfos("", 0, [], [])

    async def read_offsets(self, connector: str, config: ConfigMap, type_: ConnectorType) -> ConnectorOffsets:
        raise NotImplementedError

    async def alter_offsets(
        self, connector: str, config: ConfigMap, type_: ConnectorType, offsets: Sequence[ConnectorOffset]
    ) -> str:
        raise NotImplementedError

    async def reset_offsets(self, connector: str, config: ConfigMap, type_: ConnectorType) -> str:
        raise NotImplementedError
