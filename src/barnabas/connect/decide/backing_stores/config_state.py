"""Replay the config topic: records in, events and a snapshot of the group's configuration out.

Every worker replays the same records and must reach the same state, for records of any worker and version. So an
unreadable record is logged and changes nothing except the offset: the offset advances if the value was JSON, because
assignments compare offsets.

All tasks of a connector change at once. Configs of single tasks wait for a commit with their number n; then the tasks 0
to n-1 must all exist. If compaction has removed some, the connector is inconsistent: it has no tasks until a complete
set is committed. Tasks beyond n remain from an earlier, larger set and are ignored.

Restarts and logger levels are calls, not state: they apply only to a worker that had already read to the end of the
topic. Until then no events are returned.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from barnabas.connect.decide.backing_stores.config_records import (
    ConfigRecordKind,
    InvalidRecord,
    config_key,
    parse_logger_level,
    parse_properties,
    parse_restart,
    parse_session_key,
    parse_target_state,
    parse_task,
    parse_task_count,
)
from barnabas.connect.decide.backing_stores.internal_json import JsonValue, MalformedJson, parse_json
from barnabas.connect.identifiers import ConnectorTaskId, TargetState

if TYPE_CHECKING:
    from barnabas.connect.decide.session_key import SessionKey

__all__ = [
    "ClusterConfig",
    "ConfigEvent",
    "ConfigState",
    "ConnectorConfigChanged",
    "ConnectorRemoved",
    "LoggerLevelChanged",
    "Properties",
    "RestartRequested",
    "SessionKeyChanged",
    "TargetStateChanged",
    "TaskConfigsCommitted",
]

NO_OFFSET = -1
"""The offset of a topic without records."""

Properties: TypeAlias = Mapping[str, str | None]
"""The settings of a connector or task, as they are written: references to config providers are not resolved."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConnectorConfigChanged:
    """A connector is new, or its settings were written again, changed or not."""

    connector: str


@dataclass(frozen=True, slots=True)
class ConnectorRemoved:
    connector: str


@dataclass(frozen=True, slots=True)
class TaskConfigsCommitted:
    """``tasks`` have new configs, possibly the same as before; none if the set was incomplete or empty."""

    connector: str
    tasks: tuple[ConnectorTaskId, ...]


@dataclass(frozen=True, slots=True)
class TargetStateChanged:
    """Returned only when the state has changed."""

    connector: str
    state: TargetState


@dataclass(frozen=True, slots=True)
class SessionKeyChanged:
    key: SessionKey


@dataclass(frozen=True, slots=True)
class RestartRequested:
    """Restart a connector, or also its tasks, or only the failed parts (KIP-745)."""

    connector: str
    include_tasks: bool = False
    only_failed: bool = False

    @property
    def impact(self) -> int:
        """Of two waiting requests for one connector the one with the greater impact is carried out."""
        return (2 if self.include_tasks else 0) + (0 if self.only_failed else 1)


@dataclass(frozen=True, slots=True)
class LoggerLevelChanged:
    """``level`` is the text of the user (KIP-976); the reader checks whether such a level exists."""

    namespace: str
    level: str


