"""``python -m tests.spark.sql_kill_run FOLDER SERVERS KIND STEP``: run a pipeline until it dies at a step.

The process kills itself with SIGKILL at the STEP of its second batch, or, with the step ``none``, stops when it has
read all of its input. KIND is one of ``KINDS``.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from barnabas.connect.decide.tasks.task_runtime import TaskEvent, TaskFailed, TaskStart
from barnabas.connect.identifiers import ConnectorTaskId, TargetState
from barnabas.connect.run.internal_topics.worker_topics import SourceOffsets
from barnabas.connect_spark.connectors.delta.delta_log import DeltaTransaction
from barnabas.connect_spark.queries.shared_producer import SharedProducer
from barnabas.connect_spark.spark_runtime import SparkTaskRuntime
from barnabas.connect_spark.sql.pipeline_delivery import TableDelivery
from barnabas.connect_spark.sql.sql_pipeline import SqlPipeline

__all__ = ["INPUT", "KINDS", "OUTPUT", "ROWS", "STEPS", "TOTAL"]

INPUT, OUTPUT = "killed-in", "killed-out"
ROWS = 20
"""The rows of a batch."""
TOTAL = 400
_NUMBER = 2
_TASK = ConnectorTaskId("killed", 0)

_TOPIC_STEPS = ("before begin", "after begin", "after writing", "after the positions were sent", "after commit")
_TABLE_STEPS = ("before the table's commit", "after the table's commit", "after the positions")
STEPS = {"groups": _TOPIC_STEPS, "windows": _TOPIC_STEPS, "rows": _TOPIC_STEPS, "table": _TABLE_STEPS}
STEPS["sums"] = _TABLE_STEPS
KINDS = tuple(STEPS)

_QUERIES = {
    "groups": ("SELECT k, sum(n) AS total, count(*) AS rows FROM numbers GROUP BY k", "upsert"),
    "windows": (
        "SELECT window.start AS since, k, sum(n) AS total, count(*) AS rows FROM numbers "
        "GROUP BY window(at, '10 seconds'), k",
        "append",
    ),
    "rows": ("SELECT n, k FROM numbers", "append"),
    "table": ("SELECT n, k FROM numbers", "append"),
    "sums": ("SELECT k, sum(n) AS total, count(*) AS rows FROM numbers GROUP BY k", "upsert"),
}


def config_of(kind: str, folder: Path) -> dict[str, str]:
    query, mode = _QUERIES[kind]
    config = {
        "name": _TASK.connector,
        "inputs": "numbers",
        "inputs.numbers.topic": INPUT,
        "inputs.numbers.format": "json",
        "inputs.numbers.schema": "n BIGINT, k BIGINT, at TIMESTAMP",
        "query": query,
        "output.mode": mode,
        "output.key": "k",
        "batch.records.max": str(ROWS),
        "barnabas.trigger.interval.ms": "50",
        "producer.override.linger.ms": "0",
    }
    if kind == "windows":
        config |= {"inputs.numbers.event.time": "at", "inputs.numbers.watermark": "5 seconds"}
    if kind in ("table", "sums"):
        return config | {"output.table": f"delta:{folder / 'table'}"}
    return config | {"output.topic": OUTPUT, "output.format": "json", "output.key.format": "string"}


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class _Steps:
    """Patches the calls of a batch."""

    def __init__(self, step: str) -> None:
        self._step = step
        self._batches = 0

    def at(self, step: str) -> None:
        if step == self._step and self._batches == _NUMBER:
            _die()

    def patch(self) -> None:
        begin, send, commit = SharedProducer.begin, SharedProducer.send, SharedProducer.commit
        deliver, table_commit = TableDelivery.deliver, DeltaTransaction.commit

        def begun(producer: SharedProducer) -> None:
            self._batches += 1
            self.at("before begin")
            begin(producer)
            self.at("after begin")

        def sent(producer: SharedProducer, records: Any) -> None:
            self.at("after writing")
            send(producer, records)
            self.at("after the positions were sent")

        def committed(producer: SharedProducer) -> None:
            commit(producer)
            self.at("after commit")

        def delivered(delivery: TableDelivery, *arguments: Any) -> None:
            self._batches += 1
            deliver(delivery, *arguments)
            self.at("after the positions")

        def committed_table(transaction: DeltaTransaction, positions: Any) -> None:
            self.at("before the table's commit")
            table_commit(transaction, positions)
            self.at("after the table's commit")

        for target, name, call in (
            (SharedProducer, "begin", begun),
            (SharedProducer, "send", sent),
            (SharedProducer, "commit", committed),
            (TableDelivery, "deliver", delivered),
            (DeltaTransaction, "commit", committed_table),
        ):
            setattr(target, name, call)


async def _run(folder: Path, servers: str, kind: str, step: str) -> None:
    _Steps(step).patch()
    settings = {
        "bootstrap.servers": servers,
        "group.id": "workers",
        "offset.storage.topic": f"offsets-{kind}",
        "offset.storage.partitions": "2",
        "offset.storage.replication.factor": "1",
        "exactly.once.source.support": "enabled",
        "barnabas.connect.spark.directory": str(folder / "worker"),
        "barnabas.connect.spark.master": "local[2]",
        "barnabas.connect.spark.delta": "true",
        "key.converter": "StringConverter",
        "value.converter": "JsonConverter",
        "value.converter.schemas.enable": "false",
    }
    offsets = SourceOffsets(settings)
    await offsets.start()
    runtime = SparkTaskRuntime(settings, offsets, lambda config: SqlPipeline, worker_id="127.0.0.1:8083")
    events: list[TaskEvent] = []

    async def confirm() -> None:
        return

    config = config_of(kind, folder)
    start = TaskStart(
        _TASK, config, config, TargetState.STARTED, 1, transactional_id=f"workers-{_TASK}", confirm=confirm
    )
    await runtime.start_task(start, events.append)
    partition = {"input": "numbers", "topic": INPUT, "partition": 0}
    while (offsets.source_offset(_TASK.connector, partition) or {}).get("offset") != TOTAL:
        for event in events:
            if isinstance(event, TaskFailed):
                sys.exit(event.trace)
        await asyncio.sleep(0.1)
        await offsets.read_offsets_to_end(_TASK.connector)
    await asyncio.sleep(15 if kind == "windows" else 1)  # Windows that the last records have completed.
    await runtime.close()
    await offsets.close()


if __name__ == "__main__":
    asyncio.run(_run(Path(sys.argv[1]), *sys.argv[2:5]))
