"""The herder reports each failure and each recovery once, from whatever place it comes."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.connect.decide.herder.herder_settings import RestartBudget
from barnabas.connect.decide.herder.local_work import StartFailed
from barnabas.connect.decide.notices.failure_notice import FailureNotice
from barnabas.connect.decide.tasks.task_runtime import BatchSucceeded, TaskFailed, TaskRunning
from barnabas.connect.identifiers import ConnectorTaskId
from tests.unit.connect.decide.herder.herder_driver import HerderDriver, connector, started

TASK = ConnectorTaskId("c", 0)
BUDGET = RestartBudget(max_attempts=2, backoff_ms=1_000, backoff_max_ms=1_000, reset_ms=600_000)


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


def fail_and_restart(driver: HerderDriver) -> None:
    event(driver, TaskFailed(TASK, "the disk is full"))
    driver.advance(1_000)
    event(driver, TaskRunning(TASK))


def kinds(notices: list[FailureNotice]) -> list[str]:
    return [notice.kind.value for notice in notices]


def test_each_failure_is_one_notice_and_the_last_says_that_none_follows(driver: HerderDriver) -> None:
    for _ in range(3):
        fail_and_restart(driver)
    assert kinds(driver.notices) == ["failed", "failed", "exhausted"]
    assert [notice.failure.restarts for notice in driver.notices] == [1, 2, 2]
    assert {notice.unit for notice in driver.notices} == {TASK}


def test_a_failure_that_a_restart_can_not_help_is_exhausted_at_once(driver: HerderDriver) -> None:
    event(driver, TaskFailed(TASK, "an unknown class", retriable=False))
    assert kinds(driver.notices) == ["exhausted"]


def test_without_automatic_restarts_each_failure_is_exhausted() -> None:
    driver = started(budget=RestartBudget(max_attempts=0))
    connector(driver, "c", tasks=1)
    driver.member("c", TASK)
    event(driver, TaskRunning(TASK))
    event(driver, TaskFailed(TASK, "it broke"))
    assert kinds(driver.notices) == ["exhausted"]


def test_a_recovery_is_reported_once_and_only_after_a_failure(driver: HerderDriver) -> None:
    event(driver, BatchSucceeded(TASK))
    assert driver.notices == []
    fail_and_restart(driver)
    event(driver, BatchSucceeded(TASK))
    event(driver, BatchSucceeded(TASK))
    assert kinds(driver.notices) == ["failed", "recovered"]
    assert driver.notices[1].failure.trace == "the disk is full"


def test_a_failed_connector_is_reported_and_recovers_when_it_has_lasted() -> None:
    driver = started(budget=BUDGET)
    driver.refuse("start_connector", StartFailed("no such host", retriable=True))
    connector(driver, "c")
    driver.member("c")
    assert kinds(driver.notices) == ["failed"]
    driver.allow("start_connector")
    driver.advance(1_000)
    assert kinds(driver.notices) == ["failed"]
    driver.advance(BUDGET.reset_ms)
    assert kinds(driver.notices) == ["failed", "recovered"]
    assert [notice.unit for notice in driver.notices] == ["c", "c"]


def test_stopping_and_giving_up_work_is_no_failure(driver: HerderDriver) -> None:
    driver.member()
    driver.member("c", TASK)
    assert driver.notices == []
