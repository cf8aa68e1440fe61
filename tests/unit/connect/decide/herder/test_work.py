"""What runs, when it stops and starts, and what is said of it."""

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
    """A leader with a connector of two tasks, which it runs."""
    driver = started()
    connector(driver, "c", tasks=2)
    driver.member("c", TASK, OTHER_TASK)
    driver.made.clear()
    return driver


def state(driver: HerderDriver, unit: str) -> str | None:
    value = driver.statuses.get(f"status-{unit}".encode())
    return None if value is None else str(json.loads(value)["state"])


# -- rebalances


def test_a_new_connector_and_a_removed_one_make_the_group_rebalance() -> None:
    driver = started()
    driver.written(connector_record("c", SOURCE))
    assert [each.reason for each in driver.all_made("rejoin_group")] == ["connector c is new"]
    driver.member()
    driver.written(*connector_removal("c"))
    assert driver.all_made("rejoin_group")[-1].reason == "connector c was removed"


def test_changed_settings_and_states_do_not_rebalance(driver: HerderDriver) -> None:
    driver.written(connector_record("c", {**SOURCE, "x": "y"}), target_state_record("c", TargetState.PAUSED))
    assert driver.all_made("rejoin_group") == []


def test_committed_tasks_stop_before_the_rebalance_and_start_with_it(driver: HerderDriver) -> None:
    driver.hold("stop_tasks")
    commit(driver, "c", 2)
    assert {made.tasks for made in driver.all_made("stop_tasks")} == {(TASK,), (OTHER_TASK,)}
    assert driver.all_made("rejoin_group") == []
    driver.release()
    assert len(driver.all_made("rejoin_group")) == 1
    assert driver.all_made("start_task") == []
    driver.member("c", TASK)
    assert [made.task for made in driver.all_made("start_task")] == [TASK]


def test_a_rebalance_that_did_not_know_of_the_change_is_followed_by_another(driver: HerderDriver) -> None:
    driver.herder.notice(Joining("somebody came"), {}, ())
    before = driver.herder.config.offset
    commit(driver, "c", 2)
    assert driver.all_made("rejoin_group") == []  # One is under way.
    driver.member_at(before, "c", TASK, OTHER_TASK)
    assert len(driver.all_made("rejoin_group")) == 1
    assert driver.all_made("start_task") == []
    assert not driver.herder.context.group.is_up_to_date


def test_revoked_work_is_reported_only_after_it_has_stopped(driver: HerderDriver) -> None:
    driver.hold("stop_tasks")
    driver.herder.notice(StopWork(7, (), (TASK,), "revoked"), {}, ())
    driver.run()
    assert driver.all_made("report_work_stopped") == []
    assert not driver.herder.context.group.is_settled
    driver.release()
    assert [made.stop_id for made in driver.all_made("report_work_stopped")] == [7]
    assert [made.tasks for made in driver.all_made("stop_tasks")] == [(TASK,)]
    assert driver.herder.context.group.is_settled


def test_out_of_the_group_everything_stops(driver: HerderDriver) -> None:
    driver.herder.notice(Lost("no coordinator"), {}, ())
    driver.herder.notice(StopWork(8, ("c",), (TASK, OTHER_TASK), "lost"), {}, ())
    driver.run()
    assert driver.herder.work.running() == []
    assert [made.stop_id for made in driver.all_made("report_work_stopped")] == [8]
    assert not driver.herder.context.group.is_leader
    assert state(driver, "task-c-0") == "UNASSIGNED"


@pytest.mark.parametrize("works", [True, False])
def test_the_membership_hears_whether_the_configs_could_be_read(works: bool) -> None:
    driver = started()
    if not works:
        driver.refuse("read_configs_to_end")
    driver.herder.notice(ReadConfigs(5, 3_000), {}, ())
    driver.run()
    assert [made.is_read for made in driver.all_made("report_configs_read")] == [works]