ConfigEvent: TypeAlias = (
    ConnectorConfigChanged
    | ConnectorRemoved
    | TaskConfigsCommitted
    | TargetStateChanged
    | SessionKeyChanged
    | RestartRequested
    | LoggerLevelChanged
)


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """The configuration of the group at one offset of the config topic. Immutable.

    ``offset`` is that of the last record plus one, -1 before the first. ``task_counts`` has the last commits;
    ``task_count_records`` the last round of fencing (KIP-618), which is outdated for ``pending_fencing``.
    ``applied_configs`` are the connectors' settings at the time when their tasks were committed.
    """

    offset: int = NO_OFFSET
    session_key: SessionKey | None = None
    connector_configs: Mapping[str, Properties] = field(default_factory=dict)
    target_states: Mapping[str, TargetState] = field(default_factory=dict)
    task_counts: Mapping[str, int] = field(default_factory=dict)
    task_configs: Mapping[ConnectorTaskId, Properties] = field(default_factory=dict)
    task_config_generations: Mapping[str, int] = field(default_factory=dict)
    task_count_records: Mapping[str, int] = field(default_factory=dict)
    applied_configs: Mapping[str, Properties] = field(default_factory=dict)
    inconsistent: frozenset[str] = frozenset()
    pending_fencing: frozenset[str] = frozenset()

    def connectors(self) -> list[str]:
        """The names of the connectors."""
        return sorted(self.connector_configs)

    def contains(self, connector: str) -> bool:
        return connector in self.connector_configs

    def connector_config(self, connector: str) -> Properties | None:
        return self.connector_configs.get(connector)

    def target_state(self, connector: str) -> TargetState | None:
        """Return the state; None for a connector that does not exist."""
        return self.target_states.get(connector)

    def task_count(self, connector: str) -> int:
        return self.task_counts.get(connector, 0)

    def tasks(self, connector: str) -> tuple[ConnectorTaskId, ...]:
        """Return the tasks in order; none while the connector is inconsistent."""
        if connector in self.inconsistent:
            return ()
        return tuple(ConnectorTaskId(connector, number) for number in range(self.task_count(connector)))

    def task_config(self, task: ConnectorTaskId) -> Properties | None:
        return self.task_configs.get(task)

    def task_config_generation(self, connector: str) -> int | None:
        """Return how often its tasks were committed since this worker started; None if never."""
        return self.task_config_generations.get(connector)

    def applied_config(self, connector: str) -> Properties | None:
        return self.applied_configs.get(connector)

    def needs_fencing_round(self, connector: str) -> bool:
        """Return whether producers of earlier tasks may still run; they must be fenced before tasks start (KIP-618)."""
        before = self.task_count_records.get(connector)
        if connector not in self.pending_fencing or before is None:
            return False
        return not (before == 1 and self.task_count(connector) == 1)


