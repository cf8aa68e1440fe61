"""One worker: the herder and the membership as they are, with everything around them simulated."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from barnabas.connect.decide.group.group_requests import GroupRequest
from barnabas.connect.decide.group.group_settings import GroupSettings
from barnabas.connect.decide.group.membership import DropConnections, Membership
from barnabas.connect.decide.herder.effects import (
    Effect,
    GenerateTaskConfigs,
    ReadConfigsToEnd,
    RejoinGroup,
    ReportConfigsRead,
    ReportWorkStopped,
    SendTaskConfigs,
    SetConnectorState,
    SetTaskState,
    StartConnector,
    StartTask,
    StopConnector,
    StopTasks,
    ValidateConfig,
    WriteConfigs,
    WriteStatus,
)
from barnabas.connect.decide.herder.herder import Herder
from barnabas.connect.decide.herder.herder_settings import HerderSettings, RestartBudget
from barnabas.connect.decide.herder.procedures import Call, Now
from barnabas.connect.decide.session_key import KeyRotation
from barnabas.connect.decide.tasks.task_runtime import TaskFailed, TaskPaused, TaskRunning
from barnabas.connect.entities import ConfigInfos
from barnabas.connect.errors import ConnectError
from barnabas.connect.identifiers import ConnectorTaskId, ConnectorType, TargetState
from tests.simulation.connect.world import WALL_MS

if TYPE_CHECKING:
    from tests.simulation.connect.cluster import SimulatedCluster

__all__ = ["KEY_TTL_MS", "SimulatedWorker"]

KEY_TTL_MS = 25_000
_GRACEFUL_STOP_MS = 5_000

Answer = Callable[[object, Exception | None], None]


class _Plugins:
    def connector_type(self, config: Mapping[str, str | None]) -> ConnectorType:
        return ConnectorType.SOURCE

    def connector_version(self, config: Mapping[str, str | None]) -> str | None:
        return "1.0"


class SimulatedWorker:
    def __init__(self, cluster: SimulatedCluster, name: str) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.name = name
        self.url = f"http://{name}:8083/"
        self.is_dead = False
        self.is_started = False
        self.wall_skew_ms = 0
        self._is_driving = False
        self._wake_at_ms = float("inf")
        self._pending: dict[Answer, None] = {}
        self._status_lanes: dict[bytes, list[tuple[int, bytes | None]]] = {}
        rotation = KeyRotation(
            algorithm="HmacSHA256", size=32, ttl_ms=KEY_TTL_MS, random_bytes=self.world.random.randbytes
        )
        settings = HerderSettings(
            worker_id=f"{name}:8083",
            url=self.url,
            group_id="workers",
            write_timeout_ms=10_000,
            restart_budget=RestartBudget(max_attempts=50, backoff_ms=500, backoff_max_ms=4_000, reset_ms=20_000),
        )
        self.herder = Herder(settings, _Plugins(), rotation, self._now())
        self.membership = Membership(
            GroupSettings(
                group_id="workers",
                url=self.url,
                protocol=cluster.protocol,
                rebalance_timeout_ms=20_000,
                worker_unsync_backoff_ms=10_000,
                scheduled_rebalance_max_delay_ms=cluster.max_delay_ms,
                task_shutdown_graceful_timeout_ms=_GRACEFUL_STOP_MS,
                reassign_immediately=cluster.reassigns_immediately,
            ),
            snapshot=lambda: self.herder.config,
        )
        self.configs = cluster.config_topic.open(name, self._config_received)
        self.statuses = cluster.status_topic.open(name, self._status_received)
        self._read_topics()

    # -- life

    def _read_topics(self) -> None:
        """As often as it takes, the config topic after the status topic."""

        def failed(_: str) -> None:
            self._later(500, self._read_topics)

        def statuses_read() -> None:
            if not self.is_dead:
                self.configs.read_to_end(5_000, self._begin, failed)

        self.statuses.read_to_end(5_000, statuses_read, failed)

    def _begin(self) -> None:
        if self.is_dead or self.is_started:
            return
        self.is_started = True
        self.herder.topics_read()
        self.membership.start(self.world.now_ms)
        self._poll()

    def _poll(self) -> None:
        """The loop is alive."""
        self.membership.poll(self.world.now_ms, "")
        self.drive()
        self._later(1_000, self._poll)

    def kill(self) -> None:
        """Nothing of it is left, and nobody is told."""
        self.is_dead = True
        self.cluster.config_topic.close(self.configs)
        self.cluster.status_topic.close(self.statuses)
        self.configs.is_closed = self.statuses.is_closed = True
        self.cluster.checks.released_all(self.name)
        self.herder.procedures.close_all()
        pending, self._pending = self._pending, {}
        for answer in pending:
            answer(None, ConnectionError("the worker has died"))

    def stop(self) -> None:
        """Stop gracefully, leave the group, and end."""

        def stopped(_: object, __: Exception | None) -> None:
            self.membership.leave("the worker stops", self.world.now_ms)
            self.drive()
            self._later(2_000, self.kill)

        self.request(lambda herder: herder.shut_down(), stopped)

    def request(self, steps: Callable[[Herder], Coroutine[Any, Any, object]], answer: Answer) -> None:
        """As a user over REST. ``answer`` hears of the end, also of that of the worker."""
        self._pending[answer] = None

        def done(value: object, error: Exception | None) -> None:
            if answer in self._pending:
                del self._pending[answer]
                self.world.after(self.world.delay_ms(), lambda: answer(value, error))

        self.herder.submit(steps(self.herder), done)
        self.drive()

    # -- the loop

    def _now(self) -> Now:
        return Now(self.world.now_ms, WALL_MS + int(self.world.now_ms) + self.wall_skew_ms)

    def _later(self, delay_ms: float, what: Callable[[], None]) -> None:
        self.world.after(delay_ms, lambda: None if self.is_dead else what())

    def drive(self) -> None:
        if self._is_driving or self.is_dead:
            return
        self._is_driving = True
        try:
            while True:
                calls = self.herder.run(self._now())
                for call in calls:
                    self._make(call)
                self.membership.tick(self.world.now_ms)
                outputs = self.membership.take()
                for output in outputs:
                    self._output(output)
                if not calls and not outputs:
                    break
        finally:
            self._is_driving = False
        self.cluster.checks.driven(self)
        due_ms = min(self.herder.next_due_ms or float("inf"), self.membership.next_due_ms)
        due_ms = max(due_ms, self.world.now_ms + 0.1)
        if due_ms < self._wake_at_ms:
            self._wake_at_ms = due_ms
            self._later(due_ms - self.world.now_ms, lambda: self._wake(due_ms))

    def _wake(self, due_ms: float) -> None:
        if self._wake_at_ms == due_ms:  # Otherwise it was wanted earlier, and has been.
            self._wake_at_ms = float("inf")
            self.drive()

    def _config_received(self, key: bytes, value: bytes | None, offset: int) -> None:
        self.herder.replay_config(key, value, offset)
        self.drive()

    def _status_received(self, key: bytes, value: bytes | None, offset: int) -> None:
        self.herder.replay_status(key, value)
        self.drive()

    def _output(self, output: object) -> None:
        if isinstance(output, GroupRequest):
            request_id = output.request_id

            def answered(response: Any) -> None:
                if not self.is_dead:
                    self.membership.answered(request_id, response, self.world.now_ms)
                    self.drive()

            def failed(why: str) -> None:
                if not self.is_dead:
                    self.membership.failed(request_id, why, self.world.now_ms)
                    self.drive()

            self.cluster.coordinator.send(self.name, output, answered, failed)
        elif not isinstance(output, DropConnections):
            self.herder.notice(
                output,  # type: ignore[arg-type]
                self.membership.owners,
                self.membership.member_urls,
                self._now(),
                are_all_members_ours=self.membership.are_all_members_ours,
            )

    # -- effects

    def _make(self, call: Call) -> None:
        getattr(self, f"_on_{type(call.effect).__name__}", self._on_other)(call.effect, _Outcome(self, call.call_id))

    def _on_other(self, effect: Effect[Any], outcome: _Outcome) -> None:
        outcome.done(None)

    def _on_WriteConfigs(self, effect: WriteConfigs, outcome: _Outcome) -> None:
        records = [(record.key, record.value) for record in effect.records]
        self.configs.write(records, lambda: outcome.done(None), outcome.failed)

    def _on_ReadConfigsToEnd(self, effect: ReadConfigsToEnd, outcome: _Outcome) -> None:
        self.configs.read_to_end(effect.timeout_ms, lambda: outcome.done(None), outcome.failed)

    def _on_WriteStatus(self, effect: WriteStatus, outcome: _Outcome) -> None:
        key, value = effect.record
        lane = self._status_lanes.setdefault(key, [])
        lane.append((0, value))
        if len(lane) == 1:
            self._write_status(key)
        outcome.done(None)

    def _write_status(self, key: bytes) -> None:
        lane = self._status_lanes[key]

        def done() -> None:
            lane.pop(0)
            if lane and not self.is_dead:
                self._write_status(key)

        def failed(_: str) -> None:
            self._later(300, lambda: self._write_status(key))

        self.statuses.write([(key, lane[0][1])], done, failed)

    def _on_RejoinGroup(self, effect: RejoinGroup, outcome: _Outcome) -> None:
        self.membership.request_rejoin(effect.reason, self.world.now_ms)
        outcome.done(None)

    def _on_ReportWorkStopped(self, effect: ReportWorkStopped, outcome: _Outcome) -> None:
        self.membership.work_stopped(effect.stop_id, self.world.now_ms)
        outcome.done(None)

    def _on_ReportConfigsRead(self, effect: ReportConfigsRead, outcome: _Outcome) -> None:
        if effect.is_read:
            self.membership.configs_read(self.world.now_ms)
        else:
            self.membership.configs_unreadable(self.world.now_ms)
        outcome.done(None)

    def _on_StartConnector(self, effect: StartConnector, outcome: _Outcome) -> None:
        self.cluster.checks.claimed(effect.connector, self.name, effect.config)
        outcome.done(None, self.world.random.uniform(1, 50))

    def _on_StopConnector(self, effect: StopConnector, outcome: _Outcome) -> None:
        def stopped() -> None:
            self.cluster.checks.released(effect.connector, self.name)
            outcome.done(None)

        self._later(self._stop_ms(), stopped)

    def _on_SetConnectorState(self, effect: SetConnectorState, outcome: _Outcome) -> None:
        outcome.done(None, 1)

    def _on_GenerateTaskConfigs(self, effect: GenerateTaskConfigs, outcome: _Outcome) -> None:
        configs = [{"stamp": str(effect.config["stamp"]), "task": str(task)} for task in range(effect.max_tasks)]
        outcome.done(configs, self.world.random.uniform(1, 200))

    def _on_StartTask(self, effect: StartTask, outcome: _Outcome) -> None:
        task = effect.task
        self.cluster.checks.claimed(task, self.name, effect.task_config)
        outcome.done(None)
        if effect.target_state is TargetState.PAUSED:
            self._task_event(task, TaskPaused(task), 20)
        elif self.world.random.random() < self.cluster.task_failure_rate:
            self._task_event(task, TaskFailed(task, "it broke"), self.world.random.uniform(1, 3_000))
        else:
            self._task_event(task, TaskRunning(task), self.world.random.uniform(1, 800))

    def _task_event(self, task: ConnectorTaskId, event: TaskRunning | TaskPaused | TaskFailed, delay_ms: float) -> None:
        claim = self.cluster.checks.claim(task, self.name)
        if claim is None:
            return
        claim.last_event = event  # What was on its way before does not come any more: a task's events have an order.

        def happen() -> None:
            if self.cluster.checks.claim(task, self.name) is not claim or claim.last_event is not event:
                return  # It was stopped meanwhile, or told something else.
            if isinstance(event, TaskFailed):
                self.cluster.checks.released(task, self.name)
            self.herder.task_event(event, self._now())
            self.drive()

        self._later(delay_ms, happen)

    def _on_StopTasks(self, effect: StopTasks, outcome: _Outcome) -> None:
        def stopped() -> None:
            for task in effect.tasks:
                self.cluster.checks.released(task, self.name)
            outcome.done(None)

        self._later(self._stop_ms(), stopped)

    def _on_SetTaskState(self, effect: SetTaskState, outcome: _Outcome) -> None:
        is_paused = effect.target_state is TargetState.PAUSED
        event = TaskPaused(effect.task) if is_paused else TaskRunning(effect.task)
        self._task_event(effect.task, event, 30)
        outcome.done(None)

    def _on_ValidateConfig(self, effect: ValidateConfig, outcome: _Outcome) -> None:
        outcome.done(ConfigInfos("", 0, [], []), self.world.random.uniform(0, 30))

    def _on_SendTaskConfigs(self, effect: SendTaskConfigs, outcome: _Outcome) -> None:
        self.cluster.send_task_configs(self, effect, outcome.done, outcome.fail)

    def _stop_ms(self) -> float:
        random = self.world.random
        return random.uniform(1, 300) if random.random() < 0.9 else random.uniform(300, _GRACEFUL_STOP_MS - 100)


class _Outcome:
    """Gives the result of an effect back, unless the worker has died."""

    def __init__(self, worker: SimulatedWorker, call_id: int) -> None:
        self._worker = worker
        self._call_id = call_id

    def done(self, value: object, delay_ms: float | None = None) -> None:
        if delay_ms is not None:
            self._worker._later(delay_ms, lambda: self.done(value))
        elif not self._worker.is_dead:
            self._worker.herder.procedures.returned(self._call_id, value)
            self._worker.drive()

    def failed(self, why: str) -> None:
        self.fail(ConnectError(why))

    def fail(self, error: Exception) -> None:
        if not self._worker.is_dead:
            self._worker.herder.procedures.raised(self._call_id, error)
            self._worker.drive()
