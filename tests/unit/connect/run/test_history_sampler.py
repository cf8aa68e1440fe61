"""Samples of a worker's work: growth of counters, and the lag of its own sinks only."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.system_clock import SystemClock
from barnabas.connect.decide.history.connector_history import WorkerHistory
from barnabas.connect.decide.history.counter_growth import CounterGrowth
from barnabas.connect.decide.lag.consumer_lag import GroupLag, PartitionLag, SinkGroup
from barnabas.connect.decide.lag.sink_groups import SinkGroups
from barnabas.connect.decide.tasks.task_progress import TaskProgress
from barnabas.connect.identifiers import ConnectorTaskId
from barnabas.connect.run.history_sampler import HistorySampler
from tests.peers.scripted_herder import ScriptedCluster, ScriptedHerder

START_MS = 1_795_260_000_000
SINK = {"connector.class": "FileStreamSink", "topics": "t"}
SOURCE = {"connector.class": "FileStreamSource", "topic": "t"}
OWN_TASK = ConnectorTaskId("sink", 0)


class _Lags:
    def __init__(self) -> None:
        self.requested: list[dict[str, SinkGroup]] = []
        self.problem = ""

    async def lags(self, groups: Mapping[str, SinkGroup]) -> Mapping[str, GroupLag]:
        self.requested.append(dict(groups))
        partitions = (PartitionLag("t", 0, 10, 17), PartitionLag("t", 1, 5, 5))
        return {name: GroupLag(() if self.problem else partitions, self.problem) for name in groups}


class Worker:
    """A sampler of a worker that runs the connectors ``sink`` and ``source`` and a task of each; ``elsewhere`` runs on
    another worker."""

    def __init__(self) -> None:
        self.herder = ScriptedHerder(ScriptedCluster(), "http://127.0.0.1:29511/")
        self.rows: dict[ConnectorTaskId, int] = {}
        units: set[Any] = {"sink", "source", OWN_TASK, ConnectorTaskId("source", 0)}
        self.herder.assigned_work = SimpleNamespace(assigned=units)  # type: ignore[assignment]
        self.history, self.lags = WorkerHistory("w"), _Lags()
        self.sampler = HistorySampler(
            self.history,
            self.herder,
            SystemClock(),  # Only ``run`` reads it.
            groups=SinkGroups(self.herder),
            lags=self.lags,
            insight=self,  # type: ignore[arg-type]
        )

    def task_progress(self, task: ConnectorTaskId) -> TaskProgress | None:
        return TaskProgress(1, self.rows[task], 0, 0, 0.0) if task in self.rows else None

    async def sample(self, at_ms: int) -> None:
        await self.sampler.note_records(at_ms)
        await self.sampler.note_lags(at_ms)

    def column(self, connector: str, figure: str) -> list[int]:
        found = self.history.read(connector, 1, START_MS + 120_000)
        return [value for value in getattr(found, figure) if value is not None]


@pytest.fixture
async def worker() -> Worker:
    worker = Worker()
    for name, config in (("sink", SINK), ("source", SOURCE), ("elsewhere", SINK)):
        await worker.herder.connectors.create(name, {"name": name, **config}, None)
    return worker


@pytest.mark.anyio
async def test_records_of_own_tasks_are_counted_from_their_start(worker: Worker) -> None:
    for number, rows in enumerate((100, 150, 150, 30)):  # At last the task has started again.
        worker.rows[OWN_TASK] = rows
        await worker.sample(START_MS + number * 10_000)
    assert worker.column("sink", "records") == [100, 50, 0, 30]
    assert worker.column("source", "records") == []


@pytest.mark.anyio
async def test_only_sinks_whose_connector_runs_here_cost_a_request(worker: Worker) -> None:
    await worker.sample(START_MS)
    assert [group.keys() for group in worker.lags.requested] == [{"sink"}]
    assert worker.column("sink", "lag") == [7]
    assert worker.column("elsewhere", "lag") == []


@pytest.mark.anyio
async def test_an_unknown_lag_is_a_gap(worker: Worker) -> None:
    worker.lags.problem = "no broker answered"
    await worker.sample(START_MS)
    assert worker.column("sink", "lag") == []


@pytest.mark.anyio
async def test_a_deleted_connector_leaves_no_history(worker: Worker) -> None:
    worker.rows[OWN_TASK] = 5
    await worker.sample(START_MS)
    del worker.herder.cluster.connectors["sink"]
    await worker.sample(START_MS + 10_000)
    assert (worker.column("sink", "lag"), worker.lags.requested[1:]) == ([], [])


@given(st.lists(st.tuples(st.integers(0, 1000), st.booleans()), max_size=50))
def test_growth_adds_up_to_all_that_was_counted(steps: list[tuple[int, bool]]) -> None:
    growth, total, counted, expected = CounterGrowth(), 0, 0, 0
    for step, is_restarted in steps:
        if is_restarted and step < total:  # A restart that passes the old total can't be seen.
            total = 0
        total += step
        expected += step
        counted += growth.since_last("c", total)
    assert counted == expected
