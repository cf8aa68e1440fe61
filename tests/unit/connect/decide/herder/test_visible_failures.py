"""What must not look healthy stays in the status until it is over, on whichever worker."""

from __future__ import annotations

import json
from typing import Any

import pytest

from barnabas.connect.decide.backing_stores.config_records import target_state_record
from barnabas.connect.decide.backing_stores.status_records import Status, task_status_record
from barnabas.connect.decide.herder.herder_settings import RestartBudget
from barnabas.connect.decide.herder.local_work import StartFailed
from barnabas.connect.decide.tasks.task_runtime import BatchSucceeded, RecordsSkipped, TaskFailed, TaskRunning
from barnabas.connect.entities import ConnectorDetails, TaskDetails
from barnabas.connect.errors import NotLeader
from barnabas.connect.identifiers import ConnectorTaskId, TargetState, TaskState
from tests.unit.connect.decide.herder.herder_driver import (
    OTHER_URL,
    SINK,
    URL,
    WALL_MS,
    HerderDriver,
    connector,
    started,
)

TASK = ConnectorTaskId("c", 0)
BUDGET = RestartBudget(max_attempts=10, backoff_ms=1_000, reset_ms=600_000)
TRACE = "the disk is full\n  at write\n"


@pytest.fixture
def driver() -> HerderDriver:
    """Return the driver of a leader that runs a connector with one task."""
    driver = started(budget=BUDGET)
    connector(driver, "c", tasks=1)
    driver.member("c", TASK)
    event(driver, TaskRunning(TASK))
    return driver


def event(driver: HerderDriver, happened: Any) -> None:
    driver.herder.task_event(happened)
    driver.run()


def fail_and_restart(driver: HerderDriver, times: int) -> None:
    for _ in range(times):
        event(driver, TaskFailed(TASK, TRACE))
        driver.advance(60_000)
        event(driver, TaskRunning(TASK))


def details(driver: HerderDriver) -> TaskDetails:
    found = driver.herder.statuses.task_details(TASK)
    assert isinstance(found, TaskDetails)
    return found


def record(driver: HerderDriver, unit: str = "task-c-0") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(driver.statuses[f"status-{unit}".encode()] or b"")
    return found


# -- the last failure


def test_a_failure_and_its_restarts_stay_until_a_batch_succeeds(driver: HerderDriver) -> None:
    fail_and_restart(driver, 7)
    status = driver.herder.statuses.task_status(TASK)
    assert status.state == "RUNNING"
    assert status.trace.splitlines() == [
        "the disk is full",
        "  at write",
        "It runs again after restart 7 of 10, but no batch has succeeded since.",
    ]
    event(driver, BatchSucceeded(TASK))
    assert driver.herder.statuses.task_status(TASK).trace == ""
    assert "barnabas" not in record(driver)


def test_a_failure_is_shown_while_its_restart_is_under_way(driver: HerderDriver) -> None:
    event(driver, TaskFailed(TASK, TRACE))
    driver.advance(2_000)
    status = driver.herder.statuses.task_status(TASK)
    assert status.state == "RESTARTING"
    assert status.trace.startswith("the disk is full\n")


def test_details_have_the_failure_as_fields(driver: HerderDriver) -> None:
    fail_and_restart(driver, 2)
    found = details(driver)
    assert found.last_failure is not None
    assert (found.last_failure.reason, found.last_failure.restarts, found.last_failure.restarts_max) == (
        "the disk is full",
        2,
        10,
    )
    assert found.last_failure.time == WALL_MS + 60_000
    (task,) = driver.herder.statuses.connector_details("c").tasks
    assert task == found


def test_kafka_workers_read_the_failure_in_the_field_that_they_know(driver: HerderDriver) -> None:
    fail_and_restart(driver, 1)
    found = record(driver)
    assert found["state"] == "RUNNING"
    assert found["trace"].startswith("the disk is full")
    assert set(found) - {"barnabas"} == {"state", "trace", "worker_id", "generation", "version"}


def test_another_worker_continues_with_the_failure_and_its_number_of_restarts(driver: HerderDriver) -> None:
    fail_and_restart(driver, 7)
    successor = started(budget=BUDGET)
    for key, value in driver.statuses.items():
        successor.herder.replay_status(key, (value or b"").replace(b"here:8083", b"there:8083"))
    connector(successor, "c", tasks=1)
    successor.member("c", TASK)
    event(successor, TaskRunning(TASK))
    assert "after restart 7 of 10" in successor.herder.statuses.task_status(TASK).trace
    event(successor, TaskFailed(TASK, TRACE))
    assert successor.herder.statuses.task_status(TASK).trace.splitlines()[-1] == "Restart 8 of 10 follows in 60 s."


