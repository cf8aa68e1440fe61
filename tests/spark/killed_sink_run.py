"""``python -m tests.spark.killed_sink_run SETTINGS STEP``: a sink writes batches until it dies at a step.

SETTINGS is a JSON object: ``class`` (TopicToIceberg or TopicToFiles), ``config``, ``hadoop`` (settings of the session),
and ``folder``. The task begins at the positions that its target has, as a worker's task does, and writes batches of
ROWS numbered records up to TOTAL. The process kills itself with SIGKILL at the STEP of its second batch; with the step
``none`` it writes all.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.connect.plugins.api import SinkTask, TopicPartition
from barnabas.connect.plugins.testing import ConnectorKit, SinkRecord
from barnabas.connect_spark.connectors.files.s3_store import S3Store
from barnabas.connect_spark.connectors.files.topic_to_files import TopicToFiles
from barnabas.connect_spark.connectors.iceberg.iceberg_table import IcebergTable, IcebergTransaction
from barnabas.connect_spark.connectors.iceberg.topic_to_iceberg import TopicToIceberg
from barnabas.spark import connector_jars as jars_of
from barnabas.spark.java_runtime import find_java
from barnabas.spark.spark_session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ROWS", "STEPS", "TOTAL", "VALUE"]

ROWS, TOTAL = 10, 200
VALUE = "struct<id: bigint, name: string>"
P0 = TopicPartition("topic", 0)

_TARGETS: dict[str, dict[str, tuple[Any, str]]] = {
    "TopicToIceberg": {
        "the table": (IcebergTable, "create"),
        "the files": (IcebergTransaction, "_written"),
        "the change": (IcebergTransaction, "_update"),
        "the commit": (IcebergTransaction, "_try_commit"),
    },
    "TopicToFiles": {
        "write 1": (S3Store, "replace"),  # The task takes over.
        "write 2": (S3Store, "replace"),  # The commit.
        "write 3": (S3Store, "replace"),  # All files are copied.
        "copy 1": (S3Store, "copy"),
        "deletion 1": (S3Store, "delete"),
    },
}
STEPS = {
    kind: [f"{when} {what}" for what in calls for when in ("before", "during", "after")]
    for kind, calls in _TARGETS.items()
}


class _Steps:
    """Patches the calls of a batch."""

    def __init__(self, step: str) -> None:
        self._step = step
        self.batches = 0

    def patch(self, kind: str) -> None:
        for what, (target, name) in _TARGETS[kind].items():
            setattr(target, name, self._watched(what, getattr(target, name)))

    def _watched(self, what: str, call: Callable[..., Any]) -> Callable[..., Any]:
        number = int(what[-1]) if what[-1].isdigit() else None
        count = 0

        def watched(*given: Any, **named: Any) -> Any:
            nonlocal count
            is_now = self.batches == (1 if what == "the table" else 2) and "/probe-" not in str(given)
            count += is_now
            is_now = is_now and number in (None, count)
            if is_now and self._step == f"before {what}":
                _die()
            if is_now and self._step == f"during {what}":
                threading.Timer(0.01, _die).start()
            result = call(*given, **named)
            if is_now and self._step == f"after {what}":
                _die()
            return result

        return watched


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _write(spark: SparkSession, kit: ConnectorKit, steps: _Steps) -> None:
    done = 0
    while done < TOTAL:
        task = kit.task()
        assert isinstance(task, SinkTask)
        task.start(spark)
        done = task.positions([P0]).get(P0, 0)
        task.stop()
        if done < TOTAL:
            records = [SinkRecord((at % 50, f"name {at}"), key=at % 50, offset=at) for at in range(done, done + ROWS)]
            steps.batches += 1
            kit.write(spark, records, key_type="bigint", value_type=VALUE)


def main(settings: dict[str, Any], step: str) -> None:
    steps = _Steps(step)
    steps.patch(settings["class"])
    work = Path(settings["folder"])
    java, cache = find_java(os.environ), jars_of.cache_directory(os.environ)
    sets = (jars_of.iceberg_jars, jars_of.s3_jars)
    conf = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"}
    conf |= {f"spark.hadoop.{name}": text for name, text in settings["hadoop"].items()}
    classes = {"TopicToIceberg": TopicToIceberg, "TopicToFiles": TopicToFiles}
    with spark_session(
        "killed",
        master="local[2]",
        jars=[jar for provide in sets for jar in provide(cache, java, print)],
        java=java,
        work=work,
        settings=conf,
    ) as spark:
        _write(spark, ConnectorKit(classes[settings["class"]], settings["config"]), steps)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2])