class ConfigState:
    """``replay`` takes records in the order of the topic. ``start`` says that the end was reached once."""

    def __init__(self) -> None:
        self.is_started = False
        self._offset = NO_OFFSET
        self._session_key: SessionKey | None = None
        self._connector_configs: dict[str, Properties] = {}
        self._target_states: dict[str, TargetState] = {}
        self._task_counts: dict[str, int] = {}
        self._task_configs: dict[str, dict[int, Properties]] = {}
        self._generations: dict[str, int] = {}
        self._task_count_records: dict[str, int] = {}
        self._applied_configs: dict[str, Properties] = {}
        self._deferred: dict[str, dict[int, Properties]] = {}
        self._inconsistent: set[str] = set()
        self._pending_fencing: set[str] = set()
        self._snapshot: ClusterConfig | None = None
        self._replay_value: dict[ConfigRecordKind, Callable[[str, JsonValue], ConfigEvent | None]] = {
            ConfigRecordKind.TARGET_STATE: self._replay_target_state,
            ConfigRecordKind.CONNECTOR: self._replay_connector,
            ConfigRecordKind.TASK: self._replay_task,
            ConfigRecordKind.COMMIT: self._replay_commit,
            ConfigRecordKind.RESTART: self._replay_restart,
            ConfigRecordKind.TASK_COUNT: self._replay_task_count,
            ConfigRecordKind.SESSION_KEY: self._replay_session_key,
            ConfigRecordKind.LOGGER_LEVEL: self._replay_logger_level,
        }

    @property
    def offset(self) -> int:
        """The offset of the last record plus one."""
        return self._offset

    def start(self) -> None:
        """Return events from now on."""
        self.is_started = True

    def snapshot(self) -> ClusterConfig:
        """Return the present state: the same object as before if nothing was replayed since."""
        if self._snapshot is None:
            self._snapshot = ClusterConfig(
                offset=self._offset,
                session_key=self._session_key,
                connector_configs=dict(self._connector_configs),
                target_states=dict(self._target_states),
                task_counts=dict(self._task_counts),
                task_configs={
                    ConnectorTaskId(connector, number): config
                    for connector, configs in self._task_configs.items()
                    for number, config in configs.items()
                },
                task_config_generations=dict(self._generations),
                task_count_records=dict(self._task_count_records),
                applied_configs=dict(self._applied_configs),
                inconsistent=frozenset(self._inconsistent),
                pending_fencing=frozenset(self._pending_fencing),
            )
        return self._snapshot

    def replay(self, key: str | bytes | None, value: bytes | None, offset: int) -> list[ConfigEvent]:
        """Apply a record. Return the changes for workers that already run."""
        try:
            parsed = None if value is None else parse_json(value)
        except MalformedJson as error:
            log.error("record %d of the config topic is not JSON and was skipped: %s", offset, error)
            return []
        self._offset = offset + 1
        self._snapshot = None
        text = key.decode(errors="replace") if isinstance(key, bytes) else key
        found = None if text is None else config_key(text)
        if found is None:
            log.error("record %d of the config topic has an unknown key, and was skipped: %s", offset, text)
            return []
        try:
            event = self._replay_value[found.kind](found.name, parsed)
        except InvalidRecord as error:
            log.error("record %d of the config topic, %s, was ignored: %s", offset, text, error)
            return []
        return [event] if event is not None and self.is_started else []

    # --- connectors

    def _replay_connector(self, connector: str, value: JsonValue) -> ConfigEvent:
        if value is None:
            self._remove(connector)
            return ConnectorRemoved(connector)
        self._connector_configs[connector] = parse_properties(value)
        self._target_states.setdefault(connector, TargetState.STARTED)
        return ConnectorConfigChanged(connector)

    def _replay_target_state(self, connector: str, value: JsonValue) -> ConfigEvent | None:
        if value is None:
            # The deletion of a connector deletes both records: the other one reports it.
            if connector in self._connector_configs:
                self._target_states[connector] = TargetState.STARTED
            else:
                self._target_states.pop(connector, None)
            return None
        state = parse_target_state(value)
        if self._target_states.get(connector) is state:
            return None
        self._target_states[connector] = state
        return TargetStateChanged(connector, state)

    def _remove(self, connector: str) -> None:
        """Remove it. Its fencing and target state have records of their own, and outlive it."""
        for table in (
            self._connector_configs,
            self._task_counts,
            self._task_configs,
            self._deferred,
            self._applied_configs,
        ):
            table.pop(connector, None)

    # --- tasks

    def _replay_task(self, name: str, value: JsonValue) -> None:
        task = parse_task(name)
        if task is None:
            raise InvalidRecord("the key does not end with the number of a task")
        self._deferred.setdefault(task.connector, {})[task.task] = parse_properties(value)

    def _replay_commit(self, connector: str, value: JsonValue) -> ConfigEvent | None:
        config = self._connector_configs.get(connector)
        if config is None:
            # It was deleted, and compaction has kept only these records.
            self._remove(connector)
            return None
        count = parse_task_count(value, "tasks")
        deferred = self._deferred.pop(connector, {})
        tasks: tuple[ConnectorTaskId, ...] = ()
        if all(number in deferred for number in range(count)):
            self._task_configs.setdefault(connector, {}).update(deferred)
            self._generations[connector] = self._generations.get(connector, -1) + 1
            self._applied_configs[connector] = config
            self._inconsistent.discard(connector)
            tasks = tuple(ConnectorTaskId(connector, number) for number in sorted(deferred))
        else:
            self._inconsistent.add(connector)
        self._task_counts[connector] = count
        self._pending_fencing.add(connector)
        return TaskConfigsCommitted(connector, tasks)

    def _replay_task_count(self, connector: str, value: JsonValue) -> None:
        self._task_count_records[connector] = parse_task_count(value, "task-count")
        self._pending_fencing.discard(connector)

    # --- the group as a whole

    def _replay_session_key(self, _: str, value: JsonValue) -> ConfigEvent:
        self._session_key = parse_session_key(value)
        return SessionKeyChanged(self._session_key)

    def _replay_restart(self, connector: str, value: JsonValue) -> ConfigEvent | None:
        if not self.is_started:
            return None
        flags = parse_restart(value)
        for warning in flags.warnings:
            log.warning("a request to restart %s: %s", connector, warning)
        return RestartRequested(connector, flags.include_tasks, flags.only_failed)

    def _replay_logger_level(self, namespace: str, value: JsonValue) -> ConfigEvent | None:
        return LoggerLevelChanged(namespace, parse_logger_level(value)) if self.is_started else None
