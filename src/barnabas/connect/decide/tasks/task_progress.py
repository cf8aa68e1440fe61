"""What the console asks beyond the herder: of running queries, and of consumer groups. Tests have scripted ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from barnabas.connect.identifiers import ConnectorTaskId

__all__ = ["GroupLag", "LagSource", "PartitionLag", "QueryPlan", "TaskInsight", "TaskProgress"]


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """Of a task that runs on this worker, since it started here."""

    batches: int
    rows: int
    last_batch_rows: int
    last_batch_ms: int
    finished_at: float
    """The end of the last batch, in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """Texts without secrets."""

    plan: str
    """Spark's ``explain`` of the last batch."""
    progress: str
    """Spark's last progress, as JSON; empty before the first batch."""
    spark_ui: str | None
    """The URL of Spark's own pages, None if they are switched off."""


@runtime_checkable
class TaskInsight(Protocol):
    """What a TaskRuntime may tell of the tasks that it runs; None for all others."""

    def task_progress(self, task: ConnectorTaskId) -> TaskProgress | None:
        """Never blocks."""

    async def query_plan(self, task: ConnectorTaskId) -> QueryPlan | None:
        """None as long as its query does not run here."""


@dataclass(frozen=True, slots=True, order=True)
class PartitionLag:
    topic: str
    partition: int
    position: int
    end: int
    per_second: float | None = None
    """How fast the position moves; None before it was seen twice."""

    @property
    def lag(self) -> int:
        """Two questions at two moments: the position may have passed the end that was told."""
        return max(0, self.end - self.position)


@dataclass(frozen=True, slots=True)
class GroupLag:
    """``problem`` says why there is nothing, if something went wrong."""

    partitions: tuple[PartitionLag, ...] = ()
    problem: str = ""

    @property
    def lag(self) -> int | None:
        return sum(each.lag for each in self.partitions) if self.partitions else None

    @property
    def per_second(self) -> float | None:
        known = [each.per_second for each in self.partitions if each.per_second is not None]
        return sum(known) if known else None


class LagSource(Protocol):
    async def lags(self, groups: Mapping[str, str]) -> Mapping[str, GroupLag]:
        """Of connectors, by the consumer group of each. Raises nothing; takes seconds if brokers do not answer."""