def test_a_worker_that_starts_again_continues_as_well(driver: HerderDriver) -> None:
    fail_and_restart(driver, 3)
    again = started(budget=BUDGET)
    for key, value in driver.statuses.items():
        again.herder.replay_status(key, value)
    connector(again, "c", tasks=1)
    again.member("c", TASK)
    event(again, TaskRunning(TASK))
    found = details(again).last_failure
    assert found is not None
    assert found.restarts == 3


def test_work_without_an_owner_keeps_its_failure(driver: HerderDriver) -> None:
    leader = started()
    connector(leader, "c", tasks=1)
    fail_and_restart(driver, 1)
    value = driver.statuses[b"status-task-c-0"] or b""
    leader.herder.replay_status(b"status-task-c-0", value.replace(b"here:8083", b"gone:8083"))
    leader.member("c")
    leader.member("c", members=[URL, OTHER_URL])
    found = leader.herder.statuses.task_status(TASK)
    assert (found.state, found.trace.splitlines()[0]) == ("UNASSIGNED", "the disk is full")


def test_a_restart_by_a_user_keeps_the_failure_and_forgets_the_restarts(driver: HerderDriver) -> None:
    fail_and_restart(driver, 4)
    driver.request(driver.herder.restarts.restart_task(TASK))
    event(driver, TaskRunning(TASK))
    trace = driver.herder.statuses.task_status(TASK).trace
    assert trace.splitlines()[-1] == "It was started again, but no batch has succeeded since."
    event(driver, TaskFailed(TASK, TRACE))
    assert "Restart 1 of 10 follows" in driver.herder.statuses.task_status(TASK).trace


def test_a_permanent_failure_is_shown_until_a_batch_succeeds_after_its_repair(driver: HerderDriver) -> None:
    event(driver, TaskFailed(TASK, "no such table", retriable=False))
    driver.request(driver.herder.restarts.restart_task(TASK))
    event(driver, TaskRunning(TASK))
    assert driver.herder.statuses.task_status(TASK).trace.startswith("no such table\n")
    event(driver, BatchSucceeded(TASK))
    assert driver.herder.statuses.task_status(TASK).trace == ""


def test_a_failed_connector_is_shown_until_it_has_run_long_enough(driver: HerderDriver) -> None:
    driver.herder.connector_error("c", "the source refuses", retriable=True)
    driver.run()
    driver.advance(2_000)
    status = driver.herder.statuses
    assert status.connector_status("c").connector.state == "RUNNING"
    assert "after restart 1 of 10" in status.connector_status("c").connector.trace
    driver.advance(BUDGET.reset_ms)
    assert status.connector_status("c").connector.trace == ""


def test_a_connector_that_flaps_keeps_its_failure(driver: HerderDriver) -> None:
    for _ in range(3):
        driver.herder.connector_error("c", "the source refuses", retriable=True)
        driver.advance(60_000)
    driver.advance(BUDGET.reset_ms - 70_000)
    assert "after restart 3 of 10" in driver.herder.statuses.connector_status("c").connector.trace


def test_a_connector_that_a_user_repairs_is_healthy_when_it_has_started(driver: HerderDriver) -> None:
    driver.refuse("start_connector", StartFailed("no such setting", retriable=False))
    driver.herder.connector_error("c", "broken", retriable=True)
    driver.advance(2_000)
    assert driver.herder.statuses.connector_status("c").connector.state == "FAILED"
    driver.allow("start_connector")
    driver.request(driver.herder.restarts.restart_connector("c"))
    found = driver.herder.statuses.connector_status("c").connector
    assert (found.state, found.trace) == ("RUNNING", "")


def test_a_stopped_connector_shows_no_failure(driver: HerderDriver) -> None:
    driver.herder.connector_error("c", "the source refuses", retriable=True)
    driver.advance(2_000)
    driver.written(target_state_record("c", TargetState.STOPPED))
    found = driver.herder.statuses.connector_status("c").connector
    assert (found.state, found.trace) == ("STOPPED", "")


def test_a_trace_of_a_kafka_worker_is_shown_unchanged() -> None:
    driver = started()
    connector(driver, "c", tasks=1)
    other = Status(TaskState.FAILED, "java:8083", 1, "java.lang.Error\n\tat X.java:1\n", "4.3.1")
    driver.herder.replay_status(*task_status_record(TASK, other))
    driver.herder.replay_status(b"status-connector-c", (task_status_record(TASK, other)[1] or b""))
    assert driver.herder.statuses.task_status(TASK).trace == "java.lang.Error\n\tat X.java:1\n"
    assert details(driver).last_failure is None


# -- the history of errors


