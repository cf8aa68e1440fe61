from __future__ import annotations

import logging

import pytest

from barnabas.connect.decide.backing_stores.internal_json import parse_json
from barnabas.connect.decide.backing_stores.status_records import (
    ConnectorKey,
    Status,
    StatusRecord,
    TaskKey,
    TopicKey,
    TopicStatus,
    connector_status_record,
    parse_status,
    parse_topic_status,
    status_key,
    task_status_record,
    topic_status_record,
    topic_status_removal,
)
from barnabas.connect.decide.backing_stores.status_state import (
    ConnectorStatusChanged,
    StatusState,
    TaskStatusChanged,
    TopicStatusChanged,
)
from barnabas.connect.identifiers import ConnectorTaskId, TaskState

from .test_config_records import recorded

TASK = ConnectorTaskId("c", 0)


def status(state: TaskState, generation: int = 5, worker: str = "a:1") -> Status:
    return Status(state, worker, generation, version="4.3.1")


def rebuilt(key: str, value: bytes | None) -> StatusRecord:
    parsed = None if value is None else parse_json(value)
    match status_key(key):
        case ConnectorKey(connector):
            return connector_status_record(connector, None if parsed is None else parse_status(parsed))
        case TaskKey(task):
            return task_status_record(task, None if parsed is None else parse_status(parsed))
        case TopicKey(topic, connector):
            if parsed is None:
                return topic_status_removal(topic, connector)
            return topic_status_record(parse_topic_status(parsed))


def test_every_record_of_real_workers_is_written_again_to_the_same_bytes() -> None:
    entries = recorded("cc-status")
    assert len(entries) > 300
    for entry in entries:
        value = None if entry["value"] is None else entry["value"].encode()
        assert rebuilt(entry["key"], value) == (entry["key"].encode(), value)


def test_replaying_a_recorded_topic_yields_one_status_per_connector_and_task() -> None:
    state = StatusState()
    for entry in recorded("cc-status"):
        state.replay(entry["key"], entry["value"] and entry["value"].encode())
    assert state.connector("mock1") is None
    assert state.tasks("gsink")
    for task in state.all_tasks():
        assert state.task(task) is not None


def test_a_destroyed_status_is_written_as_a_tombstone() -> None:
    assert task_status_record(TASK, status(TaskState.DESTROYED)) == (b"status-task-c-0", None)
    assert connector_status_record("c", status(TaskState.DESTROYED)) == (b"status-connector-c", None)


