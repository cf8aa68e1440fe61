"""``python -m tests.spark.exactly_once_run FOLDER SERVERS STEP BATCHES``: run a task until it dies at a step.

The task has Spark's own positions, which are in a checkpoint and in the offset topic. The process kills itself with
SIGKILL at the STEP of its second batch, or, with the step ``none``, stops after BATCHES batches.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.clients.admin import AdminClient
from barnabas.clients.admin.partitions import OffsetSpec
from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.decide.tasks.task_runtime import TaskEvent, TaskFailed, TaskStart
from barnabas.connect.identifiers import ConnectorTaskId, TargetState
from barnabas.connect.plugins.api import SourceConnector, SourceTask
from barnabas.connect.run.internal_topics.worker_topics import SourceOffsets
from barnabas.connect_spark.queries.query_handle import QueryHandle
from barnabas.connect_spark.queries.shared_producer import SharedProducer
from barnabas.connect_spark.spark_runtime import SparkTaskRuntime
from tests.spark.connect_stage import TextPath

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["OUT", "ROWS", "STEPS"]

OUT = "once"
ROWS = 40
"""The rows of a batch."""
_NUMBER = 2
_TASK = ConnectorTaskId("numbers", 0)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _soon(delay_s: float) -> None:
    threading.Timer(delay_s, _die).start()


class _Numbers(SourceTask):
    def read(self, spark: SparkSession) -> DataFrame:
        rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).load()
        pause = "reflect('java.lang.Thread', 'sleep', 20L)" if self.config["is.slow"] == "true" else "''"
        return rows.selectExpr(f"'{OUT}' AS topic", f"concat(CAST(value AS STRING), left({pause}, 0)) AS value")


class Numbers(SourceConnector):
    version = "1.0"
    task_class = _Numbers


class _Steps:
    """Patches the calls of a batch."""

    def __init__(self, step: str, servers: str) -> None:
        self._step = step
        self._servers = servers
        self.batches = 0

    def patch(self) -> None:
        begin, send, commit = SharedProducer.begin, SharedProducer.send, SharedProducer.commit
        ends = QueryHandle.ends

        def begun(producer: SharedProducer) -> None:
            self.batches += 1
            self._at("before begin")
            begin(producer)
            self._at("after begin")
            if self._is_now("while writing"):
                threading.Thread(target=self._die_while_writing, daemon=True).start()

        def ended(handle: QueryHandle, number: int) -> Any:
            self._at("after writing")
            return ends(handle, number)

        def sent(producer: SharedProducer, records: Any) -> None:
            send(producer, records)
            self._at("after the positions were sent")

        def committed(producer: SharedProducer) -> None:
            for part in (0, 2, 5):
                if self._is_now(f"{part} ms into the commit"):
                    _soon(part / 1000)
            commit(producer)
            self._at("after commit")

        for target, name, call in (
            (SharedProducer, "begin", begun),
            (SharedProducer, "send", sent),
            (SharedProducer, "commit", committed),
            (QueryHandle, "ends", ended),
        ):
            setattr(target, name, call)

    def _is_now(self, step: str) -> bool:
        return step == self._step and self.batches == _NUMBER

    def _at(self, step: str) -> None:
        if self._is_now(step):
            _die()

    def _die_while_writing(self) -> None:
        """Die when the topic has a part of the batch."""
        with AdminClient.sync(self._servers) as admin:
            partition = TopicPartition(OUT, 0)

            def end() -> int:
                found = admin.list_offsets({partition: OffsetSpec.latest()}).raise_for_errors()
                return found[partition].offset

            before = end()
            while end() < before + ROWS // 4:
                time.sleep(0.01)
        _die()


STEPS = (
    "before begin",
    "after begin",
    "while writing",
    "after writing",
    "after the positions were sent",
    *(f"{part} ms into the commit" for part in (0, 2, 5)),
    "after commit",
)


async def _run(folder: Path, servers: str, step: str, batches: int) -> None:
    steps = _Steps(step, servers)
    steps.patch()
    settings = {
        "bootstrap.servers": servers,
        "group.id": "workers",
        "offset.storage.topic": "offsets",
        "offset.storage.partitions": "2",
        "offset.storage.replication.factor": "1",
        "exactly.once.source.support": "enabled",
        "barnabas.connect.spark.directory": str(folder / "worker"),
        "barnabas.connect.spark.master": "local[2]",
    }
    offsets = SourceOffsets(settings)
    await offsets.start()
    runtime = SparkTaskRuntime(
        settings, offsets, lambda config: Numbers, worker_id="127.0.0.1:8083", record_path=TextPath
    )
    events: list[TaskEvent] = []

    async def confirm() -> None:
        return

    config = {"name": _TASK.connector, "is.slow": str(step == "while writing").lower()}
    config |= {"barnabas.trigger.interval.ms": "100", "producer.override.linger.ms": "0"}
    start = TaskStart(
        _TASK, config, config, TargetState.STARTED, 1, transactional_id=f"workers-{_TASK}", confirm=confirm
    )
    await runtime.start_task(start, events.append)
    await _until(lambda: steps.batches > batches, events)
    await runtime.close()
    await offsets.close()


async def _until(condition: Callable[[], bool], events: list[TaskEvent]) -> None:
    while not condition():
        for event in events:
            if isinstance(event, TaskFailed):
                sys.exit(event.trace)
        await asyncio.sleep(0.05)


if __name__ == "__main__":
    asyncio.run(_run(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])))
