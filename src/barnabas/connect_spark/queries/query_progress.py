"""Read a running query's plan and its last batch, for the console."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from barnabas.connect.decide.tasks.task_progress import QueryPlan, TaskProgress
from barnabas.connect.metrics.task_metrics import TaskFigures
from barnabas.connect_spark.queries.batch_loop import BatchLoop
from barnabas.connect_spark.queries.failure_trace import without_secrets
from barnabas.connect_spark.queries.followed_query import FollowedQuery

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from barnabas.connect_spark.queries.running_query import RunningQuery

__all__ = ["plan_of", "progress_of"]

log = logging.getLogger(__name__)


def progress_of(figures: TaskFigures) -> TaskProgress | None:
    """Return the progress; None before the first batch has ended."""
    found = figures.last_batch
    if found is None:
        return None
    return TaskProgress(
        batches=found.batches,
        rows=found.records,
        last_batch_rows=found.last_records,
        last_batch_ms=found.last_ms,
        finished_at=found.ended_at_ms / 1000,
    )


def plan_of(query: RunningQuery, config: Mapping[str, str]) -> QueryPlan | None:
    """Return the plan. Waits for Spark. None for a query that has just ended. ``config`` has the secrets to hide."""
    try:
        if isinstance(query, BatchLoop | FollowedQuery):
            (plan, progress), spark_ui = query.explained(), None
        else:
            plan, progress, spark_ui = _told_by_jvm(cast("StreamingQuery", query))
    except Exception as error:  # Its JVM may be ending.
        log.debug("cannot read the plan of a query: %s", error)
        return None
    return QueryPlan(without_secrets(plan, config), without_secrets(progress, config), spark_ui)


def _told_by_jvm(query: StreamingQuery) -> tuple[str, str, str | None]:
    java = query._jsq
    plan = str(java.explainInternal(False))
    last = java.lastProgress()
    progress = "" if last is None else str(last.prettyJson())
    ui = java.sparkSession().sparkContext().uiWebUrl()
    return plan, progress, str(ui.get()) if ui.isDefined() else None
