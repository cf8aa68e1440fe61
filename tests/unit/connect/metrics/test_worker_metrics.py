from __future__ import annotations

from collections.abc import Mapping

import pytest
from prometheus_client.parser import text_string_to_metric_families

from barnabas.connect.decide.tasks.task_runtime import BatchSucceeded, RecordsSkipped, TaskFailed, TaskRunning
from barnabas.connect.identifiers import ConnectorTaskId
from barnabas.connect.metrics.task_metrics import TaskFigures, TaskKind
from barnabas.connect.metrics.worker_metrics import WorkerMetrics
from tests.unit.connect.decide.herder.herder_driver import HerderDriver, connector, started

TASK, OTHER_TASK = ConnectorTaskId("c", 0), ConnectorTaskId("c", 1)
WORKER = "kafka_connect_connect_worker_metrics_"
REBALANCE = "kafka_connect_connect_worker_rebalance_metrics_"


class Measured(dict[ConnectorTaskId, TaskFigures]):
    """The figures of some tasks."""

    def figures(self, task: ConnectorTaskId) -> TaskFigures | None:
        return self.get(task)


@pytest.fixture
def driver() -> HerderDriver:
    """Return the driver of a leader that runs a connector with two tasks."""
    driver = started()
    connector(driver, "c", tasks=2)
    driver.member("c", TASK, OTHER_TASK)
    for task in (TASK, OTHER_TASK):
        driver.herder.task_event(TaskRunning(task))
    driver.run()
    return driver


def samples(
    driver: HerderDriver, tasks: Measured | None = None, sink_lags: Mapping[str, int] | None = None
) -> dict[tuple[str, ...], float]:
    """Return the samples by name and label values."""
    body, content_type = WorkerMetrics(driver.herder, tasks, sink_lags=lambda: sink_lags or {}).exposition()
    assert content_type.startswith("text/plain")
    families = text_string_to_metric_families(body.decode())
    return {
        (sample.name, *(text for _, text in sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_connectors_and_tasks_are_counted_in_total_and_by_state(driver: HerderDriver) -> None:
    found = samples(driver)
    assert found[WORKER + "connector_count",] == 1
    assert found[WORKER + "task_count",] == 2
    assert found[WORKER + "task_startup_success_total",] == 2
    assert found[WORKER + "task_startup_success_percentage",] == 1
    assert found[WORKER + "connector_total_task_count", "c"] == 2
    assert found[WORKER + "connector_running_task_count", "c"] == 2
    assert found["kafka_connect_connector_task_metrics_status", "c", "running", "0"] == 1


def test_a_failed_task_is_counted_as_failed_and_so_is_its_restart(driver: HerderDriver) -> None:
    driver.herder.task_event(TaskFailed(TASK, "it broke"))
    driver.run()
    found = samples(driver)
    assert found[WORKER + "task_count",] == 1
    assert found[WORKER + "connector_failed_task_count", "c"] == 1
    driver.advance(2_000)
    assert samples(driver)["barnabas_connect_task_restarts", "c", "0"] == 1


def test_a_failure_is_in_the_metrics_until_a_batch_succeeds(driver: HerderDriver) -> None:
    driver.herder.task_event(TaskFailed(TASK, "it broke"))
    driver.run()
    failed_ms = driver.outside.now_ms()
    status, restarts = "kafka_connect_connector_task_metrics_status", "barnabas_connect_task_restarts"
    found = samples(driver)  # The task does not run, and is reported nevertheless.
    assert (found[status, "c", "failed", "0"], found[restarts, "c", "0"]) == (1, 1)
    driver.advance(2_000)
    driver.herder.task_event(TaskRunning(TASK))
    driver.run()
    found = samples(driver)
    assert found["barnabas_connect_task_last_failure_timestamp", "c", "0"] == failed_ms
    assert found["barnabas_connect_task_last_failure_timestamp", "c", "1"] == 0
    driver.herder.task_event(BatchSucceeded(TASK))
    driver.run()
    assert samples(driver)["barnabas_connect_task_last_failure_timestamp", "c", "0"] == 0


def test_skipped_records_and_missing_topics_are_metrics(driver: HerderDriver) -> None:
    driver.herder.task_event(RecordsSkipped(TASK, 5, 4))
    driver.herder.topics_missing("c", ("orders", "payments"))
    driver.run()
    found = samples(driver)
    assert found["barnabas_connect_task_skipped_records_total", "c", "0"] == 5
    assert found["barnabas_connect_task_dead_letters_total", "c", "0"] == 4
    assert found["barnabas_connect_connector_missing_topics", "c"] == 2


def test_the_lag_of_a_connector_that_another_worker_has_taken_over_is_not_reported(driver: HerderDriver) -> None:
    found = samples(driver, sink_lags={"c": 7, "moved": 9})
    assert {name[1]: value for name, value in found.items() if name[0] == "barnabas_connect_sink_lag_records"} == {
        "c": 7
    }


def test_the_protocol_and_the_leader_are_labels(driver: HerderDriver) -> None:
    found = samples(driver)
    assert found[REBALANCE + "connect_protocol", "SESSIONED"] == 1
    assert any(name[0] == REBALANCE + "leader_name" and name[1].startswith("http://") for name in found)
    assert found[REBALANCE + "epoch",] == driver.herder.context.group.generation


def test_the_time_since_the_last_rebalance_grows_while_nothing_happens(driver: HerderDriver) -> None:
    """The value equals that of a Kafka worker: the difference to the time of the request."""
    metrics = WorkerMetrics(driver.herder)
    name = REBALANCE + "time_since_last_rebalance_ms"

    def since_ms() -> float:
        families = text_string_to_metric_families(metrics.exposition()[0].decode())
        return next(sample.value for family in families for sample in family.samples if sample.name == name)

    before = since_ms()
    driver.advance(26_046)
    assert since_ms() == before + 26_046


def test_the_success_percentage_is_zero_before_any_start() -> None:
    found = samples(started())
    assert found[WORKER + "connector_startup_attempts_total",] == 0
    assert found[WORKER + "connector_startup_success_percentage",] == 0


def test_metrics_are_reported_for_tasks_of_this_worker_only(driver: HerderDriver) -> None:
    measured = Measured({task: TaskFigures(monotonic_ms=lambda: 0, epoch_ms=lambda: 0) for task in (TASK, OTHER_TASK)})
    measured[TASK].is_of(TaskKind.SINK, partitions=2)
    measured[TASK].has_read(5)
    measured[OTHER_TASK].has_failed(3, skipped=True)
    measured[ConnectorTaskId("elsewhere", 0)] = measured[TASK]
    found = samples(driver, measured)
    assert found["kafka_connect_sink_task_metrics_sink_record_read_total", "c", "0"] == 5
    assert found["kafka_connect_sink_task_metrics_partition_count", "c", "0"] == 2
    assert found["kafka_connect_task_error_metrics_total_records_skipped", "c", "1"] == 3
    assert found["kafka_connect_task_error_metrics_total_records_skipped", "c", "0"] == 0
    assert not any("elsewhere" in name for name in found)
    driver.herder.task_event(TaskFailed(TASK, "it broke"))
    driver.run()
    after = samples(driver, measured)
    assert ("kafka_connect_sink_task_metrics_sink_record_read_total", "c", "0") not in after
