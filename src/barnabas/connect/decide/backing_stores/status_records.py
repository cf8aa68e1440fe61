"""The records of the status topic: states of connectors and tasks, and topics that a connector has used (KIP-558).

Builders return (key, value); None deletes. Reading raises InvalidRecord with a text for the log. ``version`` is that of
the connector's class; workers before Kafka 4.1 don't write it.

What an owner must still see after the worker restarts or the task moves is in the field ``barnabas``, which Kafka's
workers ignore. It is omitted while it is empty, so that the record of healthy work is Kafka's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from barnabas.connect.decide.backing_stores.config_records import InvalidRecord, parse_task
from barnabas.connect.decide.backing_stores.internal_json import JsonValue, dump_json, encode_text, kind_of
from barnabas.connect.identifiers import ConnectorTaskId, TaskState

__all__ = [
    "ConnectorKey",
    "Failure",
    "Scaling",
    "Status",
    "StatusKey",
    "StatusRecord",
    "TaskKey",
    "TopicKey",
    "TopicStatus",
    "connector_status_record",
    "parse_status",
    "parse_topic_status",
    "status_key",
    "task_status_record",
    "topic_status_record",
    "topic_status_removal",
]

_CONNECTOR = "status-connector-"
_TASK = "status-task-"
_TOPIC = "status-topic-"
_TOPIC_SEPARATOR = ":connector-"
_OWN = "barnabas"

StatusRecord: TypeAlias = tuple[bytes, bytes | None]


@dataclass(frozen=True, slots=True)
class Failure:
    """The last failure of work that has not succeeded since."""

    trace: str
    failed_ms: int
    restarts: int
    """Automatic restarts so far, including one that is planned."""
    restarts_max: int
    next: str = ""
    """A sentence about what follows, or about what has happened since."""

    @property
    def text(self) -> str:
        return f"{self.trace.rstrip()}\n{self.next}".rstrip()

    @property
    def reason(self) -> str:
        """Return the first line with text of the trace; empty if it has none."""
        return next((line.strip() for line in self.trace.splitlines() if line.strip()), "")


@dataclass(frozen=True, slots=True)
class Scaling:
    """The last decision of autoscaling that an owner should see."""

    tasks: int
    reason: str
    decided_ms: int


@dataclass(frozen=True, slots=True)
class Status:
    """The status of a connector or task, as reported by its worker of that generation of the group.

    ``trace`` is that of another kind of worker; our own are in ``failure``.
    """

    state: TaskState
    worker_id: str
    generation: int
    trace: str | None = None
    version: str | None = None
    failure: Failure | None = None
    waits_for: tuple[str, ...] = ()
    """Topics of a sink that do not exist; a pattern without a topic is ``topics.regex=...``."""
    skipped_records: int = 0
    """Bad records of a task that were left out, since it was created."""
    dead_letters: int = 0
    """Those that were written to the dead-letter topic."""
    scaling: Scaling | None = None
    """For a connector with autoscaling."""

    @property
    def text(self) -> str | None:
        """The trace, as other kinds of workers read it."""
        return self.trace if self.failure is None else self.failure.text


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """``task`` is the first one that used the topic."""

    topic: str
    connector: str
    task: int
    discovered_ms: int


@dataclass(frozen=True, slots=True)
class ConnectorKey:
    connector: str


@dataclass(frozen=True, slots=True)
class TaskKey:
    task: ConnectorTaskId


@dataclass(frozen=True, slots=True)
class TopicKey:
    topic: str
    connector: str


StatusKey: TypeAlias = ConnectorKey | TaskKey | TopicKey


def status_key(key: str) -> StatusKey:
    """Parse the key. Raise InvalidRecord for a key that no worker of this version writes."""
    if key.startswith(_CONNECTOR):
        if len(key) > len(_CONNECTOR):
            return ConnectorKey(key[len(_CONNECTOR) :])
    elif key.startswith(_TASK):
        task = parse_task(key[len(_TASK) :])
        if task is not None:
            return TaskKey(task)
    elif key.startswith(_TOPIC):
        topic, colon, rest = key[len(_TOPIC) :].partition(":")  # No topic has a colon in its name.
        connector = (colon + rest).removeprefix(_TOPIC_SEPARATOR)
        if topic and connector and connector != colon + rest:
            return TopicKey(topic, connector)
    raise InvalidRecord("the key names no connector, task or topic")


# --- builders


def connector_status_record(connector: str, status: Status | None) -> StatusRecord:
    """Return the record. None and DESTROYED delete it."""
    return _record(_CONNECTOR + connector, status)


def task_status_record(task: ConnectorTaskId, status: Status | None) -> StatusRecord:
    """Return the record. None and DESTROYED delete it."""
    return _record(f"{_TASK}{task}", status)


def topic_status_record(status: TopicStatus) -> StatusRecord:
    value = {
        "topic": {
            "name": status.topic,
            "connector": status.connector,
            "task": status.task,
            "discoverTimestamp": status.discovered_ms,
        }
    }
    return _topic_key(status.topic, status.connector), dump_json(value)


def topic_status_removal(topic: str, connector: str) -> StatusRecord:
    return _topic_key(topic, connector), None


def _topic_key(topic: str, connector: str) -> bytes:
    return encode_text(f"{_TOPIC}{topic}{_TOPIC_SEPARATOR}{connector}")


def _record(key: str, status: Status | None) -> StatusRecord:
    if status is None or status.state is TaskState.DESTROYED:
        return encode_text(key), None
    value = {
        "state": status.state.value,
        "trace": status.text,
        "worker_id": status.worker_id,
        "generation": status.generation,
        "version": status.version,
    }
    own = _own_fields(status)
    return encode_text(key), dump_json({**value, _OWN: own} if own else value)


def _own_fields(status: Status) -> dict[str, JsonValue]:
    """Return the fields that only our workers write, without empty ones. The trace is beside them."""
    fields: dict[str, JsonValue] = {
        "waits_for": list(status.waits_for),
        "skipped_records": status.skipped_records,
        "dead_letters": status.dead_letters,
    }
    scaling, failure = status.scaling, status.failure
    if scaling is not None:
        fields["scaling"] = {"tasks": scaling.tasks, "reason": scaling.reason, "decided_ms": scaling.decided_ms}
    if failure is not None:
        fields["failure"] = {
            "failed_ms": failure.failed_ms,
            "restarts": failure.restarts,
            "restarts_max": failure.restarts_max,
            "next": failure.next,
        }
    return {name: value for name, value in fields.items() if value}


# --- values


def parse_status(value: JsonValue) -> Status:
    fields = _object(value, "the value")
    state = fields.get("state")
    if not isinstance(state, str) or state not in TaskState.__members__:
        raise InvalidRecord(f"state must be one of {', '.join(TaskState)}, not {state!r}")
    status = Status(
        TaskState[state],
        _text(fields, "worker_id"),
        _integer(fields, "generation"),
        _optional_text(fields, "trace"),
        _optional_text(fields, "version"),
    )
    try:
        return status if fields.get(_OWN) is None else _with_own_fields(status, _object(fields[_OWN], _OWN))
    except InvalidRecord:  # Of another version: the state itself is readable.
        return status


def _with_own_fields(status: Status, fields: dict[str, JsonValue]) -> Status:
    waits_for = fields.get("waits_for", [])
    if not isinstance(waits_for, list):
        raise InvalidRecord(f"waits_for must be a list, not {kind_of(waits_for)}")
    status = replace(
        status,
        waits_for=tuple(str(topic) for topic in waits_for),
        skipped_records=_integer({"skipped_records": 0, **fields}, "skipped_records"),
        dead_letters=_integer({"dead_letters": 0, **fields}, "dead_letters"),
        scaling=None if fields.get("scaling") is None else _scaling(_object(fields["scaling"], "scaling")),
    )
    if fields.get("failure") is None:
        return status
    return replace(status, trace=None, failure=_failure(status.trace or "", _object(fields["failure"], "failure")))


def _scaling(fields: dict[str, JsonValue]) -> Scaling:
    return Scaling(_integer(fields, "tasks"), _text(fields, "reason"), _integer(fields, "decided_ms"))


def _failure(text: str, fields: dict[str, JsonValue]) -> Failure:
    what_next = _optional_text(fields, "next") or ""
    return Failure(
        text.removesuffix(what_next).rstrip(),
        _integer(fields, "failed_ms"),
        _integer(fields, "restarts"),
        _integer(fields, "restarts_max"),
        what_next,
    )


def parse_topic_status(value: JsonValue) -> TopicStatus:
    fields = _object(_object(value, "the value").get("topic"), "topic")
    return TopicStatus(
        _text(fields, "name"),
        _text(fields, "connector"),
        _integer(fields, "task"),
        _integer(fields, "discoverTimestamp"),
    )


def _object(value: JsonValue, name: str) -> dict[str, JsonValue]:
    if not isinstance(value, dict):
        raise InvalidRecord(f"{name} must be an object, not {kind_of(value)}")
    return value


def _text(fields: dict[str, JsonValue], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise InvalidRecord(f"{name} must be a string, not {kind_of(value)}")
    return value


def _optional_text(fields: dict[str, JsonValue], name: str) -> str | None:
    return None if fields.get(name) is None else _text(fields, name)


def _integer(fields: dict[str, JsonValue], name: str) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidRecord(f"{name} must be an integer, not {kind_of(value)}")
    return value
