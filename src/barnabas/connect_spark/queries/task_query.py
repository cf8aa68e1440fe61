"""The life of one task: a thread starts its query, watches, pauses and stops it, and reports its outcome.

Everything that may wait for Spark, for Kafka or for a plugin happens on this thread; the event loop only sets the
desired state. The last event of a task is TaskStopped or TaskFailed. When it is reported the task holds no resources:
the query has ended, or the whole session has, because a query that can't be stopped must not run beside its successor.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from barnabas.connect.decide.tasks.task_runtime import TaskEvent, TaskFailed, TaskPaused, TaskRunning, TaskStopped
from barnabas.connect.identifiers import ConnectorTaskId, TargetState
from barnabas.connect.plugins.api import TerminalError
from barnabas.connect.settings.plugin_config_def import ConfigException
from barnabas.connect_spark.queries.batch_gate import BatchGate
from barnabas.connect_spark.queries.failure_trace import failure_trace, without_secrets
from barnabas.connect_spark.queries.query_progress import plan_of
from barnabas.connect_spark.sessions.session_kind import use_pool
from barnabas.spark.errors import JavaUnusable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.connect.decide.tasks.task_progress import QueryPlan
    from barnabas.connect_spark.queries.running_query import RunningQuery
    from barnabas.connect_spark.sessions.worker_session import Sessions

__all__ = ["QueryProgram", "TaskQuery"]

log = logging.getLogger(__name__)

_LOOK_S = 0.25
"""How often to check whether a query has ended that is expected to end."""
_LOOK_STEADY_S = 2.0
"""How often to check whether a query still runs, a while after its start. The failure of a batch is noticed at once:
this is for a query that ends outside of a batch. Many idle tasks would otherwise cost more than their queries."""
_STEADY_AFTER_S = 10.0


class QueryProgram(Protocol):
    """The work of a task; all methods are called on its thread."""

    def start(self, spark: SparkSession, gate: BatchGate) -> RunningQuery:
        """Start the query, whose batches pass the gate. Called again after a pause."""

    def pause(self) -> None:
        """Leave nothing half done. The query has stopped between two batches, and may start again."""

    def close(self) -> None:
        """Release all resources. The query has stopped."""


class TaskQuery:
    def __init__(
        self,
        task: ConnectorTaskId,
        config: Mapping[str, str],
        program: Callable[[], QueryProgram],
        sessions: Sessions,
        report: Callable[[TaskEvent], None],
        *,
        target_state: TargetState,
        stop_timeout_s: float,
    ) -> None:
        """``config`` has the secrets that no trace may show. ``report`` is called on the task's thread."""
        self.task = task
        self._config = config
        self._make_program = program
        self._sessions = sessions
        self._report = report
        self._stop_timeout_s = stop_timeout_s
        self._target_state = target_state
        self._told: TaskEvent | None = None
        self._waits_for_spark = False
        self._is_over = False
        """The last event was reported; the thread is about to end."""
        self._changed = threading.Condition()
        self._program: QueryProgram | None = None
        self._query: RunningQuery | None = None
        self._gate = BatchGate(self._batch_failed)
        self._started_s = 0.0
        """When the query was started, of a monotonic clock."""
        self._thread = threading.Thread(target=self._run, name=f"connect-{task}", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def request_state(self, state: TargetState) -> None:
        """Request STARTED, PAUSED or, finally, STOPPED. Returns immediately.

        Starting Spark may take minutes. A task that waits for it holds no resources, so it is stopped immediately.
        """
        with self._changed:
            if self._target_state is TargetState.STOPPED:
                return
            self._target_state = state
            self._changed.notify_all()
            is_over = state is TargetState.STOPPED and self._waits_for_spark
            self._is_over = is_over
        if is_over:
            self._sessions.release()
            self._report(TaskStopped(self.task))

    def join(self) -> None:
        """Wait for the thread, which may outlast the last event."""
        self._thread.join()

    def plan(self) -> QueryPlan | None:
        """Return the progress of its query; None if none runs. May be called on any thread; waits for Spark."""
        query = self._query
        return None if query is None else plan_of(query, self._config)

    # ---- on the task's thread

    def _run(self) -> None:
        end: TaskEvent = TaskStopped(self.task)
        try:
            while self._target_state is not TargetState.STOPPED:
                self._follow_target_state()
                self._wait()
                self._check_query()
        except BaseException as error:  # Also a plugin's SystemExit: only its task ends.
            end = self._failed(error)
        if self._is_over:
            return
        try:
            self._stop_query(self._stop_timeout_s)
        except BaseException as error:
            end = self._failed(error)
        self._close_program()
        self._sessions.release()
        self._report(end)

    def _follow_target_state(self) -> None:
        if self._target_state is TargetState.STARTED and self._query is None:
            self._start_query()
            self._tell(TaskRunning(self.task))
        elif self._target_state is TargetState.PAUSED:
            self._pause()
            if self._target_state is TargetState.PAUSED:
                self._tell(TaskPaused(self.task))

    def _pause(self) -> None:
        has_query = self._query is not None
        self._stop_query(None)
        if has_query and self._program is not None:
            self._program.pause()

    def _start_query(self) -> None:
        spark = self._session()
        if self._target_state is not TargetState.STARTED:
            return
        if self._program is None:
            self._program = self._make_program()
        use_pool(spark, self.task.connector)
        self._gate = BatchGate(self._batch_failed)
        self._query = self._program.start(spark, self._gate)
        self._started_s = time.monotonic()

    def _session(self) -> SparkSession:
        with self._changed:
            self._waits_for_spark = self._target_state is TargetState.STARTED
        try:
            return self._sessions.session()
        finally:
            with self._changed:
                self._waits_for_spark = False

    def _wait(self) -> None:
        with self._changed:
            target_state, has_query = self._target_state, self._query is not None
            idle = target_state is TargetState.PAUSED or (target_state is TargetState.STARTED and has_query)
            if idle:
                failure = self._gate.failure
                self._changed.wait_for(
                    lambda: self._target_state is not target_state or self._gate.failure is not failure,
                    self._look_s(failure) if has_query else None,
                )

    def _look_s(self, failure: BaseException | None) -> float:
        is_steady = failure is None and time.monotonic() - self._started_s >= _STEADY_AFTER_S
        return _LOOK_STEADY_S if is_steady else _LOOK_S

    def _batch_failed(self) -> None:
        """Called on the thread of a batch."""
        with self._changed:
            self._changed.notify_all()

    def _check_query(self) -> None:
        """Raise the error of a query that has ended on its own."""
        if self._query is None:
            return
        try:
            is_active = self._query.isActive
            cause = None if is_active else self._query.exception()
        except Exception as error:  # No answer: its JVM has ended.
            raise RuntimeError(self._sessions.failure() or f"Spark no longer answers: {error}") from error
        if is_active:
            return
        reason = self._sessions.failure()
        if reason is not None:
            raise RuntimeError(reason)
        raise self._gate.failure or cause or RuntimeError("the query has ended without a reason")

    def _stop_query(self, timeout_s: float | None) -> None:
        """Stop between two batches if that is possible in time. Without a time-out wait until the task is to stop."""
        query, self._query = self._query, None
        if query is None:
            return
        if not self._close_gate(timeout_s):
            log.warning("task %s did not finish its batch in time and is interrupted", self.task)
            self._gate.fence()
        if self._sessions.failure() is not None:
            return  # It ended with its JVM.
        try:
            query.stop()
        except Exception as error:
            with suppress(Exception):
                if not query.isActive:
                    return
            self._sessions.abandon(f"the query of task {self.task} can't be stopped ({error})")

    def _close_gate(self, timeout_s: float | None) -> bool:
        if timeout_s is not None:
            return self._gate.close(timeout_s)
        while not self._gate.close(_LOOK_S):
            if self._target_state is TargetState.STOPPED:
                return self._gate.close(self._stop_timeout_s)
        return True

    def _close_program(self) -> None:
        if self._program is not None:
            try:
                self._program.close()
            except Exception:
                log.warning("task %s: its plugin failed while it stopped", self.task, exc_info=True)

    def _tell(self, event: TaskEvent) -> None:
        if event != self._told and (self._query is not None or not isinstance(event, TaskRunning)):
            self._told = event
            self._report(event)

    def _failed(self, error: BaseException) -> TaskFailed:
        reason = self._sessions.failure()
        trace = failure_trace(error, self._config)
        if reason is not None and not trace.startswith(reason):
            trace = f"{reason}\n\n{trace}"
        log.error("task %s has failed: %s", self.task, without_secrets(trace.splitlines()[0], self._config))
        return TaskFailed(
            self.task, trace, retriable=not isinstance(error, TerminalError | ConfigException | JavaUnusable)
        )
