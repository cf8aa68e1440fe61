"""TaskRuntime on Spark: tasks are threads with a query each, all on one session.

The event loop sets the desired state and receives events; it never waits here. Each task runs at most once at a time:
it is removed only after its last event was reported.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from barnabas.clients.admin import AdminClient
from barnabas.common.errors import invariant
from barnabas.connect.decide.tasks.task_progress import QueryPlan, TaskProgress
from barnabas.connect.decide.tasks.task_runtime import (
    BatchSucceeded,
    OffsetStore,
    RecordsSkipped,
    TaskEvent,
    TaskFailed,
    TaskListener,
    TaskPaused,
    TaskRunning,
    TaskStart,
    TaskStopped,
    TopicsUsed,
)
from barnabas.connect.decide.tasks.transaction_requests import TransactionRequests
from barnabas.connect.identifiers import ConnectorTaskId, TargetState
from barnabas.connect.metrics.task_metrics import TaskFigures
from barnabas.connect.plugins.api import Connector, SinkTask, SourceTask, TerminalError
from barnabas.connect.plugins.record_plugins import RecordPlugin
from barnabas.connect_spark.queries.query_progress import progress_of
from barnabas.connect_spark.queries.record_path import ConverterPath, RecordPath
from barnabas.connect_spark.queries.sink_query import SinkProgram
from barnabas.connect_spark.queries.source_delivery import TransactionCalls
from barnabas.connect_spark.queries.source_query import SourceProgram
from barnabas.connect_spark.queries.task_query import QueryProgram, TaskQuery
from barnabas.connect_spark.queries.task_spec import TaskSpec, WorkerTaskContext, new_figures
from barnabas.connect_spark.sessions.remote_session import RemoteSessions
from barnabas.connect_spark.sessions.spark_settings import SparkSettings
from barnabas.connect_spark.sessions.work_directory import open_work_directory
from barnabas.connect_spark.sessions.worker_session import EmbeddedSessions, Sessions
from barnabas.connect_spark.sql.pipeline_setup import pipeline_program
from barnabas.connect_spark.sql.pipeline_task import PipelineTask

__all__ = ["RecordPaths", "SparkTaskRuntime"]

log = logging.getLogger(__name__)

T = TypeVar("T")

_CALL_TIMEOUT_S = 60

ConnectorClasses = Callable[[Mapping[str, str]], type[Connector]]
"""Return the class that a connector's settings name. Raise if it does not exist."""

RecordPaths = Callable[[Mapping[str, str], Mapping[str, str]], RecordPath]


