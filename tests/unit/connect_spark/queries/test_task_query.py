"""The life of a task, with a query that the test controls."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.connect.decide.tasks.task_runtime import TaskEvent, TaskFailed, TaskPaused, TaskRunning, TaskStopped
from barnabas.connect.identifiers import ConnectorTaskId, TargetState
from barnabas.connect.plugins.api import TerminalError
from barnabas.connect_spark.queries import task_query
from barnabas.connect_spark.queries.batch_gate import BatchGate, QueryEnds
from barnabas.connect_spark.queries.task_query import TaskQuery
from barnabas.connect_spark.sessions.worker_session import Sessions

TASK = ConnectorTaskId("c", 0)
RUNNING, PAUSED, STOPPED = TaskRunning(TASK), TaskPaused(TASK), TaskStopped(TASK)


class Query:
    def __init__(self) -> None:
        self.isActive = True
        self.failure: Exception | None = None
        self.refuses_to_stop = False

    def exception(self) -> Exception | None:
        return self.failure

    def stop(self) -> None:
        if self.refuses_to_stop:
            raise TimeoutError("did not stop")
        self.isActive = False

    def fail(self, error: Exception) -> None:
        self.failure = error
        self.isActive = False


class Worker(Sessions):
    """Session, program and listener in one."""

    def __init__(self) -> None:
        self.queries: list[Query] = []
        self.gates: list[BatchGate] = []
        self.closed = 0
        self.paused = 0
        self.reason: str | None = None
        self.abandoned: list[str] = []
        self.events: list[TaskEvent] = []
        self.changed = threading.Condition()
        self.start_error: Exception | None = None
        self.is_session_requested = threading.Event()
        self.is_up = threading.Event()
        self.is_up.set()
        self.local_properties: dict[str, str] = {}

    def session(self) -> Any:
        self.is_session_requested.set()
        self.is_up.wait(20)
        return SimpleNamespace(sparkContext=SimpleNamespace(setLocalProperty=self.local_properties.__setitem__))

    def failure(self) -> str | None:
        return self.reason

    def abandon(self, reason: str) -> None:
        self.abandoned.append(reason)

    def pause(self) -> None:
        self.paused += 1

    def close(self) -> None:
        self.closed += 1

    def start(self, spark: object, gate: BatchGate) -> Any:
        if self.start_error is not None:
            raise self.start_error
        self.queries.append(Query())
        self.gates.append(gate)
        return self.queries[-1]

    def receive_event(self, event: TaskEvent) -> None:
        with self.changed:
            self.events.append(event)
            self.changed.notify_all()

    def until(self, condition: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, 20), self.events


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Worker:
    monkeypatch.setattr(task_query, "_LOOK_S", 0.002)
    return Worker()


def test_the_jobs_of_a_task_are_in_the_pool_of_its_connector(worker: Worker) -> None:
    query = begun(worker)
    worker.until(lambda: RUNNING in worker.events)
    assert worker.local_properties == {"spark.scheduler.pool": query.task.connector}


def test_a_failed_batch_is_noticed_without_waiting_for_the_next_look(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_query, "_LOOK_STEADY_S", 600)
    monkeypatch.setattr(task_query, "_STEADY_AFTER_S", 0)
    begun(worker)
    worker.until(lambda: RUNNING in worker.events)
    with pytest.raises(OSError, match="disk"), worker.gates[0].batch():
        raise OSError("the disk is full")
    worker.queries[0].fail(RuntimeError("Spark has only the text"))
    worker.until(lambda: isinstance(worker.events[-1], TaskFailed))
    assert "the disk is full" in worker.events[-1].trace


def begun(worker: Worker, state: TargetState = TargetState.STARTED) -> TaskQuery:
    query = TaskQuery(
        TASK,
        {"a.password": "hunter22"},
        lambda: worker,
        worker,
        worker.receive_event,
        target_state=state,
        stop_timeout_s=0.05,
    )
    query.begin()
    return query


def ended(worker: Worker) -> TaskEvent:
    worker.until(lambda: bool(worker.events) and isinstance(worker.events[-1], TaskStopped | TaskFailed))
    return worker.events[-1]


def test_a_task_runs_until_it_is_stopped(worker: Worker) -> None:
    task = begun(worker)
    worker.until(lambda: worker.events == [RUNNING])
    task.request_state(TargetState.STOPPED)
    assert ended(worker) == STOPPED
    assert not worker.queries[0].isActive
    assert worker.closed == 1


def test_a_paused_task_stops_its_query_and_a_resumed_one_starts_another(worker: Worker) -> None:
    task = begun(worker, TargetState.PAUSED)
    worker.until(lambda: worker.events == [PAUSED])
    assert worker.queries == []
    task.request_state(TargetState.STARTED)
    worker.until(lambda: worker.events[-1] == RUNNING)
    task.request_state(TargetState.PAUSED)
    worker.until(lambda: worker.events[-1] == PAUSED)
    assert worker.paused == 1
    assert [query.isActive for query in worker.queries] == [False]
    task.request_state(TargetState.STARTED)
    worker.until(lambda: worker.events[-1] == RUNNING)
    task.request_state(TargetState.STOPPED)
    task.request_state(TargetState.STARTED)  # This request is too late.
    assert ended(worker) == STOPPED
    assert len(worker.queries) == 2


def test_a_query_that_ends_unexpectedly_fails_the_task_with_its_reason(worker: Worker) -> None:
    begun(worker)
    worker.until(lambda: worker.events == [RUNNING])
    worker.queries[0].fail(ValueError("bad record for hunter22"))
    failed = ended(worker)
    assert isinstance(failed, TaskFailed)
    assert failed.trace.startswith("bad record for [hidden]\n")
    assert failed.retriable
    assert worker.closed == 1


def test_the_error_of_a_batch_is_reported_instead_of_sparks_wrapper(worker: Worker) -> None:
    begun(worker)
    worker.until(lambda: worker.events == [RUNNING])
    with pytest.raises(TerminalError), worker.gates[0].batch():
        raise TerminalError("the table has another shape")
    worker.queries[0].fail(RuntimeError("[STREAM_FAILED] something"))
    failed = ended(worker)
    assert isinstance(failed, TaskFailed)
    assert failed.trace.startswith("the table has another shape\n")
    assert not failed.retriable


def test_a_query_that_does_not_start_fails_the_task(worker: Worker) -> None:
    worker.start_error = RuntimeError("no such topic")
    begun(worker)
    failed = ended(worker)
    assert isinstance(failed, TaskFailed)
    assert failed.trace.startswith("no such topic\n")
    assert worker.events == [failed]
    assert worker.closed == 1


def test_an_ended_jvm_is_the_reason_whatever_the_query_reports(worker: Worker) -> None:
    begun(worker)
    worker.until(lambda: worker.events == [RUNNING])
    worker.reason = "Spark's JVM was killed by signal 9"
    worker.queries[0].fail(ConnectionError("no server answers"))
    failed = ended(worker)
    assert isinstance(failed, TaskFailed)
    assert failed.trace.startswith("Spark's JVM was killed by signal 9\n")


def test_a_batch_that_does_not_end_in_time_is_interrupted_and_may_commit_nothing(worker: Worker) -> None:
    task = begun(worker)
    worker.until(lambda: worker.events == [RUNNING])
    inside, go_on, outcomes = threading.Event(), threading.Event(), []

    def batch() -> None:
        try:
            with worker.gates[0].batch():
                inside.set()
                go_on.wait(20)
                worker.gates[0].ensure_unfenced()
        except QueryEnds:
            outcomes.append("not committed")

    running = threading.Thread(target=batch)
    running.start()
    inside.wait(20)
    task.request_state(TargetState.STOPPED)
    assert ended(worker) == STOPPED
    go_on.set()
    running.join()
    assert outcomes == ["not committed"]


def test_a_query_that_cannot_be_stopped_ends_the_session(worker: Worker) -> None:
    task = begun(worker)
    worker.until(lambda: worker.events == [RUNNING])
    worker.queries[0].refuses_to_stop = True
    task.request_state(TargetState.STOPPED)
    assert ended(worker) == STOPPED
    assert worker.abandoned == ["the query of task c-0 can't be stopped (did not stop)"]


def test_a_task_that_waits_for_spark_stops_immediately(worker: Worker) -> None:
    worker.is_up.clear()
    task = begun(worker)
    worker.is_session_requested.wait(20)
    task.request_state(TargetState.STOPPED)
    assert worker.events == [STOPPED]
    worker.is_up.set()
    task.join()
    assert worker.events == [STOPPED]
    assert worker.queries == []


def test_the_wait_before_a_retry_ends_when_the_query_is_stopping() -> None:
    gate = BatchGate()
    gate.wait(0.001)
    gate.close(0)
    with pytest.raises(QueryEnds):
        gate.wait(60)
    with pytest.raises(QueryEnds), gate.batch():
        pytest.fail("a batch began after the gate was closed")