def test_what_stays_assigned_runs_on(driver: HerderDriver) -> None:
    driver.member("c", TASK, OTHER_TASK)
    assert driver.all_made("stop_tasks") == driver.all_made("start_task") == []


def test_nothing_is_taken_up_while_the_worker_stops(driver: HerderDriver) -> None:
    answer = driver.ask(driver.herder.shut_down())
    assert answer.is_there
    driver.member("c", TASK, OTHER_TASK)
    assert driver.herder.work.running() == []
    assert state(driver, "connector-c") == "UNASSIGNED"


def test_a_worker_that_stops_and_is_out_of_its_group_does_not_wait_for_its_statuses(driver: HerderDriver) -> None:
    """Kafka may be away: then nothing of them would ever be written."""
    driver.hold("write_status")
    answer = driver.ask(driver.herder.shut_down())
    assert driver.herder.work.running() == []
    assert not answer.is_there
    driver.herder.notice(Lost("the coordinator is silent"), {}, ())
    driver.run()
    assert answer.is_there


# -- settings and states


def test_a_changed_connector_restarts_with_its_new_settings(driver: HerderDriver) -> None:
    driver.written(connector_record("c", {**SOURCE, "x": "y"}))
    assert [made.connector for made in driver.all_made("stop_connector")] == ["c"]
    assert driver.all_made("start_connector")[-1].config["x"] == "y"
    assert len(driver.all_made("generate_task_configs")) == 1


def test_a_successor_waits_for_its_predecessor(driver: HerderDriver) -> None:
    driver.hold("stop_connector")
    driver.written(connector_record("c", {**SOURCE, "x": "y"}))
    driver.written(connector_record("c", {**SOURCE, "x": "z"}))
    assert driver.all_made("start_connector") == []
    driver.release()
    assert [made.config["x"] for made in driver.all_made("start_connector")] == ["z"]


def test_pausing_is_told_to_what_runs_and_resuming_makes_tasks_anew(driver: HerderDriver) -> None:
    driver.written(target_state_record("c", TargetState.PAUSED))
    assert [(made.connector, made.target_state) for made in driver.all_made("set_connector_state")] == [
        ("c", TargetState.PAUSED)
    ]
    assert len(driver.all_made("set_task_state")) == 2
    driver.herder.task_event(TaskPaused(TASK))
    driver.run()
    assert (state(driver, "connector-c"), state(driver, "task-c-0")) == ("PAUSED", "PAUSED")
    assert driver.all_made("generate_task_configs") == []
    driver.written(target_state_record("c", TargetState.STARTED))
    assert len(driver.all_made("generate_task_configs")) == 1
    assert state(driver, "connector-c") == "RUNNING"


def test_a_stopped_connector_keeps_its_place_and_loses_its_tasks_at_once(driver: HerderDriver) -> None:
    answer = driver.ask(driver.herder.states.stop("c"))
    assert answer.is_there
    assert driver.keys_written()[-2:] == ["commit-c", "target-state-c"]
    assert driver.herder.work.running() == ["c"]
    assert state(driver, "connector-c") == "STOPPED"


def test_a_removed_connector_stops_at_once_and_leaves_no_status(driver: HerderDriver) -> None:
    driver.written(*connector_removal("c"))
    assert driver.herder.work.running() == []
    driver.member()
    assert state(driver, "connector-c") is None
    assert driver.statuses[b"status-connector-c"] is None


# -- failures


def test_a_failed_task_comes_back_with_growing_pauses_until_its_budget_is_spent() -> None:
    driver = started(budget=RestartBudget(max_attempts=2, backoff_ms=1_000, backoff_max_ms=60_000, reset_ms=10_000))
    connector(driver, "c", tasks=1)
    driver.member("c", TASK)
    traces = []
    for pause_ms in (1_000, 2_000, 60_000):
        driver.herder.task_event(TaskRunning(TASK))
        driver.herder.task_event(TaskFailed(TASK, "it broke"))
        driver.run()
        traces.append(str(json.loads(driver.statuses[b"status-task-c-0"] or b"")["trace"]))
        starts = len(driver.all_made("start_task"))
        driver.advance(pause_ms - 1)
        assert len(driver.all_made("start_task")) == starts
        driver.advance(1)
    assert len(driver.all_made("start_task")) == 3
    assert traces[0] == "it broke\nRestart 1 of 2 follows in 1 s."
    assert traces[1] == "it broke\nRestart 2 of 2 follows in 2 s."
    assert "restarted 2 times by itself" in traces[2]


