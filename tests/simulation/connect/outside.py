"""The ``Outside`` of a simulated worker: topics, group, connectors and tasks that take time and can fail."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from barnabas.connect.decide.backing_stores.config_records import ConfigRecord
from barnabas.connect.decide.backing_stores.status_records import StatusRecord
from barnabas.connect.decide.herder.outside import ConfigMap, TaskToStart
from barnabas.connect.decide.tasks.task_runtime import TaskFailed, TaskListener, TaskPaused, TaskRunning
from barnabas.connect.entities import ConfigInfos, ConnectorOffset, ConnectorOffsets, OffsetChange
from barnabas.connect.errors import ConnectError
from barnabas.connect.identifiers import ConnectorTaskId, ConnectorType, TargetState
from barnabas.connect.run.herder_tasks import HerderTasks
from tests.simulation.connect.checks import Claim
from tests.simulation.connect.producers import Producer
from tests.simulation.connect.world import WALL_MS

if TYPE_CHECKING:
    from tests.simulation.connect.worker import SimulatedWorker

__all__ = ["GRACEFUL_STOP_MS", "SimulatedOutside"]

T = TypeVar("T")

GRACEFUL_STOP_MS = 5_000
_LEADER = "connect-cluster-workers"


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
        self._producers: dict[ConnectorTaskId, Producer] = {}
        self._leader_epoch: int | None = None
        self._starting: dict[ConnectorTaskId, object] = {}
        """The claims of tasks whose producers are not initialised yet."""
        self._target_states: dict[ConnectorTaskId, TargetState] = {}

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

    async def claim_config_topic(self) -> None:
        await self.call(self._claim())

    async def _claim(self) -> None:
        self._leader_epoch = None
        await self._world.pause(self._world.delay_ms())
        if not self._world.reaches(self._worker.name, "brokers"):
            raise ConnectError("the transaction coordinator can't be reached")
        self._leader_epoch = self._worker.cluster.producers.init(_LEADER)
        await self._world.pause(self._world.delay_ms())

    async def write_configs_as_leader(self, records: Sequence[ConfigRecord]) -> None:
        epoch, producers = self._leader_epoch, self._worker.cluster.producers
        written = [(record.key, record.value) for record in records]

        def begin(done: Callable[[], None], failed: Callable[[str], None]) -> None:
            self._worker.configs.write(
                written, done, failed, is_allowed=lambda: epoch is not None and producers.is_newest(_LEADER, epoch)
            )

        await self.call(self._answer(begin))

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
        if start.transactional_id is not None:
            await self.call(self._start_transactional(start, listener))
            return
        self._checks.claimed(task, self._worker.name, start.task_config)
        self._listeners[task] = listener
        if start.target_state is TargetState.PAUSED:
            self._happens(task, TaskPaused(task), 20)
        elif random.random() < self._worker.cluster.task_failure_rate:
            self._happens(task, TaskFailed(task, "the simulated task failed"), random.uniform(1, 3_000))
        else:
            self._happens(task, TaskRunning(task), random.uniform(1, 800))
        await self.call(self._world.pause(0))

    async def _start_transactional(self, start: TaskToStart, listener: TaskListener) -> None:
        task, random = start.task, self._world.random
        self._checks.claimed(task, self._worker.name, start.task_config)
        self._listeners[task] = listener
        self._target_states[task] = start.target_state
        self._starting[task] = self._checks.claim(task, self._worker.name)
        self._worker.later(random.uniform(1, 500), lambda: self.start(self._initialize(start)))

    async def _initialize(self, start: TaskToStart) -> None:
        """Initialise the producer, confirm, write: the steps of a task's thread."""
        claim = self._checks.claim(start.task, self._worker.name)
        try:
            await self._initialize_claimed(start, claim)
        finally:
            if claim is not None and self._starting.get(start.task) is claim:
                del self._starting[start.task]

    async def _initialize_claimed(self, start: TaskToStart, claim: Claim | None) -> None:
        task, world = start.task, self._world
        if claim is None or not world.reaches(self._worker.name, "brokers"):
            self._happens(task, TaskFailed(task, "the coordinator can't be reached"), 1)
            return
        assert start.transactional_id is not None
        assert start.confirm is not None
        stamp = str(start.task_config["stamp"])
        producer = Producer(self._worker.cluster.producers, start.transactional_id, task.connector, stamp)
        await self.sleep(world.delay_ms())
        try:
            await start.confirm()
        except ConnectError as error:
            self._happens(task, TaskFailed(task, str(error)), 1)
            return
        if self._checks.claim(task, self._worker.name) is not claim:
            return  # It was stopped meanwhile.
        self._producers[task] = producer
        self._write(producer)
        if self._target_states[task] is TargetState.PAUSED:
            self._happens(task, TaskPaused(task), 1)
        elif world.random.random() < self._worker.cluster.task_failure_rate:
            self._happens(task, TaskFailed(task, "the simulated task failed"), world.random.uniform(1, 3_000))
        else:
            self._happens(task, TaskRunning(task), 1)

    def _write(self, producer: Producer) -> None:
        try:
            self._worker.cluster.producers.write(producer)
        except AssertionError as error:
            self._world.failures.append(error)

    def leave_zombies(self) -> None:
        """Records of running tasks are on their way when their worker is killed."""
        for task, producer in self._producers.items():
            if self._checks.claim(task, self._worker.name) is not None:
                for _ in range(10):
                    delay_ms = self._world.random.uniform(0, 25_000)
                    self._world.after(delay_ms, functools.partial(self._write, producer))

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
        self._target_states[task] = target_state
        if task in self._starting:
            await self.call(self._world.pause(0))
            return
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

    async def send_fence(self, leader_url: str, connector: str) -> None:
        await self.call(self._worker.cluster.send_fence(self._worker, leader_url, connector))

    async def fence_producers(self, connector: str, config: ConfigMap, transactional_ids: Sequence[str]) -> None:
        await self.call(self._fence(transactional_ids))

    async def _fence(self, transactional_ids: Sequence[str]) -> None:
        for transactional_id in transactional_ids:
            await self._world.pause(self._world.delay_ms())
            if not self._world.reaches(self._worker.name, "brokers"):
                raise ConnectError("the transaction coordinator can't be reached")
            self._worker.cluster.producers.init(transactional_id)

    async def validate_config(self, config: ConfigMap) -> ConfigInfos:
        await self.call(self._world.pause(self._world.random.uniform(0, 30)))
        return ConfigInfos("", 0, [], [])

    async def read_offsets(self, connector: str, config: ConfigMap, type_: ConnectorType) -> ConnectorOffsets:
        raise NotImplementedError

    async def preview_offsets(
        self, connector: str, config: ConfigMap, type_: ConnectorType, offsets: Sequence[ConnectorOffset]
    ) -> list[OffsetChange]:
        raise NotImplementedError

    async def alter_offsets(
        self, connector: str, config: ConfigMap, type_: ConnectorType, offsets: Sequence[ConnectorOffset]
    ) -> str:
        raise NotImplementedError

    async def reset_offsets(self, connector: str, config: ConfigMap, type_: ConnectorType) -> str:
        raise NotImplementedError
