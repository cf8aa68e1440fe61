"""Run by test_connect_session_dies: a worker's runtime whose JVM is killed, in a separate process. Arguments: bootstrap
servers, folder. Prints a line for each event.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

from barnabas.clients.admin import AdminClient
from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.decide.tasks.task_partitions import TASK_PARTITIONS, format_partitions
from barnabas.connect.decide.tasks.task_runtime import TaskEvent, TaskStart
from barnabas.connect.identifiers import ConnectorTaskId, TargetState
from barnabas.connect_spark.connectors.files.file_stream import FileStreamSink
from barnabas.connect_spark.spark_runtime import SparkTaskRuntime
from tests.spark.connect_stage import MemoryOffsets

TASK = ConnectorTaskId("dying", 0)
PARTITION = TopicPartition("dying", 0)
STRING = "org.apache.kafka.connect.storage.StringConverter"


async def main(bootstrap: str, folder: Path) -> None:
    runtime = SparkTaskRuntime(
        {
            "bootstrap.servers": bootstrap,
            "key.converter": STRING,
            "value.converter": STRING,
            "barnabas.connect.spark.master": "local[1]",
            "barnabas.connect.spark.directory": str(folder / "worker"),
            "barnabas.connect.spark.conf.spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        },
        MemoryOffsets(),
        lambda config: FileStreamSink,
        worker_id="127.0.0.1:8083",
    )
    events: asyncio.Queue[TaskEvent] = asyncio.Queue()
    config = {"file": str(folder / "out.txt")}
    start = TaskStart(
        TASK, {"name": "dying", **config}, config | {TASK_PARTITIONS: format_partitions([PARTITION])},
        TargetState.STARTED, 1,
    )  # fmt: skip
    for round_number in range(2):
        await runtime.start_task(start, events.put_nowait)
        print(type(await asyncio.wait_for(events.get(), 240)).__name__, flush=True)
        await asyncio.to_thread(until_committed, bootstrap)
        if round_number == 0:
            os.kill(jvm(), signal.SIGKILL)
            async with asyncio.timeout(240):
                failed = await events.get()
            print(type(failed).__name__, getattr(failed, "trace", "").splitlines()[0], flush=True)
    await runtime.stop_tasks([TASK])
    print(type(await asyncio.wait_for(events.get(), 240)).__name__, flush=True)
    await runtime.close()


def jvm() -> int:
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    assert gateway is not None
    return int(gateway.proc.pid)


def until_committed(bootstrap: str) -> None:
    with AdminClient.sync(bootstrap) as admin:
        while PARTITION not in admin.list_group_offsets(["connect-dying"])["connect-dying"].values:
            time.sleep(0.1)


asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
