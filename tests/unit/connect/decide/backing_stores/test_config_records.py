"""Records written by two real workers are decoded, and encoded again to the same bytes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from barnabas.connect.decide.backing_stores import config_records as records
from barnabas.connect.decide.backing_stores.config_records import ConfigRecord, ConfigRecordKind, InvalidRecord
from barnabas.connect.decide.backing_stores.internal_json import JsonValue, UnwritableJson, parse_json
from barnabas.connect.decide.session_key import SessionKey
from barnabas.connect.identifiers import ConnectorTaskId, TargetState

TOPICS = Path(__file__).parents[4] / "vectors" / "connect" / "topics.jsonl.gz"


def recorded(topic: str) -> list[dict[str, Any]]:
    with gzip.open(TOPICS, "rt") as lines:
        return [entry for entry in map(json.loads, lines) if entry["topic"] == topic]


def rebuilt(key: str, value: bytes | None) -> ConfigRecord:
    found = records.config_key(key)
    assert found is not None
    if value is None:
        return next(record for record in records.connector_removal(found.name) if record.key == key.encode())
    parsed = parse_json(value)
    match found.kind:
        case ConfigRecordKind.CONNECTOR:
            return records.connector_record(found.name, records.parse_properties(parsed))
        case ConfigRecordKind.TASK:
            task = records.parse_task(found.name)
            assert task is not None
            return records.task_record(task, records.parse_properties(parsed))
        case ConfigRecordKind.COMMIT:
            return records.task_commit_record(found.name, records.parse_task_count(parsed, "tasks"))
        case ConfigRecordKind.TARGET_STATE:
            return records.target_state_record(found.name, records.parse_target_state(parsed))
        case ConfigRecordKind.TASK_COUNT:
            return records.task_count_record(found.name, records.parse_task_count(parsed, "task-count"))
        case ConfigRecordKind.SESSION_KEY:
            return records.session_key_record(records.parse_session_key(parsed))
        case ConfigRecordKind.RESTART:
            flags = records.parse_restart(parsed)
            return records.restart_record(found.name, include_tasks=flags.include_tasks, only_failed=flags.only_failed)
        case ConfigRecordKind.LOGGER_LEVEL:
            return records.logger_level_record(found.name, records.parse_logger_level(parsed))


def test_every_record_of_real_workers_is_written_again_to_the_same_bytes() -> None:
    entries = recorded("cc-configs")
    kinds = set()
    for entry in entries:
        value = None if entry["value"] is None else entry["value"].encode()
        assert rebuilt(entry["key"], value) == (entry["key"].encode(), value)
        found = records.config_key(entry["key"])
        assert found is not None
        kinds.add(found.kind)
    assert kinds == set(ConfigRecordKind)


@pytest.mark.parametrize(
    ("key", "kind", "name"),
    [
        ("connector-a", ConfigRecordKind.CONNECTOR, "a"),
        ("connector-connector-a", ConfigRecordKind.CONNECTOR, "connector-a"),
        ("connector-", ConfigRecordKind.CONNECTOR, ""),
        ("task-a-b-7", ConfigRecordKind.TASK, "a-b-7"),
        ("tasks-fencing-a", ConfigRecordKind.TASK_COUNT, "a"),
        ("target-state-connector-a", ConfigRecordKind.TARGET_STATE, "connector-a"),
        ("restart-connector-a", ConfigRecordKind.RESTART, "a"),
        ("session-key", ConfigRecordKind.SESSION_KEY, ""),
        ("logger-cluster-a.b", ConfigRecordKind.LOGGER_LEVEL, "a.b"),
    ],
)
def test_a_key_has_the_first_kind_whose_prefix_matches(key: str, kind: ConfigRecordKind, name: str) -> None:
    assert records.config_key(key) == (kind, name)


@pytest.mark.parametrize("key", ["", "session-keys", "Connector-a", "status-connector-a", "logger-a", "tasks-a"])
def test_other_keys_have_no_kind(key: str) -> None:
    assert records.config_key(key) is None


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("a-0", ConnectorTaskId("a", 0)),
        ("a-b-12", ConnectorTaskId("a-b", 12)),
        ("a--3", ConnectorTaskId("a-", 3)),
        ("a", None),
        ("a-", None),
        ("a-x", None),
        ("a--1x", None),
        ("-1", None),
        ("a-²", None),
        ("a-99999999999", None),
    ],
)
def test_a_task_number_follows_the_last_hyphen_of_a_key(name: str, task: ConnectorTaskId | None) -> None:
    assert records.parse_task(name) == task


@pytest.mark.parametrize(
    ("value", "state"),
    [
        ({"state": "PAUSED", "state.v2": "STOPPED"}, TargetState.STOPPED),
        ({"state": "PAUSED"}, TargetState.PAUSED),
        ({"state": "STARTED", "state.v2": 7}, TargetState.STARTED),
        ({"state.v2": "STARTED"}, TargetState.STARTED),
    ],
)
def test_the_newer_field_of_a_target_state_takes_precedence(value: JsonValue, state: TargetState) -> None:
    assert records.parse_target_state(value) is state


@pytest.mark.parametrize(
    "value", [None, [], "STARTED", {}, {"state": 1}, {"state": "paused"}, {"state": "PAUSED", "state.v2": "RESTING"}]
)
def test_an_unknown_target_state_is_refused(value: JsonValue) -> None:
    with pytest.raises(InvalidRecord):
        records.parse_target_state(value)


def test_scalar_properties_become_text_and_null_is_kept() -> None:
    assert records.parse_properties({"properties": {"a": "1", "b": 2, "c": True, "d": None, "e": 1.5}}) == {
        "a": "1",
        "b": "2",
        "c": "true",
        "d": None,
        "e": "1.5",
    }


@pytest.mark.parametrize(
    "value", [None, 1, {}, {"properties": []}, {"properties": {"a": {}}}, {"properties": {"a": []}}]
)
def test_invalid_properties_are_refused(value: JsonValue) -> None:
    with pytest.raises(InvalidRecord):
        records.parse_properties(value)


@pytest.mark.parametrize("count", [None, "1", 1.0, True, -1, 2**31, []])
def test_a_number_of_tasks_must_be_a_non_negative_integer(count: JsonValue) -> None:
    with pytest.raises(InvalidRecord, match="tasks must be an integer from 0 on"):
        records.parse_task_count({"tasks": count}, "tasks")


GOOD_KEY: dict[str, JsonValue] = {"key": "AAEC", "algorithm": "HmacSHA256", "creation-timestamp": 7}


def test_a_session_key_is_read_with_and_without_padding() -> None:
    for text in ("AAECAw==", "AAECAw"):
        assert records.parse_session_key(GOOD_KEY | {"key": text}) == SessionKey(b"\0\1\2\3", "HmacSHA256", 7)


@pytest.mark.parametrize(
    "wrong",
    [
        {"key": None},
        {"key": 5},
        {"key": ""},
        {"key": "A"},
        {"key": "AAECAw="},
        {"key": "AA\n=="},
        {"key": "A-_="},
        {"algorithm": None},
        {"algorithm": 1},
        {"creation-timestamp": "7"},
        {"creation-timestamp": 7.0},
        {"creation-timestamp": True},
        {"creation-timestamp": 2**63},
    ],
)
def test_an_invalid_session_key_is_refused_without_showing_the_key(wrong: dict[str, JsonValue]) -> None:
    value = GOOD_KEY | {"key": "c2VjcmV0"} | wrong
    with pytest.raises(InvalidRecord) as caught:
        records.parse_session_key(value)
    assert "c2VjcmV0" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("value", [None, [], "x"])
def test_values_that_are_not_objects_are_refused(value: JsonValue) -> None:
    for parse in (records.parse_session_key, records.parse_restart, records.parse_logger_level):
        with pytest.raises(InvalidRecord):
            parse(value)


def test_missing_or_invalid_restart_flags_are_false_with_a_warning() -> None:
    assert records.parse_restart({"include-tasks": True, "only-failed": "true"}) == (
        True,
        False,
        ("only-failed must be a boolean, not a string: it is taken as false",),
    )
    assert len(records.parse_restart({}).warnings) == 2


def test_a_name_that_utf8_cannot_encode_is_refused() -> None:
    with pytest.raises(UnwritableJson, match="surrogate"):
        records.connector_record("a\ud800", {})
