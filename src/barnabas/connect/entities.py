"""The objects of the REST API, as values. A class has the fields of its JSON object, in Kafka's order.

Encoded by msgspec: an absent ``trace`` or plugin's ``version`` is omitted, every other absent value is
``null``. This module depends on no HTTP, herder or plugin, so that all of them may use it.
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
    "ConnectorDetails",
    "ConnectorInfo",
    "ConnectorOffset",
    "ConnectorOffsets",
    "ConnectorState",
    "ConnectorStatus",
    "DeadLetter",
    "DeadLetters",
    "ErrorMessage",
    "History",
    "LastFailure",
    "LogLine",
    "LoggerLevel",
    "Message",
    "MissingWorker",
    "OffsetChange",
    "OffsetsPreview",
    "PastFailure",
    "PluginInfo",
    "ServerInfo",
    "TaskDetails",
    "TaskInfo",
    "TaskStatus",
    "WorkerHealth",
    "WorkerLoad",
    "WorkerLoads",
]


class ErrorMessage(msgspec.Struct, frozen=True):
    """The body of every error."""

    error_code: int
    message: str


class Message(msgspec.Struct, frozen=True):
    """The result of a change of offsets, in words."""

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
    """A connector as configured. ``config`` is as written: references to secrets are not resolved."""

    name: str
    config: dict[str, str | None]
    tasks: list[ConnectorTaskId]
    type: ConnectorType


class TaskInfo(msgspec.Struct, frozen=True):
    id: ConnectorTaskId
    config: dict[str, str | None]


class ConnectorState(msgspec.Struct, frozen=True, omit_defaults=True):
    """``state`` is a TaskState's value; ``trace`` is omitted unless something failed."""

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


class LastFailure(msgspec.Struct, frozen=True):
    """The last failure, while no batch has succeeded since. ``time`` in milliseconds since 1970; ``next`` is a sentence
    about what follows, or about what has happened since."""

    time: int
    reason: str
    restarts: int
    restarts_max: int
    next: str


class LastScaling(msgspec.Struct, frozen=True):
    """The last decision of autoscaling. ``time`` in milliseconds since 1970."""

    time: int
    tasks: int
    reason: str


class ConnectorDetails(ConnectorState, frozen=True, omit_defaults=True):
    """``waits_for``: topics of a sink that do not exist."""

    last_failure: LastFailure | None = None
    waits_for: tuple[str, ...] = ()
    dead_letter_topic: str = ""
    autoscaling: LastScaling | None = None


class TaskDetails(TaskStatus, frozen=True, omit_defaults=True):
    """Counts are since the task was created, on any of our workers."""

    last_failure: LastFailure | None = None
    skipped_records: int = 0
    dead_letters: int = 0


class ConnectorStatus(msgspec.Struct, frozen=True):
    """``tasks`` by id, except in the answer to a restart, where Kafka does not sort them."""

    name: str
    connector: ConnectorState
    tasks: list[TaskStatus]
    type: ConnectorType


class ActiveTopics(msgspec.Struct, frozen=True):
    """The topics that a connector has read or written since the last reset (KIP-558)."""

    connector: str
    topics: list[str]


class ConnectorOffset(msgspec.Struct, frozen=True):
    """One position (KIP-875). ``offset`` null deletes the position."""

    partition: dict[str, Any] | None = None
    offset: dict[str, Any] | None = None


class ConnectorOffsets(msgspec.Struct, frozen=True):
    offsets: list[ConnectorOffset]


class OffsetChange(msgspec.Struct, frozen=True):
    """What a row of a change of offsets would do. ``before`` and ``after`` are null without a position.

    ``again`` counts the records that a sink would read again, ``skipped`` those that it would never read. ``first`` and
    ``end`` are the offsets of the partition's first record and of its next one. These four are null for sources, and
    for a row with a ``problem``, which would be refused. ``note`` says what to expect.
    """

    partition: dict[str, Any] | None
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    again: int | None = None
    skipped: int | None = None
    first: int | None = None
    end: int | None = None
    note: str = ""
    problem: str = ""


class OffsetsPreview(msgspec.Struct, frozen=True):
    """``is_stopped``: only a stopped connector can be changed. ``is_refused``: a row has a problem."""

    changes: list[OffsetChange]
    is_stopped: bool
    is_refused: bool


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A record of a dead-letter topic. Long texts are cut; bytes that are not text are escaped.

    ``error`` has the headers ``__connect.errors.*`` without their prefix, ``headers`` the others. ``time`` in
    milliseconds since 1970.
    """

    partition: int
    offset: int
    time: int
    key: str | None
    value: str | None
    key_bytes: int
    value_bytes: int
    error: dict[str, str]
    headers: dict[str, str | None]


class DeadLetters(msgspec.Struct, frozen=True):
    """``total`` counts the records in the topic, of all its connectors; of them the last ``examined`` were read."""

    topic: str
    exists: bool = True
    total: int = 0
    examined: int = 0
    letters: list[DeadLetter] = []


class PastFailure(msgspec.Struct, frozen=True):
    """A failure of a task, or of the connector itself (``task`` is null). ``time`` in milliseconds since 1970."""

    time: int
    task: int | None
    worker_id: str
    reason: str


class MissingWorker(msgspec.Struct, frozen=True):
    """A worker of the group whose part of an answer is missing, and why."""

    worker_id: str
    reason: str


class History(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a connector in intervals of ``interval_ms``; null where no worker knows a figure. The first interval
    begins at ``begin``, in milliseconds since 1970.

    ``records`` are those of ended batches; ``lag`` is the highest of an interval; the others are counts.
    ``last_failures`` has the last one first. ``workers`` are those whose part is included.
    """

    connector: str
    begin: int
    interval_ms: int
    records: list[int | None]
    lag: list[int | None]
    failures: list[int]
    skipped_records: list[int]
    dead_letters: list[int]
    last_failures: list[PastFailure]
    workers: list[str]
    missing: list[MissingWorker] = []


class WorkerLoad(msgspec.Struct, frozen=True, kw_only=True):
    """A worker of the group with what it runs. ``started`` in milliseconds since 1970.

    ``records_per_second`` covers the last minute, and is null for a worker that keeps no history.
    """

    worker_id: str
    url: str
    version: str
    is_leader: bool
    started: int
    connectors: int
    tasks: int
    failed_tasks: int
    records_per_second: float | None


class WorkerLoads(msgspec.Struct, frozen=True):
    workers: list[WorkerLoad]
    missing: list[MissingWorker] = []


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
    """The validation result of one setting."""

    name: str
    value: str | None
    recommended_values: list[str | None]
    errors: list[str]
    visible: bool


class ConfigInfo(msgspec.Struct, frozen=True):
    """``definition`` is null for an undefined setting."""

    definition: ConfigKeyInfo | None
    value: ConfigValueInfo


class ConfigInfos(msgspec.Struct, frozen=True):
    """The answer to a validation. ``name`` is the connector's class as requested."""

    name: str
    error_count: int
    groups: list[str]
    configs: list[ConfigInfo]


class LogLine(msgspec.Struct, frozen=True):
    """``time`` in milliseconds since 1970; ``message`` with the trace, if any."""

    time: int
    level: str
    logger: str
    message: str


class LoggerLevel(msgspec.Struct, frozen=True):
    """``last_modified`` in milliseconds, null if the level has not changed since the start (KIP-976)."""

    level: str
    last_modified: int | None
