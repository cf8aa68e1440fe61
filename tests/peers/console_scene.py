"""A worker's console with content on every page, without Kafka or Spark: connectors in all states, lag, progress."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from barnabas.connect.decide.herder.status_views import waiting_text
from barnabas.connect.decide.history.connector_history import WorkerHistory
from barnabas.connect.decide.history.figure_ring import Figure
from barnabas.connect.decide.lag.consumer_lag import GroupLag, PartitionLag, SinkGroup
from barnabas.connect.decide.registry.plugin_registry import PluginRegistry
from barnabas.connect.decide.tasks.task_progress import QueryPlan, TaskProgress
from barnabas.connect.decide.validation.connector_validation import ConnectorValidation, ValidationDefaults
from barnabas.connect.entities import (
    ConfigInfos,
    ConnectorDetails,
    ConnectorOffset,
    ConnectorState,
    ConnectorStatus,
    DeadLetter,
    DeadLetters,
    LastFailure,
    TaskDetails,
    TaskStatus,
)
from barnabas.connect.errors import ConnectError, NotFound
from barnabas.connect.identifiers import ConnectorTaskId, TargetState
from barnabas.connect.rest.console.console import PREFIX, Console
from barnabas.connect.rest.console.page_data import PageData
from barnabas.connect.rest.group_reads import GroupReads
from barnabas.connect.rest.recent_log import RecentLog
from tests.peers.scripted_herder import ScriptedCluster, ScriptedHerder, ScriptedPlugins

__all__ = [
    "EVIL",
    "PREFIX",
    "SceneHerder",
    "SceneInsight",
    "SceneLags",
    "SceneLetters",
    "ScriptedCluster",
    "console_of",
    "fill_history",
    "fill_log",
]

EVIL = "<img src=x onerror=alert(1)>\"'&/"
OTHER_WORKER = "10.0.0.2:8083"
TRACE = (
    'Topic orders has no partition 7\n\nTraceback (most recent call last):\n  File "task.py", line 7\n'
    + "at long " * 60
)


class SceneHerder(ScriptedHerder):
    """``failed`` has the failed tasks with their traces; ``elsewhere`` has the tasks of another worker."""

    def __init__(self, cluster: ScriptedCluster, url: str) -> None:
        super().__init__(cluster, url)
        self.failed: dict[ConnectorTaskId, str] = {}
        self.elsewhere: set[ConnectorTaskId] = set()
        self.waits_for: dict[str, tuple[str, ...]] = {}
        self.unrecovered: dict[ConnectorTaskId, LastFailure] = {}
        self.skipped: dict[ConnectorTaskId, int] = {}
        self.registry: PluginRegistry | None = None
        """The plugins are real, so their forms are real."""

    @property
    def worker_id(self) -> str:
        return self.url.partition("://")[2].rstrip("/")

    async def fill(self) -> None:
        """Create connectors for display."""
        sink = {"connector.class": "FileStreamSink", "topics": "orders", "file": "/data/out.txt", "tasks.max": "3"}
        source = {"connector.class": "FileStreamSource", "topic": "lines", "file": "/data/in.txt"}
        long = {"value.converter.barnabas.schema.unknown.fields": "ignore"}  # Wider than a phone, in one word.
        await self.connectors.create("orders-to-files", {"name": "orders-to-files", **sink, **long}, None)
        await self.connectors.create("lines", {"name": "lines", **source, "db.password": "hunter2"}, None)
        await self.connectors.create("paused-one", {"name": "paused-one", **source}, TargetState.PAUSED)
        await self.connectors.create("stopped-one", {"name": "stopped-one", **sink}, TargetState.STOPPED)
        await self.connectors.create(EVIL, {"name": EVIL, **source, EVIL: EVIL, "topic": EVIL}, None)
        self.failed[ConnectorTaskId("orders-to-files", 1)] = TRACE
        self.failed[ConnectorTaskId(EVIL, 0)] = EVIL
        self.elsewhere.add(ConnectorTaskId("orders-to-files", 2))
        self.cluster.connectors["stopped-one"].offsets = [
            ConnectorOffset({"kafka_topic": EVIL, "kafka_partition": 0}, {"kafka_offset": 5})
        ]

    @property
    def plugins(self) -> PluginRegistry:
        return self.registry or ScriptedPlugins()

    def status(self, name: str) -> ConnectorStatus:
        status = super().status(name)
        tasks = [self._task(ConnectorTaskId(name, task.id), task) for task in status.tasks]
        own = ConnectorState(status.connector.state, self.worker_id, status.connector.version)
        return ConnectorStatus(name, own, tasks, status.type)

    def details(self, name: str) -> ConnectorStatus:
        status = self.status(name)
        own, waits_for = status.connector, self.waits_for.get(name, ())
        connector = ConnectorDetails(
            own.state,
            own.worker_id,
            own.version,
            waiting_text(waits_for),
            waits_for=waits_for,
            dead_letter_topic=self.cluster.connectors[name].config.get("errors.deadletterqueue.topic.name") or "",
        )
        tasks: list[TaskStatus] = [self._details(ConnectorTaskId(name, task.id), task) for task in status.tasks]
        return ConnectorStatus(name, connector, tasks, status.type)

    def _details(self, task: ConnectorTaskId, status: TaskStatus) -> TaskDetails:
        failure, count = self.unrecovered.get(task), self.skipped.get(task, 0)
        trace = status.trace if failure is None else f"{failure.reason}\n{failure.next}"
        return TaskDetails(
            task.task,
            status.state,
            status.worker_id,
            status.version,
            trace,
            last_failure=failure,
            skipped_records=count,
            dead_letters=count,
        )

    def _task(self, task: ConnectorTaskId, status: TaskStatus) -> TaskStatus:
        worker_id = OTHER_WORKER if task in self.elsewhere else self.worker_id
        trace = self.failed.get(task, "")
        return TaskStatus(task.task, "FAILED" if trace else status.state, worker_id, status.version, trace)

    async def task_restarted(self, task: ConnectorTaskId) -> None:
        await super().task_restarted(task)
        self.calls.append(f"restart task {task}")
        self.failed.pop(task, None)

    async def validation(self, config: Mapping[str, str | None]) -> ConfigInfos:
        if self.registry is None:
            return await super().validation(config)
        text = "org.apache.kafka.connect.storage.StringConverter"
        converters = {"key": text, "value": text, "header": text}
        return ConnectorValidation(self.registry, ValidationDefaults("connect-cluster", converters)).validate(config)

    def check(self, config: Mapping[str, str | None]) -> None:
        if self.registry is None:
            super().check(config)


class SceneLags:
    def __init__(self) -> None:
        self.end = 1500
        self.problem = ""
        self.calls = 0

    async def lags(self, groups: Mapping[str, SinkGroup]) -> Mapping[str, GroupLag]:
        self.calls += 1
        partitions = (PartitionLag("orders", 0, 1000, self.end, 12.5), PartitionLag("orders", 1, 40, 40, 0.0))
        return {name: GroupLag(() if self.problem else partitions, self.problem) for name in groups}


class SceneLetters:
    """The dead letters of connectors; ``problem`` is why they can't be read."""

    def __init__(self) -> None:
        self.letters: list[DeadLetter] = []
        self.problem = ""

    async def read(self, connector: str, config: Mapping[str, str | None], count: int) -> DeadLetters:
        if self.problem:
            raise ConnectError(self.problem)
        topic = config.get("errors.deadletterqueue.topic.name")
        if not topic:
            raise NotFound(f"Connector {connector} has no dead-letter topic")
        return DeadLetters(topic, total=5000, examined=1000, letters=self.letters[:count])


