"""What the herder wants done. The worker does it; awaiting an effect in a procedure gives its result.

An effect that fails raises a ConnectError (or an OSError) in the procedure that awaits it. Everything that may take
long is an effect, so nothing here keeps the worker from answering heartbeats.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

from barnabas.connect.decide.backing_stores.config_records import ConfigRecord
from barnabas.connect.decide.backing_stores.status_records import StatusRecord
from barnabas.connect.entities import ConfigInfos, ConnectorOffset, ConnectorOffsets
from barnabas.connect.identifiers import ConnectorTaskId, ConnectorType, TargetState

__all__ = [
    "AlterOffsets",
    "ConfigMap",
    "Effect",
    "FenceProducers",
    "GenerateTaskConfigs",
    "ReadConfigsToEnd",
    "ReadOffsets",
    "RejoinGroup",
    "ReportConfigsRead",
    "ReportWorkStopped",
    "ResetOffsets",
    "SendTaskConfigs",
    "SetConnectorState",
    "SetLoggerLevel",
    "SetTaskState",
    "StartConnector",
    "StartTask",
    "StopConnector",
    "StopTasks",
    "ValidateConfig",
    "WriteConfigs",
    "WriteStatus",
]

T = TypeVar("T")

ConfigMap = Mapping[str, str | None]
"""A connector's or a task's settings as written, with references to secrets and not the secrets."""


class Effect(Generic[T]):
    """``await effect`` in a procedure: have it done and take its result."""

    __slots__ = ()

    def __await__(self) -> Generator[Self, Any, T]:
        result: T = yield self
        return result


# -- the topics


@dataclass(frozen=True, slots=True)
class WriteConfigs(Effect[None]):
    """Write records as one batch to the config topic; done when they are safe."""

    records: Sequence[ConfigRecord]


@dataclass(frozen=True, slots=True)
class ReadConfigsToEnd(Effect[None]):
    """Done when everything was replayed that was in the config topic at the time of asking."""

    timeout_ms: int


@dataclass(frozen=True, slots=True)
class WriteStatus(Effect[None]):
    """Write a status, again and again until it is safe or a newer one for its key is to be written.

    A worker writes statuses for a key in the order in which they were asked for.
    """

    record: StatusRecord


# -- the group


@dataclass(frozen=True, slots=True)
class RejoinGroup(Effect[None]):
    """Have the group rebalance, because there is something to be shared out anew."""

    reason: str


@dataclass(frozen=True, slots=True)
class ReportWorkStopped(Effect[None]):
    """Tell the membership that nothing runs any more of what it wanted stopped."""

    stop_id: int


@dataclass(frozen=True, slots=True)
class ReportConfigsRead(Effect[None]):
    """Tell the membership how far the config topic was read, or that this failed."""

    is_read: bool


# -- what runs here


@dataclass(frozen=True, slots=True)
class StartConnector(Effect[None]):
    """Done when it has started. After an error (StartFailed) nothing of it is left."""

    connector: str
    config: ConfigMap
    target_state: TargetState


@dataclass(frozen=True, slots=True)
class StopConnector(Effect[None]):
    """Done when it holds nothing any more. Never fails."""

    connector: str


@dataclass(frozen=True, slots=True)
class SetConnectorState(Effect[None]):
    """Pause, stop (without giving up its place) or start a connector that is here."""

    connector: str
    target_state: TargetState


@dataclass(frozen=True, slots=True)
class GenerateTaskConfigs(Effect[list[dict[str, str]]]):
    """Ask a running connector how its work is split. May ask the cluster which topics there are."""

    connector: str
    config: ConfigMap
    max_tasks: int


@dataclass(frozen=True, slots=True)
class StartTask(Effect[None]):
    """Begin to start; what becomes of it comes back as an event."""

    task: ConnectorTaskId
    connector_config: ConfigMap
    task_config: ConfigMap
    target_state: TargetState
    generation: int
    task_configs: Sequence[ConfigMap] = ()
    """Of all tasks of the connector, in their order: how the work is divided."""
    applied_config: ConfigMap | None = None
    """The settings of the connector from which these were made."""


@dataclass(frozen=True, slots=True)
class StopTasks(Effect[None]):
    """Done when each holds nothing any more. Never fails."""

    tasks: Sequence[ConnectorTaskId]


@dataclass(frozen=True, slots=True)
class SetTaskState(Effect[None]):
    """Pause or resume; what becomes of it comes back as an event."""

    task: ConnectorTaskId
    target_state: TargetState


@dataclass(frozen=True, slots=True)
class SetLoggerLevel(Effect[None]):
    """Change a level on this worker, as some worker told all of them (KIP-976)."""

    namespace: str
    level: str


# -- other workers and the cluster


@dataclass(frozen=True, slots=True)
class SendTaskConfigs(Effect[None]):
    """Have the leader publish task configs: a signed internal request (KIP-507)."""

    leader_url: str
    connector: str
    configs: Sequence[ConfigMap]


@dataclass(frozen=True, slots=True)
class FenceProducers(Effect[None]):
    """Make sure that no producer with one of these transactional ids writes any more (KIP-618)."""

    transactional_ids: Sequence[str]


@dataclass(frozen=True, slots=True)
class ValidateConfig(Effect[ConfigInfos]):
    config: ConfigMap


@dataclass(frozen=True, slots=True)
class ReadOffsets(Effect[ConnectorOffsets]):
    connector: str
    config: ConfigMap
    type: ConnectorType


@dataclass(frozen=True, slots=True)
class AlterOffsets(Effect[str]):
    """Its result is the sentence for the user (KIP-875)."""

    connector: str
    config: ConfigMap
    type: ConnectorType
    offsets: Sequence[ConnectorOffset]


@dataclass(frozen=True, slots=True)
class ResetOffsets(Effect[str]):
    connector: str
    config: ConfigMap
    type: ConnectorType
