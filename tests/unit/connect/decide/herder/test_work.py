"""Running work: starts, stops, and statuses."""

from __future__ import annotations

import json

import pytest

from barnabas.connect.decide.backing_stores.config_records import (
    connector_record,
    connector_removal,
    restart_record,
    target_state_record,
)
from barnabas.connect.decide.backing_stores.status_records import Status, connector_status_record, task_status_record
from barnabas.connect.decide.group.membership_events import Joining, Lost, ReadConfigs, StopWork
from barnabas.connect.decide.herder.herder_settings import RestartBudget
from barnabas.connect.decide.herder.local_work import StartFailed
from barnabas.connect.decide.tasks.task_runtime import TaskFailed, TaskPaused, TaskRunning, TopicsUsed
from barnabas.connect.errors import NotFound
from barnabas.connect.identifiers import ConnectorTaskId, TargetState, TaskState
from tests.unit.connect.decide.herder.herder_driver import (
    OTHER_URL,
    SOURCE,
    URL,
    HerderDriver,
    commit,
    connector,
    started,
)

TASK, OTHER_TASK = ConnectorTaskId("c", 0), ConnectorTaskId("c", 1)


@pytest.fixture
def driver() -> HerderDriver:
    """Return the driver of a leader that runs a connector with two tasks."""
    driver = started()
    connector(driver, "c", tasks=2)
    driver.member("c", TASK, OTHER_TASK)
    driver.calls.clear()
    return driver


def state(driver: HerderDriver, unit: str) -> str | None:
    value = driver.statuses.get(f"status-{unit}".encode())
    return None if value is None else str(json.loads(value)["state"])


# -- rebalances


def test_a_new_or_removed_connector_triggers_a_rebalance() -> None:
    driver = started()
    driver.written(connector_record("c", SOURCE))
    assert [call.reason for call in driver.calls_of("rejoin_group")] == ["connector c is new"]
    driver.member()
    driver.written(*connector_removal("c"))
    assert driver.calls_of("rejoin_group")[-1].reason == "connector c was removed"


def test_changed_settings_and_states_do_not_rebalance(driver: HerderDriver) -> None:
    driver.written(connector_record("c", {**SOURCE, "x": "y"}), target_state_record("c", TargetState.PAUSED))
    assert driver.calls_of("rejoin_group") == []


def test_committed_tasks_stop_before_the_rebalance_and_start_with_it(driver: HerderDriver) -> None:
    driver.hold("stop_tasks")
    commit(driver, "c", 2)
    assert {call.tasks for call in driver.calls_of("stop_tasks")} == {(TASK,), (OTHER_TASK,)}
    assert driver.calls_of("rejoin_group") == []
    driver.release()
    assert len(driver.calls_of("rejoin_group")) == 1
    assert driver.calls_of("start_task") == []
    driver.member("c", TASK)
    assert [call.task for call in driver.calls_of("start_task")] == [TASK]


def test_a_rebalance_on_an_older_configuration_is_followed_by_another(driver: HerderDriver) -> None:
    driver.herder.notice(Joining("a member joined"), {}, ())
    before = driver.herder.config.offset
    commit(driver, "c", 2)
    assert driver.calls_of("rejoin_group") == []  # A rebalance is in progress.
    driver.member_at(before, "c", TASK, OTHER_TASK)
    assert len(driver.calls_of("rejoin_group")) == 1
    assert driver.calls_of("start_task") == []
    assert not driver.herder.context.group.is_up_to_date


def test_revoked_work_is_reported_only_after_it_has_stopped(driver: HerderDriver) -> None:
    driver.hold("stop_tasks")
    driver.herder.notice(StopWork(7, (), (TASK,), "revoked"), {}, ())
    driver.run()
    assert driver.calls_of("report_work_stopped") == []
    assert not driver.herder.context.group.is_settled
    driver.release()
    assert [call.stop_id for call in driver.calls_of("report_work_stopped")] == [7]
    assert [call.tasks for call in driver.calls_of("stop_tasks")] == [(TASK,)]
    assert driver.herder.context.group.is_settled


def test_leaving_the_group_stops_all_work(driver: HerderDriver) -> None:
    driver.herder.notice(Lost("no coordinator"), {}, ())
    driver.herder.notice(StopWork(8, ("c",), (TASK, OTHER_TASK), "lost"), {}, ())
    driver.run()
    assert driver.herder.work.running() == []
    assert [call.stop_id for call in driver.calls_of("report_work_stopped")] == [8]
    assert not driver.herder.context.group.is_leader
    assert state(driver, "task-c-0") == "UNASSIGNED"


