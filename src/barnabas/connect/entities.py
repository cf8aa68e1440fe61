"""What the REST API shows, as values. A class here has the fields of its JSON object, in Kafka's order.

Encoded by msgspec: ``trace`` and a plugin's ``version`` are left out where there is none, every other absent value is
``null``. Nothing in here knows HTTP, a herder or a plugin, so that all of them may use it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from barnabas.connect.identifiers import ConnectorTaskId, ConnectorType

__all__ = [
    "ActiveTopics",
    "ConfigInfo",
    "ConfigInfos",
    "ConfigKeyInfo",
    "ConfigValueInfo",
    "ConnectorInfo",
    "ConnectorOffset",
    "ConnectorOffsets",
    "ConnectorState",
    "ConnectorStatus",
    "ErrorMessage",
    "LogLine",
    "LoggerLevel",
    "Message",
    "PluginInfo",
    "ServerInfo",
    "TaskInfo",
    "TaskStatus",
    "WorkerHealth",
]


class ErrorMessage(msgspec.Struct, frozen=True):
    """The body of every answer that is an error."""

    error_code: int
    message: str


class Message(msgspec.Struct, frozen=True):
    """What became of a change of offsets, in words."""

    message: str


class ServerInfo(msgspec.Struct, frozen=True):
    version: str
    commit: str
    kafka_cluster_id: str


class WorkerHealth(msgspec.Struct, frozen=True):
    """``status`` is healthy, starting or unhealthy (KIP-1017)."""

    status: str
    message: str


class ConnectorInfo(msgspec.Struct, frozen=True):
    """A connector as configured. ``config`` is as it was written: references to secrets are not resolved."""

    name: str
    config: dict[str, str | None]
    tasks: list[ConnectorTaskId]
    type: ConnectorType


class TaskInfo(msgspec.Struct, frozen=True):
    id: ConnectorTaskId
    config: dict[str, str | None]


class ConnectorState(msgspec.Struct, frozen=True, omit_defaults=True):
    """``state`` is a TaskState's value; ``trace`` is empty unless something failed, and is then not shown."""

    state: str
    worker_id: str
    version: str | None
    trace: str = ""


class TaskStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    id: int
    state: str
    worker_id: str
    version: str | None
    trace: str = ""


class ConnectorStatus(msgspec.Struct, frozen=True):
    """``tasks`` by id, except in the answer to a restart, where Kafka leaves them as they come."""

    name: str
    connector: ConnectorState
    tasks: list[TaskStatus]
    type: ConnectorType


class ActiveTopics(msgspec.Struct, frozen=True):
    """The topics that a connector has read or written since the last reset (KIP-558)."""

    connector: str
    topics: list[str]


class ConnectorOffset(msgspec.Struct, frozen=True):
    """One position (KIP-875). ``offset`` null asks for this partition to be forgotten."""

    partition: dict[str, Any] | None = None
    offset: dict[str, Any] | None = None


class ConnectorOffsets(msgspec.Struct, frozen=True):
    offsets: list[ConnectorOffset]


class PluginInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """``type`` is sink, source, converter, header_converter, transformation or predicate (KIP-769)."""

    class_name: str = msgspec.field(name="class")
    type: str
    version: str | None = None


class ConfigKeyInfo(msgspec.Struct, frozen=True):
    """A setting as its plugin defines it."""

    name: str
    type: str
    required: bool
    default_value: str | None
    importance: str
    documentation: str
    group: str | None
    order_in_group: int
    width: str
    display_name: str
    dependents: list[str]


class ConfigValueInfo(msgspec.Struct, frozen=True):
    """What validation says of one setting."""

    name: str
    value: str | None
    recommended_values: list[str | None]
    errors: list[str]
    visible: bool


class ConfigInfo(msgspec.Struct, frozen=True):
    """``definition`` is null for a setting that nobody defines."""

    definition: ConfigKeyInfo | None
    value: ConfigValueInfo


class ConfigInfos(msgspec.Struct, frozen=True):
    """The answer to a validation. ``name`` is the connector's class as it was given."""

    name: str
    error_count: int
    groups: list[str]
    configs: list[ConfigInfo]


class LogLine(msgspec.Struct, frozen=True):
    """``time`` in milliseconds since 1970; ``message`` with the trace, if there is one."""

    time: int
    level: str
    logger: str
    message: str


class LoggerLevel(msgspec.Struct, frozen=True):
    """``last_modified`` in milliseconds, null if nobody has changed the level since the start (KIP-976)."""

    level: str
    last_modified: int | None
