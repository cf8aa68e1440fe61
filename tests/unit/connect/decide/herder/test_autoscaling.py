"""The owner of a connector with autoscaling changes the number of its tasks, and says why."""

from __future__ import annotations

import logging

import pytest

from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.decide.tasks.task_runtime import TaskRunning
from barnabas.connect.entities import ConnectorDetails
from barnabas.connect.identifiers import ConnectorTaskId
from tests.unit.connect.decide.herder.herder_driver import SINK, HerderDriver, commit, connector, started

AUTOSCALED = {
    **SINK,
    "tasks.max": "4",
    "barnabas.tasks.autoscale.enable": "true",
    "barnabas.tasks.autoscale.catch.up.ms": "60000",
    "barnabas.tasks.autoscale.cool.down.ms": "120000",
}
PARTITIONS = frozenset(TopicPartition("t", number) for number in range(8))


def with_tasks(count: int, config: dict[str, str] = AUTOSCALED) -> HerderDriver:
    """Return a driver of a leader that runs a sink with so many tasks."""
    driver = started()
    connector(driver, "c", config=config)
    if count:
        commit(driver, "c", count)
    run_tasks(driver)
    return driver


def run_tasks(driver: HerderDriver) -> None:
    """Complete a rebalance, after which all configured tasks run here."""
    tasks = driver.herder.config.tasks("c")
    driver.member("c", *tasks)
    for task in tasks:
        driver.herder.task_event(TaskRunning(task))
    driver.run()


def observe(driver: HerderDriver, times: int, *, rate: int, arrival: int, lag: int = 10_000_000) -> None:
    """Sample once in 30 s. Rates are records per second."""
    for number in range(times):
        position = number * rate * 30
        driver.herder.autoscaling.observe(
            "c", PARTITIONS, position=position, end=lag + number * arrival * 30, may_skip=False
        )
        driver.run()
        driver.advance(30_000)


def task_count(driver: HerderDriver) -> int:
    return driver.herder.config.task_count("c")


def details(driver: HerderDriver) -> ConnectorDetails:
    found = driver.herder.statuses.connector_details("c").connector
    assert isinstance(found, ConnectorDetails)
    return found


def test_a_new_sink_begins_with_the_least_number_of_tasks() -> None:
    assert task_count(with_tasks(0, {**AUTOSCALED, "barnabas.tasks.autoscale.min": "2"})) == 2
    assert task_count(with_tasks(0, {**SINK, "tasks.max": "4"})) == 4


def test_an_existing_sink_keeps_its_number_within_the_bounds() -> None:
    assert task_count(with_tasks(3)) == 3
    assert task_count(with_tasks(8)) == 4


def test_a_sink_that_is_behind_receives_more_tasks_and_the_reason_is_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    driver = with_tasks(1)
    observe(driver, 5, rate=100, arrival=100)
    assert task_count(driver) == 2
    shown = details(driver).autoscaling
    assert shown is not None
    assert (shown.tasks, shown.reason.partition(":")[0]) == (2, "from 1 to 2 tasks")
    lines = [line for line in caplog.messages if line.startswith("autoscaling of connector c: from 1 to 2 tasks: ")]
    assert len(lines) == 1
    run_tasks(driver)
    observe(driver, 6, rate=200, arrival=100)
    assert task_count(driver) == 4
    assert driver.herder.autoscaling.wanted_tasks("c") == 4


def test_the_limit_is_shown_once_and_so_is_its_end() -> None:
    driver = with_tasks(4)
    observe(driver, 12, rate=100, arrival=200)
    shown = details(driver).autoscaling
    assert shown is not None
    assert shown.reason.endswith("tasks.max allows no more than 4 tasks")
    written = driver.statuses[b"status-connector-c"]
    observe(driver, 3, rate=100, arrival=200)
    assert driver.statuses[b"status-connector-c"] == written
    observe(driver, 8, rate=100, arrival=100, lag=3_000)
    shown = details(driver).autoscaling
    assert shown is not None
    assert "tasks keep up" in shown.reason


def test_the_decision_outlasts_a_change_of_the_owner() -> None:
    driver = with_tasks(1)
    observe(driver, 5, rate=100, arrival=100)
    driver.member(owners={"c": "http://there:8083/"})
    assert details(driver).autoscaling is not None
    run_tasks(driver)
    assert task_count(driver) == 2
    shown = details(driver).autoscaling
    assert shown is not None
    assert shown.tasks == 2


def test_nothing_is_decided_while_a_task_does_not_run() -> None:
    driver = with_tasks(2)
    driver.member("c", ConnectorTaskId("c", 0), owners={ConnectorTaskId("c", 1): "http://there:8083/"})
    observe(driver, 12, rate=100, arrival=100)
    assert task_count(driver) == 2
    assert details(driver).autoscaling is None


def test_without_autoscaling_nothing_is_decided() -> None:
    driver = with_tasks(1, {**SINK, "tasks.max": "1"})
    observe(driver, 12, rate=100, arrival=100)
    assert task_count(driver) == 1
    assert driver.herder.autoscaling.wanted_tasks("c") is None
    assert details(driver).autoscaling is None
