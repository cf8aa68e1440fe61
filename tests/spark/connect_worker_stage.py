"""A complete worker in the test's process: its tasks run on the session of the tests, everything else is as in
production."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from barnabas.connect.decide.registry.plugin_registry import PluginRegistry
from barnabas.connect.decide.tasks.task_runtime import OffsetStore, TaskRuntime
from barnabas.connect.run.worker import Worker
from barnabas.connect.settings.worker_config import WorkerConfig, worker_config_of
from barnabas.connect_spark.spark_runtime import SparkTaskRuntime
from tests.peers.connect_worker import worker_settings
from tests.peers.in_process_workers import InProcessWorker
from tests.spark.connect_stage import SharedSession

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SparkWorker", "running_worker"]

_TIMEOUT_S = 90


class SparkWorker(InProcessWorker):
    async def create(self, name: str, config: Mapping[str, str]) -> None:
        body = {"name": name, "config": {"barnabas.trigger.interval.ms": "100", **config}}
        answer = await self.request("POST", "/connectors", body)
        assert answer.status_code == 201, answer.text

    async def states(self, name: str, *states: str, was: str = "") -> dict[str, Any]:
        """Return the status when the tasks have exactly these states. A failed task fails the test, unless a failure is
        expected, or equals ``was``."""

        def wanted(status: dict[str, Any]) -> bool:
            found = [task["state"] for task in status["tasks"]]
            assert "FAILED" in (*states, was) or "FAILED" not in found, status
            return found == list(states)

        found: dict[str, Any] = await self.until(f"/connectors/{name}/status", wanted, timeout_s=_TIMEOUT_S)
        return found

    async def eventually(self, condition: Callable[[], bool]) -> None:
        """Poll the condition on a thread. A task that fails meanwhile fails the test."""
        async with asyncio.timeout(_TIMEOUT_S):
            while not await asyncio.to_thread(condition):
                for name, details in (await self.request("GET", "/connectors?expand=status")).json().items():
                    for task in details["status"]["tasks"]:
                        assert task["state"] != "FAILED", f"{name}: {task['trace']}"
                await asyncio.sleep(0.1)


@asynccontextmanager
async def running_worker(
    spark: SparkSession, bootstrap: str, group: str, folder: Path, settings: Mapping[str, str] | None = None
) -> AsyncIterator[SparkWorker]:
    given = {
        **worker_settings(bootstrap, group),
        "listeners": "http://127.0.0.1:0",
        "barnabas.connect.spark.directory": str(folder / "worker"),
        **(settings or {}),
    }

    async def make_runtime(
        *, config: WorkerConfig, offsets: OffsetStore, registry: PluginRegistry, worker_id: str
    ) -> TaskRuntime:
        return SparkTaskRuntime(
            registry.with_full_names(config.texts),
            offsets,
            registry.connector_class,
            worker_id=worker_id,
            sessions=SharedSession(spark),
        )

    worker = Worker(worker_config_of(given), make_runtime)
    async with httpx.AsyncClient(timeout=100, trust_env=False) as client:
        started = SparkWorker(worker, await worker.start(), client)
        try:
            yield started
        finally:
            await started.stop()