def test_every_failure_and_every_skipped_record_is_in_the_history(driver: HerderDriver) -> None:
    fail_and_restart(driver, 3)
    event(driver, RecordsSkipped(TASK, 7, 5))
    event(driver, RecordsSkipped(TASK, 1, 0))
    driver.herder.connector_error("c", "\n\nthe source refuses\n at x", retriable=True)
    driver.advance(2_000)
    found = driver.history.read("c", 1, driver.outside.now_ms() + 60_000)
    assert (sum(found.failures), sum(found.skipped_records), sum(found.dead_letters)) == (4, 8, 5)
    reasons = [(past.task, past.reason) for past in found.last_failures]
    assert reasons == [(None, "the source refuses"), *[(0, "the disk is full")] * 3]


# -- the workers of the group


def test_the_leader_knows_the_other_workers(driver: HerderDriver) -> None:
    assert driver.request(driver.herder.other_workers()).value == [OTHER_URL]


def test_another_worker_names_the_leader() -> None:
    driver = started(leads=False)
    error = driver.request(driver.herder.other_workers()).error
    assert isinstance(error, NotLeader)
    assert error.url == OTHER_URL


# -- topics that a sink waits for


@pytest.fixture
def sink() -> HerderDriver:
    driver = started()
    connector(driver, "c", config={**SINK, "topics": "orders"})
    driver.member("c")
    return driver


def test_a_sink_without_its_topic_says_that_it_waits(sink: HerderDriver) -> None:
    sink.herder.topics_missing("c", ("orders",))
    sink.run()
    found = sink.herder.statuses.connector_details("c").connector
    assert isinstance(found, ConnectorDetails)
    assert (found.state, found.waits_for) == ("RUNNING", ("orders",))
    assert found.trace == ("It waits for topics: topic orders does not exist, or this worker may not describe them.")
    sink.herder.topics_missing("c", ())
    sink.run()
    assert sink.herder.statuses.connector_status("c").connector.trace == ""
    assert "barnabas" not in record(sink, "connector-c")


def test_a_paused_sink_waits_for_nothing(sink: HerderDriver) -> None:
    sink.herder.topics_missing("c", ("topics.regex=orders.*",))
    sink.run()
    assert "none matches topics.regex=orders.*" in sink.herder.statuses.connector_status("c").connector.trace
    sink.written(target_state_record("c", TargetState.PAUSED))
    found = sink.herder.statuses.connector_status("c").connector
    assert (found.state, found.trace) == ("PAUSED", "")


# -- skipped records


def test_skipped_records_are_counted_and_written_at_intervals(driver: HerderDriver) -> None:
    for _ in range(3):
        event(driver, RecordsSkipped(TASK, 5, 4))
    assert (record(driver)["barnabas"]["skipped_records"], record(driver)["barnabas"]["dead_letters"]) == (5, 4)
    driver.advance(5_000)
    found = details(driver)
    assert (found.skipped_records, found.dead_letters) == (15, 12)
    before = len(driver.calls_of("write_status"))
    driver.advance(60_000)
    assert len(driver.calls_of("write_status")) == before


def test_counts_outlast_failures_restarts_and_moves(driver: HerderDriver) -> None:
    event(driver, RecordsSkipped(TASK, 3, 3))
    fail_and_restart(driver, 1)
    event(driver, BatchSucceeded(TASK))
    event(driver, RecordsSkipped(TASK, 2, 0))
    driver.member("c")
    found = details(driver)
    assert (found.state, found.skipped_records, found.dead_letters) == ("UNASSIGNED", 5, 3)
    driver.member("c", TASK)
    event(driver, TaskRunning(TASK))
    event(driver, RecordsSkipped(TASK, 1, 1))
    driver.advance(10_000)
    assert driver.herder.statuses.counts(TASK) == (6, 4)


def test_a_broken_field_of_ours_does_not_hide_a_status() -> None:
    driver = started()
    connector(driver, "c", tasks=1)
    value = {"state": "RUNNING", "trace": None, "worker_id": "x:1", "generation": 1, "barnabas": {"dead_letters": "x"}}
    driver.herder.replay_status(b"status-task-c-0", json.dumps(value).encode())
    assert driver.herder.statuses.task_status(TASK).state == "RUNNING"


def test_a_trace_with_half_of_a_surrogate_pair_is_a_failure_as_any_other(driver: HerderDriver) -> None:
    """Python writes the name of a file that is not UTF-8 so."""
    event(driver, TaskFailed(TASK, "OSError: can't open 'orders\udcff'"))
    failure = details(driver).last_failure
    assert failure is not None
    assert failure.reason == r"OSError: can't open 'orders\udcff'"
