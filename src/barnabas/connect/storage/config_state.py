"""Replay the config topic: records in, events and a snapshot of the group's configuration out.

Every worker replays the same records and must come to the same state, whoever wrote them and in whatever version. So a
record that can't be understood changes nothing and is named in the log, but for one thing: its offset counts, if only
its value was JSON, because assignments compare offsets.

The tasks of a connector change all at once. Configs of single tasks wait until a commit names their number; then all
of 0 to n-1 must be there. Where compaction has eaten some, the connector is inconsistent: it has no tasks until a whole
set is committed. Tasks beyond n, of a time when there were more, don't matter.

Restarts and levels of loggers are calls, not state: they count only for who has come to the end of the topic before.
Until then there are no events at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import structlog

from barnabas.connect.identifiers import ConnectorTaskId, TargetState

if TYPE_CHECKING:
    from barnabas.connect.session_key import SessionKey

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
"""Of a topic without records."""

Properties: TypeAlias = Mapping[str, str | None]
"""The settings of a connector or task, as they are written: references to config providers are not resolved."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ConnectorConfigChanged:
    """A connector is new, or its settings were written again, be they others or not."""

    connector: str


@dataclass(frozen=True, slots=True)
class ConnectorRemoved:
    connector: str


@dataclass(frozen=True, slots=True)
class TaskConfigsCommitted:
    """``tasks`` have got configs, maybe the same as before; none if the set was incomplete or empty."""

    connector: str
    tasks: tuple[ConnectorTaskId, ...]


@dataclass(frozen=True, slots=True)
class TargetStateChanged:
    """Only told when it is another state than before."""

    connector: str
    state: TargetState


@dataclass(frozen=True, slots=True)
class SessionKeyChanged:
    key: SessionKey


@dataclass(frozen=True, slots=True)
class RestartRequested:
    """Restart a connector, or its tasks too, or only what has failed of them (KIP-745)."""

    connector: str
    include_tasks: bool = False
    only_failed: bool = False

    @property
    def impact(self) -> int:
        """Of two requests that wait for one connector the one with the greater impact is carried out."""
        return (2 if self.include_tasks else 0) + (0 if self.only_failed else 1)


@dataclass(frozen=True, slots=True)
class LoggerLevelChanged:
    """``level`` is what the user wrote (KIP-976); whether there is such a level is for the reader to know."""

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
    """What the group is configured to do, at one offset of the config topic. Never changed, so it may be kept.

    ``offset`` is that of the last record plus one, -1 before any. ``task_counts`` are what was committed last;
    ``task_count_records`` what the last round of fencing wrote (KIP-618), which ``pending_fencing`` says is outdated.
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
        """By name."""
        return sorted(self.connector_configs)

    def contains(self, connector: str) -> bool:
        return connector in self.connector_configs

    def connector_config(self, connector: str) -> Properties | None:
        return self.connector_configs.get(connector)

    def target_state(self, connector: str) -> TargetState | None:
        """None for a connector that is not there."""
        return self.target_states.get(connector)

    def task_count(self, connector: str) -> int:
        return self.task_counts.get(connector, 0)

    def tasks(self, connector: str) -> tuple[ConnectorTaskId, ...]:
        """In their order; none while the connector is inconsistent."""
        if connector in self.inconsistent:
            return ()
        return tuple(ConnectorTaskId(connector, number) for number in range(self.task_count(connector)))

    def task_config(self, task: ConnectorTaskId) -> Properties | None:
        return self.task_configs.get(task)

    def task_config_generation(self, connector: str) -> int | None:
        """How often its tasks were committed since this worker started; None if never."""
        return self.task_config_generations.get(connector)

    def applied_config(self, connector: str) -> Properties | None:
        return self.applied_configs.get(connector)

    def needs_fencing_round(self, connector: str) -> bool:
        """Whether producers of earlier tasks may live that must be fenced before the tasks start (KIP-618)."""
        before = self.task_count_records.get(connector)
        if connector not in self.pending_fencing or before is None:
            return False
        return not (before == 1 and self.task_count(connector) == 1)


class ConfigState:
    """``replay`` takes records in the order of the topic. ``start`` says that its end has been reached once."""

    def __init__(self) -> None:
        self.is_started = False

    def start(self) -> None:
        """From now on there are events."""
        self.is_started = True

    def snapshot(self) -> ClusterConfig:
        """The state now. The same object as before if nothing was replayed since."""
        raise NotImplementedError

    def replay(self, key: str | bytes | None, value: bytes | None, offset: int) -> list[ConfigEvent]:
        """Apply a record; what has changed for workers that run already."""
        raise NotImplementedError
