from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.connect.decide.backing_stores import config_records as records
from barnabas.connect.decide.backing_stores.config_records import ConfigRecord
from barnabas.connect.decide.backing_stores.config_state import (
    ConfigEvent,
    ConfigState,
    ConnectorConfigChanged,
    ConnectorRemoved,
    LoggerLevelChanged,
    RestartRequested,
    SessionKeyChanged,
    TargetStateChanged,
    TaskConfigsCommitted,
)
from barnabas.connect.decide.session_key import SessionKey
from barnabas.connect.identifiers import ConnectorTaskId, TargetState

from .test_config_records import recorded

CONFIG = {"connector.class": "FileStreamSource", "name": "c"}


class Topic:
    """Records with offsets, replayed when they are added."""

    def __init__(self, *, is_started: bool = True) -> None:
        self.state = ConfigState()
        self.end = 0
        if is_started:
            self.state.start()

    def add(self, *added: ConfigRecord | tuple[str, bytes | None]) -> list[ConfigEvent]:
        events: list[ConfigEvent] = []
        for key, value in added:
            events += self.state.replay(key, value, self.end)
            self.end += 1
        return events

    def task(self, number: int, connector: str = "c", **properties: str) -> None:
        self.add(records.task_record(ConnectorTaskId(connector, number), properties))


def with_tasks(count: int) -> Topic:
    topic = Topic()
    topic.add(records.connector_record("c", CONFIG))
    for number in range(count):
        topic.task(number, n=str(number))
    topic.add(records.task_commit_record("c", count))
    return topic


def test_an_empty_topic_has_neither_offset_nor_connectors() -> None:
    config = ConfigState().snapshot()
    assert config.offset == -1
    assert config.connectors() == []
    assert config.tasks("c") == ()


def test_replaying_a_recorded_topic_yields_the_state_that_real_workers_reported() -> None:
    state = ConfigState()
    for entry in recorded("cc-configs"):
        assert state.replay(entry["key"], entry["value"] and entry["value"].encode(), entry["offset"]) == []
    config = state.snapshot()
    assert config.offset == 250
    assert config.connectors() == [
        *("a/b", "alg1", "alg2", "alg3", "alg4", "fst", "gs1", "gs2", "gs3", "gs4"),
        *("gsink", "snk1", "snk9", "src1", "src2", "src3", "src4"),
    ]
    assert config.tasks("gsink") == tuple(ConnectorTaskId("gsink", number) for number in range(3))
    assert config.target_state("fst") is TargetState.STOPPED
    assert config.target_state("src3") is TargetState.PAUSED
    assert config.tasks("src3") == ()
    assert config.inconsistent == frozenset()
    assert config.session_key is not None
    assert config.session_key.created_ms == 1795262647614


def test_a_snapshot_is_immutable_and_replaced_only_by_a_replay() -> None:
    topic = with_tasks(1)
    before = topic.state.snapshot()
    assert topic.state.snapshot() is before
    topic.add(*records.connector_removal("c"))
    assert before.contains("c")
    assert before.task_config(ConnectorTaskId("c", 0)) == {"n": "0"}
    assert not topic.state.snapshot().contains("c")


def test_a_session_key_is_hidden_in_the_text_of_a_snapshot() -> None:
    topic = Topic()
    key = SessionKey(b"very-secret-bytes", "HmacSHA256", 5)
    assert topic.add(records.session_key_record(key)) == [SessionKeyChanged(key)]
    assert topic.state.snapshot().session_key == key
    assert "secret" not in repr(topic.state.snapshot())


def test_task_configs_apply_only_when_they_are_committed() -> None:
    topic = Topic()
    topic.add(records.connector_record("c", CONFIG))
    topic.task(0, a="1")
    assert topic.state.snapshot().task_configs == {}
    events = topic.add(records.task_commit_record("c", 1))
    assert events == [TaskConfigsCommitted("c", (ConnectorTaskId("c", 0),))]
    config = topic.state.snapshot()
    assert config.task_config(ConnectorTaskId("c", 0)) == {"a": "1"}
    assert config.task_config_generation("c") == 0
    assert config.applied_config("c") == CONFIG
    assert "c" in config.pending_fencing


