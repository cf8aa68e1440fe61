"""The records of the status topic: states of connectors and tasks, and topics that a connector has used (KIP-558).

Builders return (key, value); None deletes. Reading raises InvalidRecord with a text for the log. ``version`` is that of
the connector's class; workers before Kafka 4.1 don't write it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from barnabas.connect.decide.backing_stores.config_records import InvalidRecord, parse_task
from barnabas.connect.decide.backing_stores.internal_json import JsonValue, dump_json, encode_text, kind_of
from barnabas.connect.identifiers import ConnectorTaskId, TaskState

__all__ = [
    "ConnectorKey",
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

StatusRecord: TypeAlias = tuple[bytes, bytes | None]


@dataclass(frozen=True, slots=True)
class Status:
    """The status of a connector or task, as reported by its worker of that generation of the group."""

    state: TaskState
    worker_id: str
    generation: int
    trace: str | None = None
    version: str | None = None


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
        "trace": status.trace,
        "worker_id": status.worker_id,
        "generation": status.generation,
        "version": status.version,
    }
    return encode_text(key), dump_json(value)


# --- values


def parse_status(value: JsonValue) -> Status:
    fields = _object(value, "the value")
    state = fields.get("state")
    if not isinstance(state, str) or state not in TaskState.__members__:
        raise InvalidRecord(f"state must be one of {', '.join(TaskState)}, not {state!r}")
    return Status(
        TaskState[state],
        _text(fields, "worker_id"),
        _integer(fields, "generation"),
        _optional_text(fields, "trace"),
        _optional_text(fields, "version"),
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
