"""A herder whose environment the test controls: the topics in memory, the group, the running work, and time.

The loop is virtual; its time advances only when a test advances it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from barnabas.connect.decide.backing_stores.config_records import (
    ConfigRecord,
    connector_record,
    task_commit_record,
    task_record,
)
from barnabas.connect.decide.backing_stores.status_records import StatusRecord
from barnabas.connect.decide.group.connect_protocol import Assignment, ProtocolVersion
from barnabas.connect.decide.group.membership_events import Assigned
from barnabas.connect.decide.herder.herder import Herder
from barnabas.connect.decide.herder.herder_settings import ExactlyOnceSupport, HerderSettings, RestartBudget
from barnabas.connect.decide.herder.outside import ConfigMap, TaskToStart
from barnabas.connect.decide.history.connector_history import WorkerHistory
from barnabas.connect.decide.notices.failure_notice import FailureNotice
from barnabas.connect.decide.session_key import KeyRotation
from barnabas.connect.decide.tasks.task_runtime import TaskListener
from barnabas.connect.entities import (
    ConfigInfo,
    ConfigInfos,
    ConfigValueInfo,
    ConnectorOffset,
    ConnectorOffsets,
    OffsetChange,
)
from barnabas.connect.errors import ConnectError
from barnabas.connect.identifiers import ConnectorTaskId, ConnectorType, TargetState
from barnabas.connect.run.herder_tasks import HerderTasks
from tests.simulation.cluster.virtual_loop import VirtualLoop

T = TypeVar("T")

URL = "http://here:8083/"
OTHER_URL = "http://there:8083/"
WALL_MS = 1_800_000_000_000
KEY_TTL_MS = 3_600_000
SOURCE = {"connector.class": "Source", "tasks.max": "2"}
SINK = {"connector.class": "Sink", "tasks.max": "2"}


class Plugins:
    def connector_type(self, config: Mapping[str, str | None]) -> ConnectorType:
        return {"Source": ConnectorType.SOURCE, "Sink": ConnectorType.SINK}.get(
            config.get("connector.class") or "", ConnectorType.UNKNOWN
        )

    def connector_version(self, config: Mapping[str, str | None]) -> str | None:
        return "1.0"


class VirtualClock:
    """The clock of a virtual loop. It rounds, because the loop counts in seconds."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def monotonic_ms(self) -> int:
        return round(self._loop.now_s * 1000)

    def now_ms(self) -> int:
        return WALL_MS + self.monotonic_ms()


class Call:
    """A call to the outside: its name, and its arguments as attributes."""

    def __init__(self, method: str, arguments: Mapping[str, Any]) -> None:
        self.method = method
        self.__dict__.update(arguments)

    def __repr__(self) -> str:
        return f"Call({self.__dict__})"

    def __getattr__(self, name: str) -> Any:  # A missing attribute is a mistake in the test.
        raise AttributeError(f"{self.method} has no argument {name}")