@pytest.mark.parametrize("works", [True, False])
def test_the_membership_is_notified_whether_the_configs_could_be_read(works: bool) -> None:
    driver = started()
    if not works:
        driver.refuse("read_configs_to_end")
    driver.herder.notice(ReadConfigs(5, 3_000), {}, ())
    driver.run()
    assert [call.is_read for call in driver.calls_of("report_configs_read")] == [works]


def test_assigned_work_keeps_running_across_a_rebalance(driver: HerderDriver) -> None:
    driver.member("c", TASK, OTHER_TASK)
    assert driver.calls_of("stop_tasks") == driver.calls_of("start_task") == []


def test_a_stopping_worker_starts_no_work(driver: HerderDriver) -> None:
    answer = driver.request(driver.herder.shut_down())
    assert answer.has_arrived
    driver.member("c", TASK, OTHER_TASK)
    assert driver.herder.work.running() == []
    assert state(driver, "connector-c") == "UNASSIGNED"


def test_a_stopping_worker_outside_its_group_does_not_wait_for_status_writes(driver: HerderDriver) -> None:
    """Kafka may be unreachable; then no status would ever be written."""
    driver.hold("write_status")
    answer = driver.request(driver.herder.shut_down())
    assert driver.herder.work.running() == []
    assert not answer.has_arrived
    driver.herder.notice(Lost("the coordinator is silent"), {}, ())
    driver.run()
    assert answer.has_arrived


# -- settings and states


def test_a_changed_connector_restarts_with_its_new_settings(driver: HerderDriver) -> None:
    driver.written(connector_record("c", {**SOURCE, "x": "y"}))
    assert [call.connector for call in driver.calls_of("stop_connector")] == ["c"]
    assert driver.calls_of("start_connector")[-1].config["x"] == "y"
    assert len(driver.calls_of("generate_task_configs")) == 1


def test_a_successor_waits_for_its_predecessor(driver: HerderDriver) -> None:
    driver.hold("stop_connector")
    driver.written(connector_record("c", {**SOURCE, "x": "y"}))
    driver.written(connector_record("c", {**SOURCE, "x": "z"}))
    assert driver.calls_of("start_connector") == []
    driver.release()
    assert [call.config["x"] for call in driver.calls_of("start_connector")] == ["z"]


def test_pausing_is_sent_to_running_work_and_resuming_generates_tasks_again(driver: HerderDriver) -> None:
    driver.written(target_state_record("c", TargetState.PAUSED))
    assert [(call.connector, call.target_state) for call in driver.calls_of("set_connector_state")] == [
        ("c", TargetState.PAUSED)
    ]
    assert len(driver.calls_of("set_task_state")) == 2
    driver.herder.task_event(TaskPaused(TASK))
    driver.run()
    assert (state(driver, "connector-c"), state(driver, "task-c-0")) == ("PAUSED", "PAUSED")
    assert driver.calls_of("generate_task_configs") == []
    driver.written(target_state_record("c", TargetState.STARTED))
    assert len(driver.calls_of("generate_task_configs")) == 1
    assert state(driver, "connector-c") == "RUNNING"


def test_a_stopped_connector_stays_assigned_and_loses_its_tasks_immediately(driver: HerderDriver) -> None:
    answer = driver.request(driver.herder.states.stop("c"))
    assert answer.has_arrived
    assert driver.keys_written()[-2:] == ["commit-c", "target-state-c"]
    assert driver.herder.work.running() == ["c"]
    assert state(driver, "connector-c") == "STOPPED"


def test_a_removed_connector_stops_immediately_and_leaves_no_status(driver: HerderDriver) -> None:
    driver.written(*connector_removal("c"))
    assert driver.herder.work.running() == []
    driver.member()
    assert state(driver, "connector-c") is None
    assert driver.statuses[b"status-connector-c"] is None


# -- failures


def test_a_failed_task_is_restarted_with_growing_pauses_until_its_budget_is_spent() -> None:
    driver = started(budget=RestartBudget(max_attempts=2, backoff_ms=1_000, backoff_max_ms=60_000, reset_ms=10_000))
    connector(driver, "c", tasks=1)
    driver.member("c", TASK)
    traces = []
    for pause_ms in (1_000, 2_000, 60_000):
        driver.herder.task_event(TaskRunning(TASK))
        driver.herder.task_event(TaskFailed(TASK, "it broke"))
        driver.run()
        traces.append(str(json.loads(driver.statuses[b"status-task-c-0"] or b"")["trace"]))
        starts = len(driver.calls_of("start_task"))
        driver.advance(pause_ms - 1)
        assert len(driver.calls_of("start_task")) == starts
        driver.advance(1)
    assert len(driver.calls_of("start_task")) == 3
    assert traces[0] == "it broke\nRestart 1 of 2 follows in 1 s."
    assert traces[1] == "it broke\nRestart 2 of 2 follows in 2 s."
    assert "restarted automatically 2 times" in traces[2]


