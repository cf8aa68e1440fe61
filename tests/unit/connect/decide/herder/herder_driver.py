"""A herder with a hand on everything around it: the topics in memory, the group, what runs, and time."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from barnabas.connect.decide.backing_stores.config_records import (
    ConfigRecord,
    connector_record,
    task_commit_record,
    task_record,
)
from barnabas.connect.decide.group.connect_protocol import Assignment, ProtocolVersion
from barnabas.connect.decide.group.membership_events import Assigned
from barnabas.connect.decide.herder import effects
from barnabas.connect.decide.herder.effects import Effect
from barnabas.connect.decide.herder.herder import Herder
from barnabas.connect.decide.herder.herder_settings import HerderSettings, RestartBudget
from barnabas.connect.decide.herder.procedures import Call, Now
from barnabas.connect.decide.session_key import KeyRotation
from barnabas.connect.entities import ConfigInfo, ConfigInfos, ConfigValueInfo, ConnectorOffsets
from barnabas.connect.errors import ConnectError
from barnabas.connect.identifiers import ConnectorTaskId, ConnectorType

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


class HerderDriver:
    """Effects are made at once as far as ``_make`` knows them; ``refuse`` and ``hold`` change that."""

    def __init__(self, *, budget: RestartBudget | None = None) -> None:
        self.monotonic_ms = 0.0
        self.wall_ms = WALL_MS
        self.topic: list[ConfigRecord] = []
        self.statuses: dict[bytes, bytes | None] = {}
        self.made: list[Effect[Any]] = []
        self.held: list[Call] = []
        self.task_configs: Callable[[str, int], list[dict[str, str]]] = lambda name, count: [
            {"number": str(number)} for number in range(count)
        ]
        self.errors: list[str] = []
        """What validation finds."""
        self._refused: dict[type[Effect[Any]], Exception] = {}
        self._kept: set[type[Effect[Any]]] = set()
        self._generation = 0
        self._keys = 0
        settings = HerderSettings("here:8083", URL, "workers", restart_budget=budget or RestartBudget())
        rotation = KeyRotation(algorithm="HmacSHA256", size=32, ttl_ms=KEY_TTL_MS, random_bytes=self._random_bytes)
        self.herder = Herder(settings, Plugins(), rotation, self.now)

    def _random_bytes(self, count: int) -> bytes:
        self._keys += 1
        return bytes([self._keys]) * count

    # -- what a test does

    @property
    def now(self) -> Now:
        return Now(self.monotonic_ms, self.wall_ms)

    def refuse(self, kind: type[Effect[Any]], error: Exception | None = None) -> None:
        self._refused[kind] = error or ConnectError("refused")

    def allow(self, kind: type[Effect[Any]]) -> None:
        self._refused.pop(kind, None)

    def hold(self, kind: type[Effect[Any]]) -> None:
        """Effects of this kind wait in ``held`` until ``release``."""
        self._kept.add(kind)

    def release(self) -> None:
        held, self.held = self.held, []
        self._kept.clear()
        for call in held:
            self._make(call)
        self.run()

    def advance(self, by_ms: float) -> None:
        self.run()
        end_ms = self.monotonic_ms + by_ms
        while (due_ms := self.herder.next_due_ms) is not None and due_ms <= end_ms:
            self._set_time(max(due_ms, self.monotonic_ms))
            self.run()
        self._set_time(end_ms)
        self.run()

    def _set_time(self, monotonic_ms: float) -> None:
        self.wall_ms += int(monotonic_ms - self.monotonic_ms)
        self.monotonic_ms = monotonic_ms

    def run(self) -> None:
        while calls := self.herder.run(self.now):
            for call in calls:
                self.made.append(call.effect)
                if type(call.effect) in self._kept:
                    self.held.append(call)
                else:
                    self._make(call)

    def written(self, *records: ConfigRecord) -> None:
        """Somebody writes to the config topic."""
        for record in records:
            self.topic.append(record)
            self.herder.replay_config(record.key, record.value, len(self.topic) - 1)
        self.run()

    def member(
        self,
        *units: str | ConnectorTaskId,
        leads: bool = True,
        owners: Mapping[str | ConnectorTaskId, str] | None = None,
        members: Iterable[str] = (URL, OTHER_URL),
        protocol: ProtocolVersion = ProtocolVersion.SESSIONED,
    ) -> None:
        """A rebalance is over and gives this worker the units."""
        self._assign(self.herder.config.offset, units, leads, owners, members, protocol)

    def member_at(self, config_offset: int, *units: str | ConnectorTaskId) -> None:
        """A rebalance is over that was decided on an older state of the config topic."""
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
        self.herder.notice(notice, owned, members if leads else (), self.now)
        self.run()

    def ask(self, steps: Coroutine[Any, Any, T]) -> Answer:
        answer: Answer = Answer()
        self.herder.submit(steps, answer.done)
        self.run()
        return answer

    def all_made(self, kind: type[Effect[Any]]) -> list[Any]:
        return [effect for effect in self.made if isinstance(effect, kind)]

    def keys_written(self) -> list[str]:
        return [record.key.decode() for record in self.topic]

    # -- effects

    def _make(self, call: Call) -> None:
        effect = call.effect
        procedures = self.herder.procedures
        if type(effect) in self._refused:
            procedures.raised(call.call_id, self._refused[type(effect)])
            return
        value: object = None
        if isinstance(effect, effects.WriteConfigs):
            for record in effect.records:
                self.topic.append(record)
                self.herder.replay_config(record.key, record.value, len(self.topic) - 1)
        elif isinstance(effect, effects.WriteStatus):
            self.statuses[effect.record[0]] = effect.record[1]
            self.herder.replay_status(*effect.record)
        elif isinstance(effect, effects.GenerateTaskConfigs):
            value = self.task_configs(effect.connector, effect.max_tasks)
        elif isinstance(effect, effects.ValidateConfig):
            found = [ConfigInfo(None, ConfigValueInfo("x", None, [], [error], True)) for error in self.errors]
            value = ConfigInfos("", len(self.errors), [], found)
        elif isinstance(effect, effects.ReadOffsets):
            value = ConnectorOffsets([])
        elif isinstance(effect, effects.AlterOffsets | effects.ResetOffsets):
            value = "done"
        procedures.returned(call.call_id, value)


class Answer(list[Any]):
    """Of a request: empty until there is one."""

    def done(self, value: object, error: Exception | None) -> None:
        self[:] = [value, error]

    @property
    def is_there(self) -> bool:
        return bool(self)

    @property
    def value(self) -> Any:
        assert self, "no answer yet"
        assert self[1] is None, f"failed: {self[1]!r}"
        return self[0]

    @property
    def error(self) -> Exception:
        assert self, "no answer yet"
        assert isinstance(self[1], Exception), f"succeeded: {self[0]!r}"
        return self[1]


def started(*, leads: bool = True, budget: RestartBudget | None = None) -> HerderDriver:
    """A member of a group, without connectors."""
    driver = HerderDriver(budget=budget)
    driver.herder.topics_read()
    driver.member(leads=leads)
    return driver


def connector(driver: HerderDriver, name: str, tasks: int = 0, config: Mapping[str, str] = SOURCE) -> None:
    """A connector that is configured, with committed tasks."""
    driver.written(connector_record(name, {**config, "tasks.max": str(tasks)} if tasks else config))
    if tasks:
        commit(driver, name, tasks)


def commit(driver: HerderDriver, name: str, tasks: int) -> None:
    made = driver.task_configs(name, tasks)
    driver.written(*(task_record(ConnectorTaskId(name, number), each) for number, each in enumerate(made)))
    driver.written(task_commit_record(name, tasks))
