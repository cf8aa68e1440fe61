from __future__ import annotations

from barnabas.connect.metrics.task_metrics import BatchTotals, TaskFigures, TaskKind

TASK = "kafka_connect_connector_task_metrics_"
SINK = "kafka_connect_sink_task_metrics_"
SOURCE = "kafka_connect_source_task_metrics_"
ERRORS = "kafka_connect_task_error_metrics_"


class Clock:
    def __init__(self) -> None:
        self.ms = 1000

    def __call__(self) -> int:
        return self.ms


def figures() -> tuple[TaskFigures, Clock]:
    clock = Clock()
    return TaskFigures(monotonic_ms=clock, epoch_ms=lambda: 5_000_000 + clock.ms), clock


def metrics_of(of: TaskFigures) -> dict[str, float]:
    rows = of.metrics()
    assert len({name for name, _, _ in rows}) == len(rows)
    return {name: value for name, _, value in rows}


def test_an_idle_task_has_zeros_and_no_kind() -> None:
    measured, _ = figures()
    found = metrics_of(measured)
    assert set(found.values()) == {0}
    assert not any(name.startswith((SINK, SOURCE)) for name in found)
    assert measured.last_batch is None


def test_time_ratios_cover_the_whole_life_of_the_task() -> None:
    measured, clock = figures()
    clock.ms += 100  # The task starts.
    measured.is_in_state("running")
    clock.ms += 600
    measured.is_in_state("paused")
    clock.ms += 200
    measured.is_in_state("running")
    clock.ms += 100
    found = metrics_of(measured)
    assert (found[f"{TASK}running_ratio"], found[f"{TASK}pause_ratio"]) == (0.7, 0.2)


def test_records_of_a_sink_are_active_until_they_are_written() -> None:
    measured, clock = figures()
    measured.is_of(TaskKind.SINK, partitions=3)
    measured.has_read(10)
    assert metrics_of(measured)[f"{SINK}sink_record_active_count"] == 10
    measured.has_written(read=10, written=8, took_ms=40)
    measured.has_committed(6)
    measured.has_read(20)
    clock.ms += 1
    measured.has_written(read=20, written=20, took_ms=60)
    measured.has_committed(2, succeeded=False)
    found = metrics_of(measured)
    assert found[f"{SINK}partition_count"] == 3
    assert found[f"{SINK}sink_record_read_total"] == 30
    assert found[f"{SINK}sink_record_send_total"] == 28
    assert (found[f"{SINK}sink_record_active_count"], found[f"{SINK}sink_record_active_count_max"]) == (0, 20)
    assert (found[f"{SINK}put_batch_avg_time_ms"], found[f"{SINK}put_batch_max_time_ms"]) == (50, 60)
    assert (found[f"{TASK}batch_size_avg"], found[f"{TASK}batch_size_max"]) == (15, 20)
    assert (found[f"{SINK}offset_commit_completion_total"], found[f"{SINK}offset_commit_seq_no"]) == (1, 2)
    assert found[f"{TASK}offset_commit_success_percentage"] == 0.5
    assert found[f"{TASK}offset_commit_failure_percentage"] == 0.5
    assert found[f"{TASK}offset_commit_max_time_ms"] == 6
    assert measured.last_batch == BatchTotals(2, 30, 20, 60, ended_at_ms=5_001_001)


def test_a_source_counts_records_read_and_written() -> None:
    measured, _ = figures()
    measured.is_of(TaskKind.SOURCE)
    measured.has_read(7)
    measured.has_written(read=7, written=5, took_ms=30)
    found = metrics_of(measured)
    assert found[f"{SOURCE}source_record_poll_total"] == 7
    assert found[f"{SOURCE}source_record_write_total"] == 5
    assert found[f"{SOURCE}poll_batch_max_time_ms"] == 30
    assert not any(name.startswith(SINK) for name in found)


def sizes(measured: TaskFigures) -> list[float | None]:
    found = metrics_of(measured)
    return [found.get(f"{SOURCE}transaction_size_{name}") for name in ("min", "avg", "max")]


def test_transactions_are_measured_by_their_committed_records() -> None:
    measured, _ = figures()
    measured.is_of(TaskKind.SOURCE, has_transactions=True)
    assert sizes(measured) == [0, 0, 0]
    for records in (3, 4):  # Two batches of one transaction.
        measured.has_written(read=records, written=records, took_ms=1)
    measured.has_ended_transaction(is_aborted=False)
    measured.has_written(read=5, written=2, took_ms=1)
    measured.has_ended_transaction(is_aborted=False)
    assert sizes(measured) == [2, 4.5, 7]


def test_an_aborted_transaction_commits_no_records() -> None:
    measured, _ = figures()
    measured.is_of(TaskKind.SOURCE, has_transactions=True)
    measured.has_written(read=6, written=6, took_ms=1)
    measured.has_ended_transaction(is_aborted=True)
    measured.has_written(read=8, written=8, took_ms=1)
    measured.has_abandoned_transaction()
    measured.has_written(read=2, written=2, took_ms=1)
    measured.has_ended_transaction(is_aborted=False)
    assert sizes(measured) == [0, 1, 2]


def test_a_source_without_transactions_has_no_sizes_of_them() -> None:
    measured, _ = figures()
    measured.is_of(TaskKind.SOURCE)
    assert sizes(measured) == [None, None, None]


def test_a_figure_of_the_connector_is_shown_with_its_last_value() -> None:
    figures = TaskFigures(monotonic_ms=lambda: 0, epoch_ms=lambda: 0)
    figures.has_reported("slot_lag_bytes", "Log that is kept.", 1)
    figures.has_reported("slot_lag_bytes", "Log that is kept.", 2)
    found = [metric for metric in figures.metrics() if "slot" in metric[0]]
    assert found == [("kafka_connect_connector_task_metrics_slot_lag_bytes", "Log that is kept.", 2)]


def test_bad_records_and_their_handling_are_counted() -> None:
    measured, _ = figures()
    measured.has_failed(0, skipped=True)
    assert metrics_of(measured)[f"{ERRORS}last_error_timestamp"] == 0
    measured.has_failed(3, skipped=True, logged=2)
    measured.has_failed(1, skipped=False)
    measured.has_sent_dead_letters(3)
    measured.has_sent_dead_letters(2, succeeded=False)
    measured.has_retried()
    found = {
        name.removeprefix(ERRORS): value for name, value in metrics_of(measured).items() if name.startswith(ERRORS)
    }
    assert found == {
        "total_record_errors": 5,
        "total_record_failures": 4,
        "total_records_skipped": 3,
        "total_retries": 1,
        "total_errors_logged": 2,
        "deadletterqueue_produce_requests": 5,
        "deadletterqueue_produce_failures": 2,
        "last_error_timestamp": 5_001_000,
    }


def test_the_first_committed_batch_and_skipped_records_are_reported() -> None:
    heard: list[object] = []
    figures = TaskFigures(
        monotonic_ms=lambda: 0,
        epoch_ms=lambda: 0,
        succeeded=lambda: heard.append("succeeded"),
        skipped=lambda records, letters: heard.append((records, letters)),
    )
    figures.has_committed(0, succeeded=False)
    figures.has_skipped(0, dead_letters=0)
    assert heard == []
    for _ in range(3):
        figures.has_committed(1)
    figures.has_skipped(4, dead_letters=3)
    assert heard == ["succeeded", (4, 3)]