@pytest.mark.parametrize(
    ("key", "found"),
    [
        ("status-connector-c-1", ConnectorKey("c-1")),
        ("status-task-c-1-2", TaskKey(ConnectorTaskId("c-1", 2))),
        ("status-topic-a-b:connector-c:connector-d", TopicKey("a-b", "c:connector-d")),
    ],
)
def test_keys_identify_connectors_tasks_and_topics(key: str, found: object) -> None:
    assert status_key(key) == found


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        ("", b"{}"),
        ("status-connector-", b"{}"),
        ("status-task-c", b"{}"),
        ("status-task-c-x", b"{}"),
        ("status-topic-:connector-c", b"{}"),
        ("status-topic-t", b"{}"),
        ("status-topic-t:connector-", b"{}"),
        ("status-topic-t:task-c", b"{}"),
        ("status-connector-c", b"no json"),
        ("status-connector-c", b"[]"),
        ("status-connector-c", b'{"state":"RESTING","trace":null,"worker_id":"a:1","generation":1}'),
        ("status-connector-c", b'{"state":"RUNNING","trace":null,"worker_id":null,"generation":1}'),
        ("status-task-c-0", b'{"state":"RUNNING","trace":7,"worker_id":"a:1","generation":1}'),
        ("status-task-c-0", b'{"state":"RUNNING","trace":null,"worker_id":"a:1","generation":"1"}'),
        ("status-topic-t:connector-c", b'{"topic":{"name":"t"}}'),
        ("status-topic-t:connector-c", b'{"name":"t"}'),
    ],
)
def test_invalid_records_are_ignored_and_logged(
    key: str | None, value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    state = StatusState()
    with caplog.at_level(logging.WARNING):
        assert state.replay(key, value) == []
    assert state.connectors() == []
    assert state.all_tasks() == []
    assert len(caplog.records) == 1


def test_a_record_of_an_older_worker_has_no_version() -> None:
    state = StatusState()
    state.replay("status-connector-c", b'{"state":"RUNNING","trace":null,"worker_id":"a:1","generation":1}')
    assert state.connector("c") == Status(TaskState.RUNNING, "a:1", 1)


def test_a_running_task_is_not_unassigned_by_its_previous_worker() -> None:
    state = StatusState()
    running = status(TaskState.RUNNING, 7, "b:1")
    assert state.replay(*task_status_record(TASK, running)) == [TaskStatusChanged(TASK, running)]
    for stale in (6, 7):
        assert state.replay(*task_status_record(TASK, status(TaskState.UNASSIGNED, stale))) == []
    assert state.task(TASK) == running
    unassigned = status(TaskState.UNASSIGNED, 8)
    assert state.replay(*task_status_record(TASK, unassigned)) == [TaskStatusChanged(TASK, unassigned)]


def test_a_running_connector_is_unassigned_by_its_own_generation_but_not_by_an_earlier_one() -> None:
    state = StatusState()
    state.replay(*connector_status_record("c", status(TaskState.RUNNING, 7, "b:1")))
    assert state.replay(*connector_status_record("c", status(TaskState.UNASSIGNED, 6))) == []
    unassigned = status(TaskState.UNASSIGNED, 7)
    assert state.replay(*connector_status_record("c", unassigned)) == [ConnectorStatusChanged("c", unassigned)]


def test_other_states_apply_in_any_generation() -> None:
    state = StatusState()
    state.replay(*task_status_record(TASK, status(TaskState.RUNNING, 7)))
    failed = status(TaskState.FAILED, 3)
    state.replay(*task_status_record(TASK, failed))
    assert state.task(TASK) == failed


def test_a_safe_write_is_dropped_if_another_worker_wrote_in_a_later_generation() -> None:
    state = StatusState()
    mine = status(TaskState.UNASSIGNED, 5, "me:1")
    assert state.may_write_safely(TASK, mine)
    assert state.may_write_safely("c", mine)
    for generation, worker, may in [(4, "b:1", True), (5, "b:1", True), (6, "b:1", False), (6, "me:1", True)]:
        record = status(TaskState.RUNNING, generation, worker)
        state.replay(*task_status_record(TASK, record))
        state.replay(*connector_status_record("c", record))
        assert state.may_write_safely(TASK, mine) == may
        assert state.may_write_safely("c", mine) == may


def test_removing_a_connector_removes_the_statuses_of_its_tasks() -> None:
    state = StatusState()
    state.replay(*connector_status_record("c", status(TaskState.RUNNING)))
    state.replay(*task_status_record(TASK, status(TaskState.RUNNING)))
    assert list(state.tasks("c")) == [TASK]
    assert state.replay(*connector_status_record("c", None)) == [ConnectorStatusChanged("c", None)]
    assert state.tasks("c") == {}
    assert state.replay(*task_status_record(TASK, None)) == [TaskStatusChanged(TASK, None)]


def test_topics_in_use_are_added_and_removed() -> None:
    state = StatusState()
    used = TopicStatus("t", "c", 1, 77)
    state.replay(*topic_status_record(TopicStatus("a", "c", 0, 78)))
    assert state.replay(*topic_status_record(used)) == [TopicStatusChanged("t", "c", used)]
    assert list(state.topics("c")) == ["a", "t"]
    assert state.replay(*topic_status_removal("t", "c")) == [TopicStatusChanged("t", "c", None)]
    state.replay(*topic_status_removal("a", "c"))
    state.replay(*topic_status_removal("a", "c"))
    assert state.topics("c") == {}
