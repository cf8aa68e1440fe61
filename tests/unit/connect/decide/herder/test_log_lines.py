"""The log of a worker: what joined, was assigned, was lost, started, stopped, failed and restarted."""

from __future__ import annotations

import json
import logging

import pytest

from barnabas.connect.decide.backing_stores.config_records import connector_record, connector_removal, restart_record
from barnabas.connect.decide.backing_stores.status_records import Status, task_status_record
from barnabas.connect.decide.group.connect_protocol import Assignment, ProtocolVersion
from barnabas.connect.decide.group.membership_events import Assigned, Joining, StopWork, WorkerGone, WorkersChanged
from barnabas.connect.decide.herder.group_log import listed
from barnabas.connect.decide.herder.herder_settings import RestartBudget
from barnabas.connect.decide.tasks.task_runtime import TaskFailed, TaskPaused, TaskRunning
from barnabas.connect.identifiers import ConnectorTaskId, TaskState
from tests.unit.connect.decide.herder.herder_driver import OTHER_URL, SOURCE, HerderDriver, connector, started

TASK, OTHER_TASK = ConnectorTaskId("c", 0), ConnectorTaskId("c", 1)


@pytest.fixture
def driver(caplog: pytest.LogCaptureFixture) -> HerderDriver:
    """Return the driver of a leader that runs a connector with two tasks; its log is empty."""
    caplog.set_level(logging.INFO)
    driver = started(budget=RestartBudget(max_attempts=1, backoff_ms=1_000))
    connector(driver, "c", tasks=2)
    driver.member("c", TASK)
    caplog.clear()
    return driver


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [f"{record.levelname} {record.getMessage()}" for record in caplog.records]


def test_joins_and_assignments_are_logged(driver: HerderDriver, caplog: pytest.LogCaptureFixture) -> None:
    driver.herder.notice(Joining("a member joined"), {}, ())
    assignment = Assignment(leader="other", leader_url=OTHER_URL, connectors=("c",), tasks=(TASK, OTHER_TASK))
    driver.herder.notice(Assigned(assignment, (), (OTHER_TASK,), 7, "me", False, ProtocolVersion.SESSIONED), {}, ())
    driver.herder.notice(StopWork(9, (), (TASK,), "it was revoked for another worker"), {}, ())
    driver.run()
    assert lines(caplog)[:3] == [
        "INFO joining group workers again: a member joined",
        f"INFO assigned in generation 7 of group workers (protocol sessioned, leader {OTHER_URL}): "
        "connector c, task c-0, task c-1; new: task c-1",
        "INFO stopping task c-0: it was revoked for another worker",
    ]


def test_a_worker_without_work_says_so(driver: HerderDriver, caplog: pytest.LogCaptureFixture) -> None:
    driver.member()
    assert any(line.endswith("leader this worker): nothing") for line in lines(caplog))


def test_lost_workers_are_warnings_with_the_new_owners_of_their_work(
    driver: HerderDriver, caplog: pytest.LogCaptureFixture
) -> None:
    driver.outside.replay_status(*task_status_record(OTHER_TASK, Status(TaskState.RUNNING, "there:8083", 1)))
    gone = WorkerGone(OTHER_URL, {OTHER_TASK: "http://here:8083/", TASK: None})
    driver.herder.notice(WorkersChanged(("http://new:8083/",), (gone,), 300_000), {}, ())
    assert lines(caplog) == [
        "INFO worker http://new:8083/ has joined group workers",
        f"WARNING worker {OTHER_URL} is lost to group workers: http://here:8083/ receives task c-1; "
        "task c-0 waits up to 300 s for its return",
    ]


def test_a_worker_that_gave_up_its_work_has_left(driver: HerderDriver, caplog: pytest.LogCaptureFixture) -> None:
    driver.outside.replay_status(*task_status_record(OTHER_TASK, Status(TaskState.UNASSIGNED, "there:8083", 1)))
    driver.herder.notice(WorkersChanged((), (WorkerGone(OTHER_URL, {OTHER_TASK: None}),), 0), {}, ())
    assert lines(caplog)[0].startswith(f"INFO worker {OTHER_URL} has left group workers")


def test_a_new_leader_reports_the_lost_leader_once_with_the_new_owners_of_its_work(
    driver: HerderDriver, caplog: pytest.LogCaptureFixture
) -> None:
    driver.outside.replay_status(*task_status_record(OTHER_TASK, Status(TaskState.RUNNING, "lost:8083", 1)))
    driver.hold("write_status")
    for _ in range(2):
        driver.member("c", TASK, owners={OTHER_TASK: OTHER_URL})
    warnings = [line for line in lines(caplog) if line.startswith("WARNING")]
    assert warnings == [f"WARNING worker lost:8083 is lost to group workers: {OTHER_URL} receives task c-1"]


def test_taking_over_names_the_worker_before(driver: HerderDriver, caplog: pytest.LogCaptureFixture) -> None:
    driver.outside.replay_status(*task_status_record(OTHER_TASK, Status(TaskState.RUNNING, "there:8083", 1)))
    driver.member("c", TASK, OTHER_TASK)
    assert "INFO taking over task c-1, which was RUNNING on worker there:8083" in lines(caplog)


def test_the_life_of_a_task_is_logged(driver: HerderDriver, caplog: pytest.LogCaptureFixture) -> None:
    driver.herder.task_event(TaskRunning(TASK))
    driver.herder.task_event(TaskPaused(TASK))
    driver.herder.task_event(TaskFailed(TASK, "it broke"))
    driver.advance(1_000)
    driver.member("c")
    assert lines(caplog)[:4] == [
        "INFO task c-0 is running",
        "INFO task c-0 is paused",
        "ERROR task c-0 has failed: it broke\nRestart 1 of 1 follows in 1 s.",
        "INFO restarting task c-0 automatically, attempt 1",
    ]
    assert "INFO starting task c-0" in lines(caplog)
    assert lines(caplog)[-1] == "INFO task c-0 has stopped"


def test_a_status_names_its_worker_because_any_worker_may_show_it(driver: HerderDriver) -> None:
    driver.herder.task_event(TaskFailed(TASK, "/data does not exist on this worker. This worker's disk is empty."))
    driver.run()
    trace = json.loads(driver.statuses[b"status-task-c-0"] or b"")["trace"]
    assert trace.startswith("/data does not exist on worker here:8083. Worker here:8083's disk is empty.")


def test_requested_restarts_are_logged(driver: HerderDriver, caplog: pytest.LogCaptureFixture) -> None:
    driver.request(driver.herder.restarts.restart_task(TASK))
    assert lines(caplog)[0] == "INFO restarting task c-0, as a user requested"
    caplog.clear()
    driver.written(restart_record("c", include_tasks=True, only_failed=False))
    assert "INFO restarting connector c, task c-0, as a user requested" in lines(caplog)


def test_changes_of_connectors_are_logged(driver: HerderDriver, caplog: pytest.LogCaptureFixture) -> None:
    driver.written(connector_record("new", SOURCE), connector_record("c", SOURCE), *connector_removal("new"))
    assert [line for line in lines(caplog) if " was " in line] == [
        "INFO connector new was created",
        "INFO connector c was given a new configuration",
        "INFO connector new was deleted",
    ]


def test_a_long_list_is_cut() -> None:
    text = listed(ConnectorTaskId("c", number) for number in range(33))
    assert text.endswith(", and 3 more")
    assert text.count("task ") == 30