def test_a_task_that_ran_without_failure_regains_its_budget() -> None:
    driver = started(budget=RestartBudget(max_attempts=1, backoff_ms=1_000, reset_ms=10_000))
    connector(driver, "c", tasks=1)
    driver.member("c", TASK)
    for _ in range(3):
        driver.herder.task_event(TaskRunning(TASK))
        driver.advance(10_000)
        driver.herder.task_event(TaskFailed(TASK, "it broke"))
        driver.advance(1_000)
    assert len(driver.calls_of("start_task")) == 4


def test_a_failure_that_is_not_retriable_is_not_retried(driver: HerderDriver) -> None:
    driver.herder.task_event(TaskFailed(TASK, "no such class", retriable=False))
    driver.advance(3_600_000)
    assert driver.calls_of("start_task") == []
    assert state(driver, "task-c-0") == "FAILED"


def test_a_connector_of_an_unknown_class_fails_once_with_the_reason() -> None:
    driver = started()
    driver.refuse("start_connector", StartFailed("this worker does not have it", retriable=False))
    connector(driver, "c", config={"connector.class": "Java"})
    driver.member("c")
    driver.advance(3_600_000)
    assert len(driver.calls_of("start_connector")) == 1
    assert driver.calls_of("generate_task_configs") == []
    assert b"worker here:8083 does not have it" in (driver.statuses[b"status-connector-c"] or b"")


def test_a_connector_that_fails_is_stopped_and_started_again(driver: HerderDriver) -> None:
    driver.herder.connector_error("c", "the table was dropped", retriable=True)
    driver.run()
    assert [call.connector for call in driver.calls_of("stop_connector")] == ["c"]
    assert state(driver, "connector-c") == "FAILED"
    driver.advance(1_000)
    assert len(driver.calls_of("start_connector")) == 1
    assert state(driver, "connector-c") == "RUNNING"


def test_events_of_a_revoked_task_are_ignored(driver: HerderDriver) -> None:
    driver.member("c", OTHER_TASK)
    driver.herder.task_event(TaskRunning(TASK))
    driver.herder.task_event(TaskFailed(TASK, "late"))
    driver.run()
    assert state(driver, "task-c-0") == "UNASSIGNED"


# -- restarts


def test_a_connector_restart_is_answered_when_the_connector_runs_again(driver: HerderDriver) -> None:
    driver.hold("start_connector")
    answer = driver.request(driver.herder.restarts.restart_connector("c"))
    assert not answer.has_arrived
    driver.release()
    assert answer.value is None
    driver.refuse("start_connector", StartFailed("broken", retriable=True))
    assert "broken" in str(driver.request(driver.herder.restarts.restart_connector("c")).error)


def test_a_restart_is_redirected_to_the_worker_that_runs_the_unit(driver: HerderDriver) -> None:
    driver.member(owners={"c": OTHER_URL, TASK: OTHER_URL})
    assert driver.request(driver.herder.restarts.restart_connector("c")).error.url == OTHER_URL  # type: ignore[attr-defined]
    assert driver.request(driver.herder.restarts.restart_task(TASK)).error.url == OTHER_URL  # type: ignore[attr-defined]
    unknown = driver.request(driver.herder.restarts.restart_task(ConnectorTaskId("c", 9))).error
    assert str(unknown) == "Unknown task: c-9"


def test_a_restart_with_tasks_restarts_the_planned_units(driver: HerderDriver) -> None:
    for task in (TASK, OTHER_TASK):
        driver.herder.task_event(TaskRunning(task))
    driver.herder.task_event(TaskFailed(TASK, "it broke", retriable=False))
    driver.run()
    answer = driver.request(driver.herder.restarts.restart("c", include_tasks=True, only_failed=True))
    assert answer.value.connector.state == "RUNNING"
    assert [task.state for task in answer.value.tasks] == ["RESTARTING", "RUNNING"]
    assert [call.task for call in driver.calls_of("start_task")] == [TASK]
    assert driver.calls_of("stop_connector") == []


