"""Plan and progress of a query: without secrets, and empty after its end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from barnabas.connect.metrics.task_metrics import TaskFigures
from barnabas.connect_spark.queries.query_progress import plan_of, progress_of


def _query(plan: str, last: str | None, ui: str | None) -> Any:
    option = SimpleNamespace(isDefined=lambda: ui is not None, get=lambda: ui)
    context = SimpleNamespace(uiWebUrl=lambda: option)
    java = SimpleNamespace(
        explainInternal=lambda _: plan,
        lastProgress=lambda: None if last is None else SimpleNamespace(prettyJson=lambda: last),
        sparkSession=lambda: SimpleNamespace(sparkContext=lambda: context),
    )
    return SimpleNamespace(_jsq=java)


def test_a_plan_is_shown_without_secrets() -> None:
    found = plan_of(_query("Scan password=hunter2", '{"url": "hunter2"}', "http://h:4040"), {"db.password": "hunter2"})
    assert found is not None
    assert "hunter2" not in found.plan + found.progress
    assert found.spark_ui == "http://h:4040"


def test_progress_is_missing_before_the_first_batch() -> None:
    found = plan_of(_query("No physical plan. Waiting for data.", None, None), {})
    assert found is not None
    assert (found.progress, found.spark_ui) == ("", None)


def test_a_query_whose_jvm_has_ended_reports_nothing() -> None:
    assert plan_of(SimpleNamespace(_jsq=None), {}) is None


def test_progress_sums_the_batches_of_the_task() -> None:
    figures = TaskFigures(monotonic_ms=lambda: 0, epoch_ms=lambda: 7000)
    assert progress_of(figures) is None
    for rows in (3, 4):
        figures.has_done(rows, 50)
    found = progress_of(figures)
    assert found is not None
    assert (found.batches, found.rows, found.last_batch_rows, found.finished_at) == (2, 7, 4, 7.0)
