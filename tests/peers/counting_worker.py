"""A Connect worker as a process, complete except for Spark: its tasks count, and record who counted.

``python -m tests.peers.counting_worker PROPERTIES``. Every task of a source writes batches of numbers that continue at
the position in the offset topic. A record names its task, its number and its *run*: one start of the task on one
worker. So two concurrent owners appear in the topic as interleaved runs, whatever the workers believe.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import httpx

from barnabas.clients.client_config import client_config
from barnabas.clients.network_client import NetworkClient
from barnabas.clients.topic_metadata import TopicMetadataSource
from barnabas.connect.decide.tasks.task_runtime import (
    OffsetStore,
    TaskFailed,
    TaskListener,
    TaskPaused,
    TaskRunning,
    TaskStart,
    TaskStopped,
)
from barnabas.connect.errors import ConnectError
from barnabas.connect.identifiers import ConnectorTaskId, TargetState
from barnabas.connect.run.internal_topics.topic_writer import TopicWriter
from barnabas.connect.run.worker import run_worker
from barnabas.connect.settings.worker_config import WorkerConfig, load_worker_config
from tests.peers.node_process import NodeProcess

__all__ = ["BATCH", "CountingWorker"]

BATCH = 5
"""The numbers of one batch: at most this many are repeated when a task loses its worker."""

_PAUSE_S = 0.02
_WRITE_TIMEOUT_S = 10


class _Runtime:
    """A TaskRuntime. A running batch of a stopping task has the graceful timeout to finish, as on Spark."""

    def __init__(self, config: WorkerConfig, offsets: OffsetStore) -> None:
        self._offsets = offsets
        self._graceful_s = config.task_shutdown_graceful_timeout_ms / 1000
        self._network = NetworkClient(client_config(config.client_properties, source="the worker's settings"))
        self._tasks: dict[ConnectorTaskId, asyncio.Task[None]] = {}
        self._stopping: set[ConnectorTaskId] = set()
        self._runs = count()

    async def start_task(self, start: TaskStart, listener: TaskListener) -> None:
        run = f"{os.getpid()}.{next(self._runs)}"
        self._tasks[start.task] = asyncio.create_task(self._count(start, run, listener))

    async def stop_tasks(self, tasks: Sequence[ConnectorTaskId]) -> None:
        here = {task: self._tasks[task] for task in tasks if task in self._tasks}
        self._stopping.update(here)
        if here:
            _, late = await asyncio.wait(here.values(), timeout=self._graceful_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*here.values(), return_exceptions=True)

    async def pause_task(self, task: ConnectorTaskId) -> None:
        raise NotImplementedError

    async def resume_task(self, task: ConnectorTaskId) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        await self.stop_tasks(list(self._tasks))
        await self._network.close()

    async def _count(self, start: TaskStart, run: str, listener: TaskListener) -> None:
        end: TaskStopped | TaskFailed = TaskStopped(start.task)
        topic = start.connector_config["topic"]
        writer = TopicWriter(self._network, topic)
        try:
            writer.start(await TopicMetadataSource(self._network, topic).load())
            listener(TaskPaused(start.task) if start.target_state is TargetState.PAUSED else TaskRunning(start.task))
            while start.task not in self._stopping:
                await self._write_batch(start, run, writer)
                await asyncio.sleep(_PAUSE_S)
        except asyncio.CancelledError:
            pass
        except (ConnectError, OSError) as error:
            end = TaskFailed(start.task, str(error))
        await writer.close()
        del self._tasks[start.task]
        self._stopping.discard(start.task)
        listener(end)

    async def _write_batch(self, start: TaskStart, run: str, writer: TopicWriter) -> None:
        partition = {"task": start.task.task}
        position: Any = self._offsets.source_offset(start.task.connector, partition) or {"next": 0}
        first = position["next"]
        records = [
            (None, json.dumps({"task": start.task.task, "number": number, "run": run}).encode())
            for number in range(first, first + BATCH)
        ]
        await writer.write(records, timeout_s=_WRITE_TIMEOUT_S)
        await self._offsets.write_source_offsets(start.task.connector, [(partition, {"next": first + BATCH})])


class CountingWorker(NodeProcess):
    """``settings`` are those of ``connect_worker.worker_settings``, and more. ``port`` is that of its REST API."""

    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        super().__init__(folder)
        self._settings = {"listeners": self.url, **settings}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        properties = self.folder / "worker.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in self._settings.items()))
        project = Path(__file__).resolve().parents[2]
        run = f"import sys; sys.path[:0] = [{str(project)!r}]; from tests.peers.counting_worker import main; main()"
        return [sys.executable, "-c", run, str(properties)]

    def is_ready(self, printed: str) -> bool:
        try:
            return httpx.get(f"{self.url}/health", timeout=15, trust_env=False).status_code == 200
        except httpx.HTTPError:
            return False


async def _run(config: WorkerConfig) -> None:
    async def make_runtime(*, config: WorkerConfig, offsets: OffsetStore, **_: Any) -> _Runtime:
        return _Runtime(config, offsets)

    await run_worker(config, make_runtime)


def main() -> None:
    asyncio.run(_run(load_worker_config(sys.argv[1])))
