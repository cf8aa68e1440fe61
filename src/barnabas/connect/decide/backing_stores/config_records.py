"""The records of the config topic, written and read as Kafka does.

Builders return (key, value); None deletes. ``config_key`` returns the kind of a key, by the first matching prefix in
Kafka's order. The ``parse_*`` functions check the values: each raises InvalidRecord with a text for the log.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from barnabas.connect.decide.backing_stores.internal_json import JsonValue, dump_json, encode_text, kind_of
from barnabas.connect.decide.session_key import SessionKey
from barnabas.connect.identifiers import ConnectorTaskId, TargetState

__all__ = [
    "SESSION_KEY",
    "ConfigKey",
    "ConfigRecord",
    "ConfigRecordKind",
    "InvalidRecord",
    "RestartFlags",
    "config_key",
    "connector_record",
    "connector_removal",
    "logger_level_record",
    "parse_logger_level",
    "parse_properties",
    "parse_restart",
    "parse_session_key",
    "parse_target_state",
    "parse_task",
    "parse_task_count",
    "restart_record",
    "session_key_record",
    "target_state_record",
    "task_commit_record",
    "task_count_record",
    "task_record",
]

SESSION_KEY = "session-key"
_INT_MAX = 2**31 - 1
_LONG_MAX = 2**63 - 1


class ConfigRecordKind(Enum):
    """The values are the prefixes of keys, in the order in which they are tried."""

    TARGET_STATE = "target-state-"
    CONNECTOR = "connector-"
    TASK = "task-"
    COMMIT = "commit-"
    RESTART = "restart-connector-"
    TASK_COUNT = "tasks-fencing-"
    SESSION_KEY = SESSION_KEY
    LOGGER_LEVEL = "logger-cluster-"


_PREFIXES = tuple((kind.value, kind) for kind in ConfigRecordKind)


class ConfigKey(NamedTuple):
    kind: ConfigRecordKind
    name: str
    """The name of the connector or the logger; for a task, with its number (see ``parse_task``)."""


class ConfigRecord(NamedTuple):
    key: bytes
    value: bytes | None


class RestartFlags(NamedTuple):
    """``warnings`` name the flags that are missing or not booleans, and are therefore false."""

    include_tasks: bool
    only_failed: bool
    warnings: tuple[str, ...]


class InvalidRecord(ValueError):
    """A record's value does not fit its key."""


# --- keys


def config_key(key: str) -> ConfigKey | None:
    """Return the kind and name; None for a key that no worker of this version writes."""
    for prefix, kind in _PREFIXES:
        if key.startswith(prefix):
            name = key[len(prefix) :]
            return None if name and kind is ConfigRecordKind.SESSION_KEY else ConfigKey(kind, name)
    return None


def parse_task(name: str) -> ConnectorTaskId | None:
    """Return the task of a key. Its number follows the last hyphen."""
    connector, _, number = name.rpartition("-")
    if not connector or not (number.isascii() and number.isdigit()) or int(number) > _INT_MAX:
        return None
    return ConnectorTaskId(connector, int(number))


# --- builders


def connector_record(connector: str, properties: Mapping[str, str | None]) -> ConfigRecord:
    return _record(f"connector-{connector}", {"properties": dict(properties)})


def connector_removal(connector: str) -> tuple[ConfigRecord, ConfigRecord]:
    """Return both records, in the order in which Kafka writes them."""
    return _record(f"connector-{connector}", None), _record(f"target-state-{connector}", None)


def task_record(task: ConnectorTaskId, properties: Mapping[str, str | None]) -> ConfigRecord:
    return _record(f"task-{task}", {"properties": dict(properties)})


def task_commit_record(connector: str, task_count: int) -> ConfigRecord:
    return _record(f"commit-{connector}", {"tasks": task_count})


def target_state_record(connector: str, state: TargetState) -> ConfigRecord:
    """Return the record. A worker without STOPPED (KIP-875) reads it as PAUSED."""
    legacy = TargetState.PAUSED if state is TargetState.STOPPED else state
    return _record(f"target-state-{connector}", {"state": legacy.value, "state.v2": state.value})


def task_count_record(connector: str, task_count: int) -> ConfigRecord:
    return _record(f"tasks-fencing-{connector}", {"task-count": task_count})