def test_of_pending_restarts_the_one_with_the_greater_impact_applies(driver: HerderDriver) -> None:
    for task in (TASK, OTHER_TASK):
        driver.herder.task_event(TaskRunning(task))
    driver.run()
    driver.herder.notice(Joining("a member joined"), {}, ())
    driver.written(
        restart_record("c", include_tasks=False, only_failed=True),
        restart_record("c", include_tasks=True, only_failed=False),
        restart_record("c", include_tasks=False, only_failed=False),
    )
    assert driver.calls_of("stop_connector") == []
    driver.member("c", TASK, OTHER_TASK)
    assert len(driver.calls_of("stop_connector")) == 1
    assert len(driver.calls_of("stop_tasks")) == 2


# -- statuses


def test_the_leader_marks_work_of_a_vanished_worker_as_unassigned() -> None:
    driver = started()
    connector(driver, "c", tasks=1)
    lost = Status(TaskState.RUNNING, "gone:8083", 1)
    for key, value in (connector_status_record("c", lost), task_status_record(TASK, lost)):
        driver.herder.replay_status(key, value)
    driver.member("c", members=[URL])
    assert state(driver, "task-c-0") == "UNASSIGNED"
    assert state(driver, "connector-c") == "RUNNING"


def test_the_leader_does_not_change_the_status_of_work_of_members() -> None:
    driver = started()
    connector(driver, "c", tasks=1)
    driver.herder.replay_status(*task_status_record(TASK, Status(TaskState.RUNNING, "there:8083", 1)))
    driver.member("c", members=[URL, OTHER_URL])
    assert not any(call.record[0] == b"status-task-c-0" for call in driver.calls_of("write_status"))


def test_the_leader_removes_statuses_of_unconfigured_connectors_and_tasks() -> None:
    driver = started()
    connector(driver, "c", tasks=1)
    old = Status(TaskState.RUNNING, "there:8083", 1)
    for record in (
        connector_status_record("removed", old),
        task_status_record(ConnectorTaskId("removed", 0), old),
        task_status_record(OTHER_TASK, old),
    ):
        driver.herder.replay_status(*record)
    driver.member()
    tombstones = {call.record[0] for call in driver.calls_of("write_status") if call.record[1] is None}
    assert tombstones == {b"status-connector-removed", b"status-task-removed-0", b"status-task-c-1"}


def test_a_deleted_connector_has_no_status_although_its_last_one_is_still_in_the_topic() -> None:
    driver = started()
    connector(driver, "c", tasks=1)
    old = Status(TaskState.RUNNING, "there:8083", 1)
    statuses = driver.herder.statuses
    for name in ("c", "removed"):
        driver.herder.replay_status(*connector_status_record(name, old))
        driver.herder.replay_status(*task_status_record(ConnectorTaskId(name, 0), old))
    assert (statuses.connector_status("c").connector.state, statuses.task_status(TASK).id) == ("RUNNING", 0)
    with pytest.raises(NotFound, match="No status found for connector removed"):
        statuses.connector_status("removed")
    with pytest.raises(NotFound, match="No status found for task removed-0"):
        statuses.task_status(ConnectorTaskId("removed", 0))


def test_the_owner_of_a_task_repeats_its_status_after_a_late_unassigned_status(driver: HerderDriver) -> None:
    driver.written(target_state_record("c", TargetState.PAUSED))
    driver.herder.task_event(TaskPaused(TASK))
    driver.run()
    late = Status(TaskState.UNASSIGNED, "there:8083", 1)
    driver.herder.replay_status(*task_status_record(TASK, late))
    driver.run()
    assert state(driver, "task-c-0") == "PAUSED"


def test_a_task_that_starts_here_is_no_longer_shown_on_its_previous_worker() -> None:
    driver = started()
    connector(driver, "c", tasks=1)
    driver.herder.replay_status(*task_status_record(TASK, Status(TaskState.FAILED, "there:8083", 1, "it broke")))
    driver.member("c", TASK)
    assert json.loads(driver.statuses[b"status-task-c-0"] or b"")["worker_id"] == "here:8083"
    assert state(driver, "task-c-0") == "UNASSIGNED"


# -- topics in use


def test_topics_of_a_task_are_recorded_once_by_the_worker_that_runs_it(driver: HerderDriver) -> None:
    def use(task: ConnectorTaskId, *topics: str) -> None:
        driver.herder.task_event(TopicsUsed(task, frozenset(topics)))
        driver.run()

    use(TASK, "b", "a")
    writes = driver.calls_of("write_status")
    assert [call.record[0] for call in writes] == [b"status-topic-a:connector-c", b"status-topic-b:connector-c"]
    use(OTHER_TASK, "a")
    assert driver.calls_of("write_status") == writes
    use(ConnectorTaskId("another", 0), "c")
    assert driver.calls_of("write_status") == writes
    assert driver.herder.statuses.active_topics("c").topics == ["a", "b"]