def test_an_incomplete_set_leaves_no_tasks_until_a_complete_one_is_written() -> None:
    topic = with_tasks(2)
    topic.task(1, n="new")
    assert topic.add(records.task_commit_record("c", 2)) == [TaskConfigsCommitted("c", ())]
    config = topic.state.snapshot()
    assert config.inconsistent == {"c"}
    assert config.tasks("c") == ()
    assert config.task_config(ConnectorTaskId("c", 1)) == {"n": "1"}
    assert config.task_config_generation("c") == 0
    # The incomplete half was discarded: the other half alone completes nothing.
    topic.task(0, n="new")
    topic.add(records.task_commit_record("c", 2))
    assert topic.state.snapshot().inconsistent == {"c"}
    topic.task(0, n="newer")
    topic.task(1, n="newer")
    topic.add(records.task_commit_record("c", 2))
    config = topic.state.snapshot()
    assert config.inconsistent == frozenset()
    assert config.task_config(ConnectorTaskId("c", 0)) == {"n": "newer"}
    assert config.task_config_generation("c") == 1


def test_more_tasks_than_the_commit_states_are_complete_too() -> None:
    topic = with_tasks(3)
    topic.task(0)
    topic.task(1)
    topic.task(2)
    topic.add(records.task_commit_record("c", 2))
    config = topic.state.snapshot()
    assert config.tasks("c") == (ConnectorTaskId("c", 0), ConnectorTaskId("c", 1))
    assert config.inconsistent == frozenset()


def test_a_commit_of_zero_tasks_is_complete() -> None:
    topic = with_tasks(2)
    assert topic.add(records.task_commit_record("c", 0)) == [TaskConfigsCommitted("c", ())]
    config = topic.state.snapshot()
    assert config.tasks("c") == ()
    assert config.inconsistent == frozenset()


def test_tasks_of_a_connector_that_was_deleted_and_compacted_away_are_dropped() -> None:
    topic = Topic()
    topic.task(0)
    assert topic.add(records.task_commit_record("c", 1)) == []
    topic.add(records.connector_record("c", CONFIG))
    topic.add(records.task_commit_record("c", 1))
    assert topic.state.snapshot().inconsistent == {"c"}


def test_deleting_a_connector_removes_its_tasks() -> None:
    topic = with_tasks(2)
    assert topic.add(*records.connector_removal("c")) == [ConnectorRemoved("c")]
    config = topic.state.snapshot()
    assert config.connectors() == []
    assert (config.task_configs, config.task_counts, config.applied_configs, config.target_states) == ({}, {}, {}, {})


def test_a_connector_is_started_unless_its_target_state_was_written_before() -> None:
    topic = Topic()
    assert topic.add(records.connector_record("a", {})) == [ConnectorConfigChanged("a")]
    assert topic.add(records.target_state_record("b", TargetState.STOPPED), records.connector_record("b", {})) == [
        TargetStateChanged("b", TargetState.STOPPED),
        ConnectorConfigChanged("b"),
    ]
    config = topic.state.snapshot()
    assert config.target_state("a") is TargetState.STARTED
    assert config.target_state("b") is TargetState.STOPPED


def test_writing_the_same_target_state_twice_is_one_event() -> None:
    topic = with_tasks(1)
    paused = records.target_state_record("c", TargetState.PAUSED)
    assert topic.add(paused, paused) == [TargetStateChanged("c", TargetState.PAUSED)]


def test_removing_the_target_state_of_an_existing_connector_means_started() -> None:
    topic = with_tasks(1)
    topic.add(records.target_state_record("c", TargetState.STOPPED))
    assert topic.add(("target-state-c", None)) == []
    assert topic.state.snapshot().target_state("c") is TargetState.STARTED
    topic.add(("target-state-other", None))
    assert topic.state.snapshot().target_state("other") is None


def test_requests_in_the_topic_take_effect_only_after_the_start() -> None:
    topic = Topic(is_started=False)
    calls = (
        records.restart_record("c", include_tasks=True, only_failed=False),
        records.logger_level_record("a.b", "DEBUG"),
    )
    assert topic.add(*calls) == []
    topic.state.start()
    assert topic.add(*calls) == [RestartRequested("c", include_tasks=True), LoggerLevelChanged("a.b", "DEBUG")]


