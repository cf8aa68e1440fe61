"""Connect workers of ours in the test's own process, complete except for Spark: their tasks only record that they
run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx

from barnabas.connect.decide.tasks.task_partitions import TASK_PARTITIONS
from barnabas.connect.decide.tasks.task_runtime import (
    TaskFailed,
    TaskListener,
    TaskPaused,
    TaskRunning,
    TaskStart,
    TaskStopped,
)
from barnabas.connect.identifiers import ConnectorTaskId, TargetState
from barnabas.connect.metrics.task_metrics import TaskFigures, TaskKind
from barnabas.connect.run.running_worker import RunningWorker
from barnabas.connect.run.worker import Worker
from barnabas.connect.settings.worker_config import worker_config_of
from tests.peers.connect_worker import worker_settings

__all__ = ["InProcessWorker", "TaskLedger", "eventually", "in_process_worker"]


async def eventually(condition: Callable[[], bool]) -> None:
    """Poll without a limit: the timeout of the test ends it."""
    while not condition():  # noqa: ASYNC110 - what is watched has no event.
        await asyncio.sleep(0.02)


class TaskLedger:
    """The owner of each task, over all workers of a test. Two concurrent owners are an error."""

    def __init__(self) -> None:
        self.owners: dict[ConnectorTaskId, str] = {}
        self.starts: list[tuple[str, TaskStart]] = []
        self.listeners: dict[ConnectorTaskId, TaskListener] = {}
        """The listener of each running task, for events of the test."""
        self.failing: set[str] = set()
        """Connectors whose tasks fail when they start."""

    def start(self, worker: str, start: TaskStart) -> None:
        assert start.task not in self.owners, f"{start.task} runs on {self.owners[start.task]} and starts on {worker}"
        self.owners[start.task] = worker
        self.starts.append((worker, start))

    def fail(self, task: ConnectorTaskId, trace: str) -> None:
        """End a running task with a failure."""
        del self.owners[task]
        self.listeners[task](TaskFailed(task, trace))


class _Runtime:
    """A TaskRuntime."""

    def __init__(self, worker: str, ledger: TaskLedger) -> None:
        self._worker = worker
        self._ledger = ledger
        self._tasks: dict[ConnectorTaskId, TaskListener] = {}
        self._figures: dict[ConnectorTaskId, TaskFigures] = {}

    def figures(self, task: ConnectorTaskId) -> TaskFigures | None:
        """Return figures of a task that has done nothing yet."""
        return self._figures.get(task)

    async def start_task(self, start: TaskStart, listener: TaskListener) -> None:
        if start.task.connector in self._ledger.failing:
            # The text quotes its input, as a library may.
            listener(TaskFailed(start.task, f"it broke\n{start.connector_config}"))
            return
        self._ledger.start(self._worker, start)
        self._tasks[start.task] = self._ledger.listeners[start.task] = listener
        figures = self._figures[start.task] = TaskFigures(monotonic_ms=lambda: 0, epoch_ms=lambda: 0)
        figures.is_of(TaskKind.SINK if TASK_PARTITIONS in start.task_config else TaskKind.SOURCE)
        is_paused = start.target_state is TargetState.PAUSED
        listener(TaskPaused(start.task) if is_paused else TaskRunning(start.task))

    async def stop_tasks(self, tasks: Sequence[ConnectorTaskId]) -> None:
        await asyncio.sleep(0.01)
        for task in tasks:
            listener = self._tasks.pop(task, None)
            if listener is not None and self._ledger.owners.get(task) == self._worker:  # It has not failed meanwhile.
                del self._ledger.owners[task]
                listener(TaskStopped(task))

    async def pause_task(self, task: ConnectorTaskId) -> None:
        if task in self._tasks:
            self._tasks[task](TaskPaused(task))

    async def resume_task(self, task: ConnectorTaskId) -> None:
        if task in self._tasks:
            self._tasks[task](TaskRunning(task))

    async def close(self) -> None:
        await self.stop_tasks(list(self._tasks))


class InProcessWorker:
    def __init__(self, worker: Worker, running: RunningWorker, client: httpx.AsyncClient) -> None:
        self.worker = worker
        self.running = running
        self.client = client
        self._is_dead = False

    @property
    def url(self) -> str:
        return self.worker.rest.advertised_url.rstrip("/")

    @property
    def worker_id(self) -> str:
        return self.worker.rest.worker_id

    async def request(self, method: str, path: str, body: object = None) -> httpx.Response:
        return await self.client.request(method, self.url + path, json=body)

    async def until(self, path: str, wanted: Callable[[Any], bool], *, timeout_s: float = 30) -> Any:
        """Return the first answer that satisfies the condition."""
        found: Any = None
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    answer = await self.request("GET", path)
                    found = answer.json()
                    if answer.status_code == 200 and wanted(found):
                        return found
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"GET {path} kept answering {found}") from None

    async def die(self) -> None:
        """End the worker as by kill -9: without notice to the group, and without cleanup."""
        self._is_dead = True
        await self.running.group.close()
        await self.running.outside.close()
        await self.running.tasks.close()

    async def stop(self) -> None:
        if self._is_dead:
            await self.running.close()
        else:
            await self.running.stop()


@asynccontextmanager
async def in_process_worker(
    bootstrap: str, group: str, ledger: TaskLedger, port: int = 0, **settings: str
) -> AsyncIterator[InProcessWorker]:
    given = {
        **worker_settings(bootstrap, group),
        "listeners": f"http://127.0.0.1:{port}",
        **{name.replace("_", "."): value for name, value in settings.items()},
    }

    async def make_runtime(*, worker_id: str, **_: Any) -> _Runtime:
        return _Runtime(worker_id, ledger)

    worker = Worker(worker_config_of(given), make_runtime)
    async with httpx.AsyncClient(timeout=100, trust_env=False) as client:
        started = InProcessWorker(worker, await worker.start(), client)
        try:
            yield started
        finally:
            await started.stop()
