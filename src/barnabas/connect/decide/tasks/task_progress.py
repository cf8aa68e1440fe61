"""The progress of this worker's running tasks: rows, batches and the plan of their queries. Tests script it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from barnabas.connect.identifiers import ConnectorTaskId

__all__ = ["QueryPlan", "TaskInsight", "TaskProgress"]


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """The progress of a task since it started on this worker."""

    batches: int
    rows: int
    last_batch_rows: int
    last_batch_ms: int
    finished_at: float
    """The end of the last batch, in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """Texts about a query, without secrets."""

    plan: str
    """Spark's ``explain`` of the last batch."""
    progress: str
    """Spark's last progress, as JSON; empty before the first batch."""
    spark_ui: str | None
    """The URL of Spark's own pages, None if they are switched off."""


@runtime_checkable
class TaskInsight(Protocol):
    """The progress of tasks that a TaskRuntime may report; None for tasks that it does not run."""

    def task_progress(self, task: ConnectorTaskId) -> TaskProgress | None:
        """Return the progress. Never blocks."""

    async def query_plan(self, task: ConnectorTaskId) -> QueryPlan | None:
        """Return the plan; None while its query does not run on this worker."""