class SparkTaskRuntime:
    """The TaskRuntime of a worker."""

    def __init__(
        self,
        worker_config: Mapping[str, str],
        offsets: OffsetStore,
        connector_class: ConnectorClasses,
        *,
        worker_id: str,
        sessions: Sessions | None = None,
        record_path: RecordPaths | None = None,
        record_plugins: Mapping[str, type[RecordPlugin]] | None = None,
        client_properties: Mapping[str, str] | None = None,
    ) -> None:
        """Create the runtime on the loop on which listeners are called. ``client_properties`` are those of the worker's
        clients, ``record_plugins`` the transforms, predicates and converters of other packages by full name.

        Raise ConfigException.
        """
        self.settings = SparkSettings.of(worker_config, worker_id=worker_id)
        self._worker_config = worker_config
        self._offsets = offsets
        self._connector_class = connector_class
        self._record_plugins = record_plugins
        self._record_path = record_path or partial(ConverterPath, plugins=record_plugins)
        self._sessions = sessions or self._make_sessions(dict(client_properties or {}))
        self._stop_timeout_s = int(worker_config.get("task.shutdown.graceful.timeout.ms", "5000")) / 1000
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[ConnectorTaskId, tuple[TaskQuery, asyncio.Event]] = {}
        self._figures: dict[ConnectorTaskId, TaskFigures] = {}

    # ---- TaskRuntime

    async def start_task(self, start: TaskStart, listener: TaskListener) -> None:
        invariant(start.task not in self._tasks, f"task {start.task} is started while it runs here")
        ended = asyncio.Event()
        figures = self._figures[start.task] = new_figures(
            lambda: self._tell(heard, BatchSucceeded(start.task)),
            lambda records, letters: self._tell(heard, RecordsSkipped(start.task, records, letters)),
        )

        def heard(event: TaskEvent) -> None:
            if isinstance(event, TaskStopped | TaskFailed):
                self._tasks.pop(start.task, None)
                self._figures.pop(start.task, None)
            elif isinstance(event, TaskRunning | TaskPaused):
                figures.is_in_state("running" if isinstance(event, TaskRunning) else "paused")
            try:
                listener(event)
            finally:
                if isinstance(event, TaskStopped | TaskFailed):
                    ended.set()

        sessions = self._sessions.of(start.task)
        query = TaskQuery(
            start.task,
            {**start.connector_config, **start.task_config},
            lambda: self._program(start, sessions, figures, lambda event: self._tell(heard, event)),
            sessions,
            lambda event: self._tell(heard, event),
            target_state=start.target_state,
            stop_timeout_s=self._stop_timeout_s,
        )
        self._tasks[start.task] = (query, ended)
        query.begin()

    async def stop_tasks(self, tasks: Sequence[ConnectorTaskId]) -> None:
        stopping = [self._tasks[task_id] for task_id in tasks if task_id in self._tasks]
        for query, _ in stopping:
            query.request_state(TargetState.STOPPED)
        for _, ended in stopping:
            await ended.wait()

    async def pause_task(self, task: ConnectorTaskId) -> None:
        if task in self._tasks:
            self._tasks[task][0].request_state(TargetState.PAUSED)

    async def resume_task(self, task: ConnectorTaskId) -> None:
        if task in self._tasks:
            self._tasks[task][0].request_state(TargetState.STARTED)

    async def close(self) -> None:
        await self.stop_tasks(list(self._tasks))
        await asyncio.to_thread(self._sessions.close)

    # ---- TaskInsight

    def task_progress(self, task: ConnectorTaskId) -> TaskProgress | None:
        found = self._figures.get(task)
        return None if found is None else progress_of(found)

    async def query_plan(self, task: ConnectorTaskId) -> QueryPlan | None:
        found = self._tasks.get(task)
        return None if found is None else await asyncio.to_thread(found[0].plan)

    # ---- StartChecks

    def setting_problems(self, connector_config: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
        from barnabas.connect_spark.start_checks import start_problems

        connector = self._connector_class(connector_config)
        return start_problems(connector, connector_config, self._worker_config, self.settings, self._record_plugins)

    # ---- MeasuredTasks

    def figures(self, task: ConnectorTaskId) -> TaskFigures | None:
        return self._figures.get(task)

    # ---- on a task's thread

    def _tell(self, heard: Callable[[TaskEvent], None], event: TaskEvent) -> None:
        try:
            self._loop.call_soon_threadsafe(heard, event)
        except RuntimeError:
            log.debug("an event was dropped because the event loop has stopped: %s", event)

    def _make_sessions(self, client_properties: Mapping[str, str]) -> Sessions:
        if not self.settings.is_connect:
            return EmbeddedSessions(self.settings)

        def cluster_id() -> str:
            with AdminClient.sync(properties=client_properties) as admin:
                return admin.describe_cluster().cluster_id or ""

        return RemoteSessions(self.settings, self._worker_config.get("group.id", ""), cluster_id)

    def _program(
        self, start: TaskStart, sessions: Sessions, figures: TaskFigures, report: Callable[[TaskEvent], None]
    ) -> QueryProgram:
        open_work_directory(self.settings.directory)
        spec = TaskSpec(
            start.task,
            start.connector_config,
            start.task_config,
            self._worker_config,
            self.settings.directory / "tasks" / _folder_name(start.task),
            lambda rows, took_ms: figures.has_done(rows, took_ms),
            figures,
            start.work,
        )
        connector = self._connector_class(start.connector_config)
        config = {**start.connector_config, **start.task_config}
        context = WorkerTaskContext(
            start.task.connector,
            start.task.task,
            start.task_config,
            connector.config_def.parse(config),
            lambda partition: self._offsets.source_offset(start.task.connector, partition),
            spec.empty_scratch(),
            start.transactional_id is not None,
            _transaction_requests(start),
            figures,
        )
        task_class = connector.task_class
        if issubclass(task_class, PipelineTask):
            return pipeline_program(
                spec,
                context,
                task_class(context),
                self._record_path,
                lambda offsets: self._write_offsets(start.task, offsets),
                lambda topics: report(TopicsUsed(start.task, topics)),
                self._transaction_calls(start),
            )
        path = self._record_path(start.connector_config, self._worker_config)
        if issubclass(task_class, SinkTask):
            return SinkProgram(spec, task_class(context), path)
        if issubclass(task_class, SourceTask):
            return SourceProgram(
                spec,
                lambda: task_class(context),
                path,
                context.source_offset,
                lambda offsets: self._write_offsets(start.task, offsets),
                lambda topics: report(TopicsUsed(start.task, topics)),
                self._transaction_calls(start),
                context.transactions,
            )
        raise TerminalError(
            f"{task_class.__name__}, the task_class of {connector.__name__}, is neither a SourceTask nor a SinkTask"
        )

    def _transaction_calls(self, start: TaskStart) -> TransactionCalls | None:
        transactional_id, confirm, connector = start.transactional_id, start.confirm, start.task.connector
        if transactional_id is None or confirm is None:
            return None
        return TransactionCalls(
            transactional_id,
            confirm=lambda: self._result(confirm()),
            read_offsets_to_end=lambda: self._result(self._offsets.read_offsets_to_end(connector)),
            offset_records=lambda offsets: self._result(self._offsets.offset_records(connector, offsets)),
        )

    def _result(self, steps: Awaitable[T]) -> T:
        """Wait for steps on the event loop."""
        return asyncio.run_coroutine_threadsafe(_awaited(steps), self._loop).result(_CALL_TIMEOUT_S)

    def _write_offsets(
        self, task: ConnectorTaskId, offsets: Sequence[tuple[Mapping[str, object], Mapping[str, object] | None]]
    ) -> None:
        self._result(self._offsets.write_source_offsets(task.connector, offsets))


def _transaction_requests(start: TaskStart) -> TransactionRequests | None:
    """Return a new object for a task that ends its transactions itself."""
    boundary = start.connector_config.get("transaction.boundary", "").strip().lower()
    return TransactionRequests() if start.transactional_id is not None and boundary == "connector" else None


async def _awaited(steps: Awaitable[T]) -> T:
    return await steps


def _folder_name(task: ConnectorTaskId) -> str:
    """Return a folder name. Connector names may have any character, and two of them must not map to one folder."""
    safe = re.sub(r"[^A-Za-z0-9._-]", lambda found: f"%{ord(found[0]):02x}", str(task))
    return safe if not safe.startswith(".") else f"%2e{safe[1:]}"
