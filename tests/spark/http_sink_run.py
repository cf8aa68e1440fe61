"""Run by test_connect_http_kills: a runtime with a TopicToHttp, in a process of its own that may be killed at any
moment. Arguments: bootstrap servers, folder, URL, topic. Prints a line when the task runs.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.decide.tasks.task_partitions import TASK_PARTITIONS, format_partitions
from barnabas.connect.decide.tasks.task_runtime import TaskEvent, TaskFailed, TaskStart
from barnabas.connect.identifiers import ConnectorTaskId, TargetState
from barnabas.connect_spark.connectors.http.topic_to_http import TopicToHttp
from barnabas.connect_spark.spark_runtime import SparkTaskRuntime
from tests.spark.connect_stage import MemoryOffsets

STRING = "org.apache.kafka.connect.storage.StringConverter"


async def main(bootstrap: str, folder: Path, url: str, topic: str) -> None:
    runtime = SparkTaskRuntime(
        {
            "bootstrap.servers": bootstrap,
            "key.converter": STRING,
            "value.converter": STRING,
            "barnabas.connect.spark.master": "local[1]",
            "barnabas.connect.spark.directory": str(folder),
            "barnabas.connect.spark.conf.spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        },
        MemoryOffsets(),
        lambda config: TopicToHttp,
        worker_id="127.0.0.1:8083",
    )
    events: asyncio.Queue[TaskEvent] = asyncio.Queue()
    config = {
        "name": "killed",
        "http.url": url,
        "http.record.content": "text",
        "batch.max.records": "7",
        "barnabas.batch.records.max": "60",
        "barnabas.trigger.interval.ms": "100",
    }
    partitions = [TopicPartition(topic, partition) for partition in range(2)]
    of_task = config | {TASK_PARTITIONS: format_partitions(partitions)}
    start = TaskStart(ConnectorTaskId("killed", 0), config, of_task, TargetState.STARTED, 1)
    await runtime.start_task(start, events.put_nowait)
    while True:
        event = await events.get()
        print(type(event).__name__, event.trace if isinstance(event, TaskFailed) else "", flush=True)


asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4]))