class SceneInsight:
    def __init__(self) -> None:
        self.rows = 12_345

    def task_progress(self, task: ConnectorTaskId) -> TaskProgress | None:
        return TaskProgress(12, self.rows, 500, 241, 1_795_260_000.0) if task.connector != "paused-one" else None

    async def query_plan(self, task: ConnectorTaskId) -> QueryPlan | None:
        if task.connector == "paused-one":
            return None
        plan = f"== Physical Plan ==\n*(1) Project [value]\n+- Scan kafka {EVIL}\n"
        return QueryPlan(plan, '{"numInputRows": 500}', "http://localhost:4040")


def fill_history(history: WorkerHistory, now_ms: int) -> None:
    """Give a sink an hour of history: a rate that varies, a lag that grows and shrinks, a gap, failures."""
    for ago in range(360, 0, -1):
        at_ms = now_ms - ago * 10_000
        if not 200 < ago < 230:
            history.note("orders-to-files", Figure.RECORDS, 4000 + ago % 60 * 50, at_ms)
            history.note("orders-to-files", Figure.LAG, abs(180 - ago) * 100, at_ms)
        if ago % 75 == 0:
            history.failed(ConnectorTaskId("orders-to-files", 1), f"{EVIL} {TRACE.splitlines()[0]}", at_ms)
            history.skipped(ConnectorTaskId("orders-to-files", 0), 12, 7, at_ms)


def fill_log(log: RecentLog, now_ms: int) -> None:
    """Write lines of each level, also about single connectors."""
    lines = (
        (logging.INFO, "worker of group connect-cluster is listening on http://127.0.0.1:8083/"),
        (logging.WARNING, "worker http://10.0.0.3:8083/ is lost to group connect-cluster"),
        (logging.ERROR, f"task orders-to-files-1 has failed: {TRACE}"),
        (logging.INFO, f"connector {EVIL} was created"),
    )
    for number, (level, text) in enumerate(lines):
        record = logging.LogRecord("barnabas.connect.herder", level, "", 0, text, None, None)
        record.created = now_ms / 1000 + number
        log.emit(record)


def console_of(
    herder: SceneHerder,
    worker_id: str,
    now_s: object = None,
    letters: SceneLetters | None = None,
    *,
    group_reads: GroupReads | None = None,
    recent_log: RecentLog | None = None,
) -> Console:
    clock = now_s or iter(range(0, 10**6, 3)).__next__
    page_data = PageData(
        herder,
        herder.plugins,
        worker_id=worker_id,
        now_s=clock,  # type: ignore[arg-type]
        lags=SceneLags(),
        insight=SceneInsight(),
        dead_letters=letters or SceneLetters(),
        group_reads=group_reads,
    )
    return Console(
        page_data,
        worker_id=worker_id,
        group_id="connect-cluster",
        cluster_id="c1",
        version="0.1",
        recent_log=recent_log,
    )