def test_restarts_are_ranked_by_impact() -> None:
    ranked = [RestartRequested("c", tasks, failed) for tasks, failed in [(0, 1), (0, 0), (1, 1), (1, 0)]]  # type: ignore[arg-type]
    assert [restart.impact for restart in ranked] == [0, 1, 2, 3]


def test_fencing_is_needed_unless_one_task_follows_none_or_one() -> None:
    topic = with_tasks(1)
    assert not topic.state.snapshot().needs_fencing_round("c")  # Never fenced: no earlier producer exists.
    topic.add(records.task_count_record("c", 1))
    assert topic.state.snapshot().pending_fencing == frozenset()
    topic.task(0)
    topic.add(records.task_commit_record("c", 1))
    assert not topic.state.snapshot().needs_fencing_round("c")
    topic.task(0)
    topic.task(1)
    topic.add(records.task_commit_record("c", 2))
    assert topic.state.snapshot().needs_fencing_round("c")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("something-else", b"{}"),
        (None, b"{}"),
        (b"\xff\xfe", b"{}"),
        ("connector-c", b"[]"),
        ("connector-c", b'{"properties":1}'),
        ("task-c", b'{"properties":{}}'),
        ("task-c-0", b"null"),
        ("task-c-0", None),
        ("commit-c", b'{"tasks":"1"}'),
        ("commit-c", None),
        ("tasks-fencing-c", b"{}"),
        ("target-state-c", b'{"state":"RESTING"}'),
        ("session-key", None),
        ("session-key", b'{"key":"??"}'),
        ("restart-connector-c", None),
        ("logger-cluster-a", b'{"level":5}'),
        ("logger-cluster-a", None),
    ],
)
def test_an_invalid_record_changes_only_the_offset_and_is_logged(
    key: str | bytes | None, value: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    topic = with_tasks(1)
    before = topic.state.snapshot()
    with caplog.at_level(logging.ERROR):
        assert topic.state.replay(key, value, 70) == []
    after = topic.state.snapshot()
    assert after.offset == 71
    assert (after.connector_configs, after.task_configs, after.target_states, after.session_key) == (
        *(before.connector_configs, before.task_configs, before.target_states, before.session_key),
    )
    assert after.inconsistent == before.inconsistent
    assert len(caplog.records) == 1


def test_a_record_that_is_not_json_does_not_change_even_the_offset(caplog: pytest.LogCaptureFixture) -> None:
    topic = with_tasks(1)
    before = topic.state.snapshot()
    assert topic.state.replay("connector-c", b"{not json", 70) == []
    assert topic.state.snapshot() is before
    assert "record 70 of the config topic is not JSON" in caplog.text


NAMES = st.sampled_from(["a", "b", "a-0"])
RECORDS = st.one_of(
    st.builds(lambda name: records.connector_record(name, {"name": name}), NAMES),
    st.builds(lambda name: records.connector_removal(name)[0], NAMES),
    st.builds(lambda name: records.connector_removal(name)[1], NAMES),
    st.builds(lambda name, task: records.task_record(ConnectorTaskId(name, task), {}), NAMES, st.integers(0, 2)),
    st.builds(records.task_commit_record, NAMES, st.integers(0, 3)),
    st.builds(records.target_state_record, NAMES, st.sampled_from(TargetState)),
    st.builds(records.task_count_record, NAMES, st.integers(0, 3)),
)


@given(st.lists(RECORDS, max_size=40))
def test_a_connector_has_all_of_its_tasks_or_none_after_any_records(added: list[ConfigRecord]) -> None:
    topic = Topic()
    topic.add(*added)
    config = topic.state.snapshot()
    assert config.offset == (len(added) or -1)
    for connector in config.connectors():
        assert config.target_state(connector) is not None
        for task in config.tasks(connector):
            assert config.task_config(task) is not None
    assert {task.connector for task in config.task_configs} <= set(config.connectors())
    assert set(config.task_counts) <= set(config.connectors())


@given(st.lists(RECORDS, max_size=30), st.integers(0, 30))
def test_a_worker_that_starts_later_has_the_same_state(added: list[ConfigRecord], started_at: int) -> None:
    early, late = Topic(), Topic(is_started=False)
    early.add(*added)
    late.add(*added[:started_at])
    late.state.start()
    late.add(*added[started_at:])
    assert early.state.snapshot() == late.state.snapshot()