def test_a_task_that_ran_well_has_its_budget_back() -> None:
    driver = started(budget=RestartBudget(max_attempts=1, backoff_ms=1_000, reset_ms=10_000))
    connector(driver, "c", tasks=1)
    driver.member("c", TASK)
    for _ in range(3):
        driver.herder.task_event(TaskRunning(TASK))
        driver.advance(10_000)
        driver.herder.task_event(TaskFailed(TASK, "it broke"))
        driver.advance(1_000)
    assert len(driver.all_made("start_task")) == 4


def test_what_can_not_end_otherwise_is_not_tried_again(driver: HerderDriver) -> None:
    driver.herder.task_event(TaskFailed(TASK, "no such class", retriable=False))
    driver.advance(3_600_000)
    assert driver.all_made("start_task") == []
    assert state(driver, "task-c-0") == "FAILED"


def test_a_connector_of_an_unknown_class_fails_once_and_says_why() -> None:
    driver = started()
    driver.refuse("start_connector", StartFailed("this worker does not have it", retriable=False))
    connector(driver, "c", config={"connector.class": "Java"})
    driver.member("c")
    driver.advance(3_600_000)
    assert len(driver.all_made("start_connector")) == 1
    assert driver.all_made("generate_task_configs") == []
    assert b"this worker does not have it" in (driver.statuses[b"status-connector-c"] or b"")


def test_a_connector_that_fails_by_itself_is_stopped_and_started_again(driver: HerderDriver) -> None:
    driver.herder.connector_error("c", "the table is gone", retriable=True)
    driver.run()
    assert [made.connector for made in driver.all_made("stop_connector")] == ["c"]
    assert state(driver, "connector-c") == "FAILED"
    driver.advance(1_000)
    assert len(driver.all_made("start_connector")) == 1
    assert state(driver, "connector-c") == "RUNNING"


def test_news_of_a_task_that_was_let_go_count_no_more(driver: HerderDriver) -> None:
    driver.member("c", OTHER_TASK)
    driver.herder.task_event(TaskRunning(TASK))
    driver.herder.task_event(TaskFailed(TASK, "late"))
    driver.run()
    assert state(driver, "task-c-0") == "UNASSIGNED"


# -- restarts


def test_a_restart_of_a_connector_is_answered_when_it_runs_again(driver: HerderDriver) -> None:
    driver.hold("start_connector")
    answer = driver.ask(driver.herder.restarts.restart_connector("c"))
    assert not answer.is_there
    driver.release()
    assert answer.value is None
    driver.refuse("start_connector", StartFailed("broken", retriable=True))
    assert "broken" in str(driver.ask(driver.herder.restarts.restart_connector("c")).error)


def test_what_another_worker_runs_is_for_that_worker_to_restart(driver: HerderDriver) -> None:
    driver.member(owners={"c": OTHER_URL, TASK: OTHER_URL})
    assert driver.ask(driver.herder.restarts.restart_connector("c")).error.url == OTHER_URL  # type: ignore[attr-defined]
    assert driver.ask(driver.herder.restarts.restart_task(TASK)).error.url == OTHER_URL  # type: ignore[attr-defined]
    unknown = driver.ask(driver.herder.restarts.restart_task(ConnectorTaskId("c", 9))).error
    assert str(unknown) == "Unknown task: c-9"