def session_key_record(key: SessionKey) -> ConfigRecord:
    encoded = base64.b64encode(key.key).decode()
    return _record(SESSION_KEY, {"key": encoded, "algorithm": key.algorithm, "creation-timestamp": key.created_ms})


def restart_record(connector: str, *, include_tasks: bool, only_failed: bool) -> ConfigRecord:
    return _record(f"restart-connector-{connector}", {"include-tasks": include_tasks, "only-failed": only_failed})


def logger_level_record(namespace: str, level: str) -> ConfigRecord:
    return _record(f"logger-cluster-{namespace}", {"level": level})


def _record(key: str, value: JsonValue) -> ConfigRecord:
    return ConfigRecord(encode_text(key), None if value is None else dump_json(value))


# --- values


def parse_properties(value: JsonValue) -> dict[str, str | None]:
    """Return the settings of a connector or a task. Numbers and booleans become text, as in the REST API."""
    properties = _object(value).get("properties")
    if not isinstance(properties, dict):
        raise InvalidRecord(f"properties must be an object, not {kind_of(properties)}")
    for name, setting in properties.items():
        if setting.__class__ is not str and not isinstance(setting, str | None):
            if isinstance(setting, dict | list):
                raise InvalidRecord(f"{name} among properties must be a string, not {kind_of(setting)}")
            properties[name] = dump_json(setting).decode()
    return properties


def parse_task_count(value: JsonValue, field: str) -> int:
    """Return ``tasks`` of a commit, or ``task-count`` of a fencing record."""
    count = _object(value).get(field)
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= _INT_MAX:
        raise InvalidRecord(f"{field} must be an integer from 0 on, not {_shown(count)}")
    return count


def parse_target_state(value: JsonValue) -> TargetState:
    """Return the state. ``state.v2`` takes precedence; a record of an older worker has only ``state``."""
    fields = _object(value)
    state = fields.get("state.v2")
    if not isinstance(state, str):
        state = fields.get("state")
    if not isinstance(state, str) or state not in TargetState.__members__:
        raise InvalidRecord(f"state must be one of {', '.join(TargetState)}, not {_shown(state)}")
    return TargetState[state]


def parse_session_key(value: JsonValue) -> SessionKey:
    """Return the key. The text of an error contains no part of a value that may be a key."""
    fields = _object(value)
    encoded, algorithm, created_ms = fields.get("key"), fields.get("algorithm"), fields.get("creation-timestamp")
    if not isinstance(encoded, str):
        raise InvalidRecord(f"key must be a string, not {kind_of(encoded)}")
    if not isinstance(algorithm, str):
        raise InvalidRecord(f"algorithm must be a string, not {kind_of(algorithm)}")
    if not isinstance(created_ms, int) or isinstance(created_ms, bool) or abs(created_ms) > _LONG_MAX:
        raise InvalidRecord(f"creation-timestamp must be an integer, not {kind_of(created_ms)}")
    padding = "" if encoded.endswith("=") else "=" * (-len(encoded) % 4)  # Java's decoder does not require it either.
    try:
        key = base64.b64decode(encoded + padding, validate=True)
    except ValueError:
        raise InvalidRecord("key is not base64") from None
    if not key:
        raise InvalidRecord("key is empty")
    return SessionKey(key, algorithm, created_ms)


def parse_restart(value: JsonValue) -> RestartFlags:
    fields = _object(value)
    warnings: list[str] = []
    flags: list[bool] = []
    for name in ("include-tasks", "only-failed"):
        flag = fields.get(name)
        if not isinstance(flag, bool):
            warnings.append(f"{name} must be a boolean, not {kind_of(flag)}: it is taken as false")
            flag = False
        flags.append(flag)
    return RestartFlags(flags[0], flags[1], tuple(warnings))


def parse_logger_level(value: JsonValue) -> str:
    level = _object(value).get("level")
    if not isinstance(level, str):
        raise InvalidRecord(f"level must be a string, not {kind_of(level)}")
    return level


def _object(value: JsonValue) -> dict[str, JsonValue]:
    if not isinstance(value, dict):
        raise InvalidRecord(f"the value must be an object, not {kind_of(value)}")
    return value


def _shown(value: JsonValue) -> str:
    return repr(value) if isinstance(value, int | str) and not isinstance(value, bool) else kind_of(value)