class FakeOutside(HerderTasks):
    """Completes every call immediately; ``refuse`` and ``hold`` change that for single methods."""

    def __init__(self, loop: VirtualLoop, fail: Callable[[Exception], None]) -> None:
        super().__init__(loop, VirtualClock(loop), fail)
        self.topic: list[ConfigRecord] = []
        self.statuses: dict[bytes, bytes | None] = {}
        self.calls: list[Call] = []
        self.task_configs: Callable[[str, int], list[dict[str, str]]] = lambda name, count: [
            {"number": str(number)} for number in range(count)
        ]
        self.errors: list[str] = []
        """What validation finds."""
        self.refused: dict[str, Exception] = {}
        self.held: dict[str, asyncio.Future[None]] = {}
        self.replay_config: Callable[[bytes, bytes | None, int], None] = lambda key, value, offset: None
        self.replay_status: Callable[[bytes, bytes | None], None] = lambda key, value: None

    def append(self, records: Sequence[ConfigRecord]) -> None:
        for record in records:
            self.topic.append(record)
            self.replay_config(record.key, record.value, len(self.topic) - 1)

    async def _made(self, method: str, **arguments: Any) -> None:
        """Record the call, wait while calls of the method are held, and raise if they are refused."""
        self.calls.append(Call(method, arguments))
        await self.call(self._may_go_on(method))

    async def _may_go_on(self, method: str) -> None:
        if method in self.held:
            await self.held[method]
        if method in self.refused:
            raise self.refused[method]

    async def write_configs(self, records: Sequence[ConfigRecord]) -> None:
        await self._made("write_configs", records=records)
        self.append(records)

    async def claim_config_topic(self) -> None:
        await self._made("claim_config_topic")

    async def write_configs_as_leader(self, records: Sequence[ConfigRecord]) -> None:
        await self._made("write_configs_as_leader", records=records)
        self.append(records)

    async def read_configs_to_end(self, timeout_ms: int) -> None:
        await self._made("read_configs_to_end", timeout_ms=timeout_ms)

    async def write_status(self, record: StatusRecord) -> None:
        await self._made("write_status", record=record)
        self.statuses[record[0]] = record[1]
        self.replay_status(*record)

    async def rejoin_group(self, reason: str) -> None:
        await self._made("rejoin_group", reason=reason)

    async def report_work_stopped(self, stop_id: int) -> None:
        await self._made("report_work_stopped", stop_id=stop_id)

    async def report_configs_read(self, *, is_read: bool) -> None:
        await self._made("report_configs_read", is_read=is_read)

    async def start_connector(self, connector: str, config: ConfigMap, target_state: TargetState) -> None:
        await self._made("start_connector", connector=connector, config=config, target_state=target_state)

    async def stop_connector(self, connector: str) -> None:
        await self._made("stop_connector", connector=connector)

    async def set_connector_state(self, connector: str, target_state: TargetState) -> None:
        await self._made("set_connector_state", connector=connector, target_state=target_state)

    async def generate_task_configs(self, connector: str, config: ConfigMap, max_tasks: int) -> list[dict[str, str]]:
        await self._made("generate_task_configs", connector=connector, config=config, max_tasks=max_tasks)
        return self.task_configs(connector, max_tasks)

    async def start_task(self, start: TaskToStart, listener: TaskListener) -> None:
        await self._made("start_task", task=start.task, start=start, listener=listener)

    async def stop_tasks(self, tasks: Sequence[ConnectorTaskId]) -> None:
        await self._made("stop_tasks", tasks=tasks)

    async def set_task_state(self, task: ConnectorTaskId, target_state: TargetState) -> None:
        await self._made("set_task_state", task=task, target_state=target_state)

    async def set_logger_level(self, namespace: str, level: str) -> None:
        await self._made("set_logger_level", namespace=namespace, level=level)

    async def send_task_configs(self, leader_url: str, connector: str, configs: Sequence[ConfigMap]) -> None:
        await self._made("send_task_configs", leader_url=leader_url, connector=connector, configs=configs)

    async def send_fence(self, leader_url: str, connector: str) -> None:
        await self._made("send_fence", leader_url=leader_url, connector=connector)

    async def fence_producers(self, connector: str, config: ConfigMap, transactional_ids: Sequence[str]) -> None:
        await self._made("fence_producers", connector=connector, transactional_ids=transactional_ids)

    async def validate_config(self, config: ConfigMap) -> ConfigInfos:
        await self._made("validate_config", config=config)
        found = [ConfigInfo(None, ConfigValueInfo("x", None, [], [error], True)) for error in self.errors]
        return ConfigInfos("", len(self.errors), [], found)

    async def read_offsets(self, connector: str, config: ConfigMap, type_: ConnectorType) -> ConnectorOffsets:
        await self._made("read_offsets", connector=connector)
        return ConnectorOffsets([])

    async def preview_offsets(
        self, connector: str, config: ConfigMap, type_: ConnectorType, offsets: Sequence[ConnectorOffset]
    ) -> list[OffsetChange]:
        await self._made("preview_offsets", connector=connector, offsets=offsets)
        return [OffsetChange(row.partition, None, row.offset) for row in offsets]

    async def alter_offsets(
        self, connector: str, config: ConfigMap, type_: ConnectorType, offsets: Sequence[ConnectorOffset]
    ) -> str:
        await self._made("alter_offsets", connector=connector, type_=type_, offsets=offsets)
        return "done"

    async def reset_offsets(self, connector: str, config: ConfigMap, type_: ConnectorType) -> str:
        await self._made("reset_offsets", connector=connector, type_=type_)
        return "done"


class Notices(list[FailureNotice]):
    """Notes the failures and recoveries of which the herder gives notice."""

    def notice(self, notice: FailureNotice) -> None:
        self.append(notice)

    def skipped(self, task: ConnectorTaskId, records: int, dead_letters: int, at_ms: int) -> None:
        pass