def test_a_restart_with_tasks_restarts_what_was_planned(driver: HerderDriver) -> None:
    for task in (TASK, OTHER_TASK):
        driver.herder.task_event(TaskRunning(task))
    driver.herder.task_event(TaskFailed(TASK, "it broke", retriable=False))
    driver.run()
    answer = driver.ask(driver.herder.restarts.restart("c", include_tasks=True, only_failed=True))
    assert answer.value.connector.state == "RUNNING"
    assert [task.state for task in answer.value.tasks] == ["RESTARTING", "RUNNING"]
    assert [made.task for made in driver.all_made("start_task")] == [TASK]
    assert driver.all_made("stop_connector") == []


def test_of_waiting_restarts_the_one_with_the_greater_impact_counts(driver: HerderDriver) -> None:
    for task in (TASK, OTHER_TASK):
        driver.herder.task_event(TaskRunning(task))
    driver.run()
    driver.herder.notice(Joining("somebody came"), {}, ())
    driver.written(
        restart_record("c", include_tasks=False, only_failed=True),
        restart_record("c", include_tasks=True, only_failed=False),
        restart_record("c", include_tasks=False, only_failed=False),
    )
    assert driver.all_made("stop_connector") == []
    driver.member("c", TASK, OTHER_TASK)
    assert len(driver.all_made("stop_connector")) == 1
    assert len(driver.all_made("stop_tasks")) == 2


# -- statuses


def test_the_leader_says_that_work_of_a_vanished_worker_is_unassigned() -> None:
    driver = started()
    connector(driver, "c", tasks=1)
    lost = Status(TaskState.RUNNING, "gone:8083", 1)
    for key, value in (connector_status_record("c", lost), task_status_record(TASK, lost)):
        driver.herder.replay_status(key, value)
    driver.member("c", members=[URL])
    assert state(driver, "task-c-0") == "UNASSIGNED"
    assert state(driver, "connector-c") == "RUNNING"


def test_work_of_members_is_left_alone() -> None:
    driver = started()
    connector(driver, "c", tasks=1)
    driver.herder.replay_status(*task_status_record(TASK, Status(TaskState.RUNNING, "there:8083", 1)))
    driver.member("c", members=[URL, OTHER_URL])
    assert not any(made.record[0] == b"status-task-c-0" for made in driver.all_made("write_status"))


def test_the_leader_removes_what_is_not_configured() -> None:
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
    tombstones = {made.record[0] for made in driver.all_made("write_status") if made.record[1] is None}
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


def test_who_has_a_task_says_so_again_when_another_lets_it_go_late(driver: HerderDriver) -> None:
    driver.written(target_state_record("c", TargetState.PAUSED))
    driver.herder.task_event(TaskPaused(TASK))
    driver.run()
    late = Status(TaskState.UNASSIGNED, "there:8083", 1)
    driver.herder.replay_status(*task_status_record(TASK, late))
    driver.run()
    assert state(driver, "task-c-0") == "PAUSED"


def test_a_task_that_starts_here_is_no_longer_shown_where_it_was() -> None:
    driver = started()
    connector(driver, "c", tasks=1)
    driver.herder.replay_status(*task_status_record(TASK, Status(TaskState.FAILED, "there:8083", 1, "it broke")))
    driver.member("c", TASK)
    assert json.loads(driver.statuses[b"status-task-c-0"] or b"")["worker_id"] == "here:8083"
    assert state(driver, "task-c-0") == "UNASSIGNED"


# -- topics in use


def test_topics_that_a_task_has_used_are_said_once_and_by_who_runs_it(driver: HerderDriver) -> None:
    def use(task: ConnectorTaskId, *topics: str) -> None:
        driver.herder.task_event(TopicsUsed(task, frozenset(topics)))
        driver.run()

    use(TASK, "b", "a")
    said = driver.all_made("write_status")
    assert [each.record[0] for each in said] == [b"status-topic-a:connector-c", b"status-topic-b:connector-c"]
    use(OTHER_TASK, "a")
    assert driver.all_made("write_status") == said
    use(ConnectorTaskId("another", 0), "c")
    assert driver.all_made("write_status") == said
    assert driver.herder.statuses.active_topics("c").topics == ["a", "b"]
