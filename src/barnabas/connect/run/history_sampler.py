"""Sample what this worker runs, every ten seconds, into its history.

Records are counted by the tasks themselves, so they cost nothing. The lag of all sinks whose connector runs on this
worker costs two or three requests to brokers together, as one refresh of a console's page does. So a group requests
each lag once, on whichever worker the connector runs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from barnabas.common.clock import Clock
from barnabas.connect.decide.herder.herder import Herder
from barnabas.connect.decide.history.connector_history import FINE, WorkerHistory
from barnabas.connect.decide.history.counter_growth import CounterGrowth
from barnabas.connect.decide.history.figure_ring import Figure
from barnabas.connect.decide.lag.consumer_lag import LagSource
from barnabas.connect.decide.lag.sink_groups import SinkGroups
from barnabas.connect.decide.tasks.task_progress import TaskInsight
from barnabas.connect.identifiers import ConnectorTaskId

__all__ = ["HistorySampler"]

log = logging.getLogger(__name__)


class HistorySampler:
    """Without ``insight`` no records are known."""

    def __init__(
        self,
        history: WorkerHistory,
        herder: Herder,
        clock: Clock,
        *,
        groups: SinkGroups,
        lags: LagSource,
        insight: TaskInsight | None,
    ) -> None:
        self._history = history
        self._herder = herder
        self._clock = clock
        self._groups = groups
        self._lags = lags
        self._insight = insight
        self._growth = CounterGrowth()

    async def run(self) -> None:
        """Sample at the end of each interval, until it is cancelled. Slow brokers do not delay the counters."""
        async with asyncio.TaskGroup() as both:
            both.create_task(self._at_each_end(self.note_records))
            both.create_task(self._at_each_end(self.note_lags))

    async def _at_each_end(self, sample: Callable[[int], Awaitable[None]]) -> None:
        while True:
            now_ms = self._clock.now_ms()
            end_ms = (now_ms // FINE.interval_ms + 1) * FINE.interval_ms
            await asyncio.sleep((end_ms - now_ms) / 1000)
            try:
                await sample(end_ms - 1)
            except Exception:
                log.exception("the history of connectors could not be sampled")

    async def note_records(self, at_ms: int) -> None:
        """Note the growth of counters since the last sample in the interval of this time."""
        self._history.keep_only(self._herder.connectors.names())
        tasks = [unit for unit in self._herder.assigned_work.assigned if isinstance(unit, ConnectorTaskId)]
        self._growth.keep_only(tasks)
        for task in tasks:
            progress = self._insight.task_progress(task) if self._insight is not None else None
            if progress is not None:
                self._history.note(task.connector, Figure.RECORDS, self._growth.since_last(task, progress.rows), at_ms)

    async def note_lags(self, at_ms: int) -> None:
        """Note the lag of sinks in the interval of this time."""
        connectors = [unit for unit in self._herder.assigned_work.assigned if isinstance(unit, str)]
        groups = self._groups.of_all(connectors)
        lags = await self._lags.lags(groups) if groups else {}
        for name in lags.keys() & set(self._herder.connectors.names()):  # Others were deleted meanwhile.
            lag = lags[name].lag
            if lag is not None:
                self._history.note(name, Figure.LAG, lag, at_ms)