class HerderDriver:
    """Actions of a test. Each method returns after everything that needs no time has happened."""

    def __init__(
        self,
        *,
        budget: RestartBudget | None = None,
        exactly_once: ExactlyOnceSupport = ExactlyOnceSupport.DISABLED,
    ) -> None:
        self._loop = VirtualLoop()
        self._generation = 0
        self._keys = 0
        self._failures: list[Exception] = []
        self.outside = FakeOutside(self._loop, self._failures.append)
        settings = HerderSettings(
            "here:8083", URL, "workers", restart_budget=budget or RestartBudget(), exactly_once=exactly_once
        )
        rotation = KeyRotation(algorithm="HmacSHA256", size=32, ttl_ms=KEY_TTL_MS, random_bytes=self._random_bytes)
        self.notices = Notices()
        self.history = WorkerHistory("here:8083")
        self.herder = Herder(settings, Plugins(), rotation, self.outside, [self.notices, self.history])
        self.outside.replay_config = self.herder.replay_config
        self.outside.replay_status = self.herder.replay_status
        self.topic = self.outside.topic
        self.statuses = self.outside.statuses
        self.calls = self.outside.calls

    def _random_bytes(self, count: int) -> bytes:
        self._keys += 1
        return bytes([self._keys]) * count

    @property
    def monotonic_ms(self) -> float:
        return self.outside.monotonic_ms()

    def refuse(self, method: str, error: Exception | None = None) -> None:
        self.outside.refused[method] = error or ConnectError("refused")

    def allow(self, method: str) -> None:
        self.outside.refused.pop(method, None)

    def hold(self, method: str) -> None:
        """Calls of this method wait until ``release``."""
        self.outside.held[method] = self._loop.create_future()

    def release(self) -> None:
        held, self.outside.held = self.outside.held, {}
        for future in held.values():
            future.set_result(None)
        self.run()

    def advance(self, by_ms: float) -> None:
        self._run_until_ms(self.monotonic_ms + by_ms)

    def run(self) -> None:
        self._run_until_ms(self.monotonic_ms)

    def _run_until_ms(self, end_ms: float) -> None:
        self._loop.run_until(end_ms / 1000 + 1e-6)  # Sums of seconds are not exact.
        self._loop.now_s = end_ms / 1000
        if self._failures:
            raise self._failures[0]

    def written(self, *records: ConfigRecord) -> None:
        """Another worker writes to the config topic."""
        self.outside.append(records)
        self.run()

    def member(
        self,
        *units: str | ConnectorTaskId,
        leads: bool = True,
        owners: Mapping[str | ConnectorTaskId, str] | None = None,
        members: Iterable[str] = (URL, OTHER_URL),
        protocol: ProtocolVersion = ProtocolVersion.SESSIONED,
    ) -> None:
        """Complete a rebalance that assigns the units to this worker."""
        self._assign(self.herder.config.offset, units, leads, owners, members, protocol)

    def member_at(self, config_offset: int, *units: str | ConnectorTaskId) -> None:
        """Complete a rebalance that was decided on an older state of the config topic."""
        self._assign(config_offset, units, True, None, (URL, OTHER_URL), ProtocolVersion.SESSIONED)

    def _assign(
        self,
        config_offset: int,
        units: tuple[str | ConnectorTaskId, ...],
        leads: bool,
        owners: Mapping[str | ConnectorTaskId, str] | None,
        members: Iterable[str],
        protocol: ProtocolVersion,
    ) -> None:
        self._generation += 1
        leader, url = ("me", URL) if leads else ("other", OTHER_URL)
        assignment = Assignment(
            leader=leader,
            leader_url=url,
            config_offset=config_offset,
            connectors=tuple(unit for unit in units if isinstance(unit, str)),
            tasks=tuple(unit for unit in units if isinstance(unit, ConnectorTaskId)),
        )
        owned = {**dict.fromkeys(units, URL), **(owners or {})} if leads else {}
        notice = Assigned(assignment, (), (), self._generation, "me", leads, protocol)
        self.herder.notice(notice, owned, members if leads else ())
        self.run()

    def request(self, steps: Coroutine[Any, Any, T]) -> Answer:
        answer = Answer(self._loop.create_task(steps))
        self.run()
        return answer

    def calls_of(self, method: str) -> list[Call]:
        return [call for call in self.calls if call.method == method]

    def keys_written(self) -> list[str]:
        return [record.key.decode() for record in self.topic]


class Answer:
    """The answer to a request; empty until it arrives."""

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self.task = task

    @property
    def has_arrived(self) -> bool:
        return self.task.done()

    @property
    def value(self) -> Any:
        assert self.task.done(), "no answer yet"
        assert self.task.exception() is None, f"failed: {self.task.exception()!r}"
        return self.task.result()

    @property
    def error(self) -> Exception:
        assert self.task.done(), "no answer yet"
        error = self.task.exception()
        assert isinstance(error, Exception), f"succeeded: {self.task.result()!r}"
        return error


def started(
    *,
    leads: bool = True,
    budget: RestartBudget | None = None,
    exactly_once: ExactlyOnceSupport = ExactlyOnceSupport.DISABLED,
) -> HerderDriver:
    """Return a driver that is a member of a group, without connectors."""
    driver = HerderDriver(budget=budget, exactly_once=exactly_once)
    driver.herder.topics_read()
    driver.member(leads=leads)
    return driver


def connector(driver: HerderDriver, name: str, tasks: int = 0, config: Mapping[str, str] = SOURCE) -> None:
    """Configure a connector with committed tasks."""
    driver.written(connector_record(name, {**config, "tasks.max": str(tasks)} if tasks else config))
    if tasks:
        commit(driver, name, tasks)


def commit(driver: HerderDriver, name: str, tasks: int) -> None:
    configs = driver.outside.task_configs(name, tasks)
    driver.written(*(task_record(ConnectorTaskId(name, number), config) for number, config in enumerate(configs)))
    driver.written(task_commit_record(name, tasks))
