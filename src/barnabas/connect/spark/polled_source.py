"""Sources that look for something new by themselves: a file, a table, a clock, where Spark has no streaming source.

The query of such a task reads a stream of ticks, one for each time that ``poll`` has found something, so a source with
nothing new costs no batches. The next poll comes when the last batch is safe: its records are in Kafka, and its offsets
in the offset topic. Checkpoints play no part: after a restart the task begins at Connect's offsets.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.connect.plugins.api import SourceOffset, SourceTask
from barnabas.connect.spark.batch_gate import QueryEnds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from barnabas.connect.spark.batch_gate import BatchGate

__all__ = ["Polled", "PolledSourceTask", "Poller"]

_JOIN_TIMEOUT_S = 10


@dataclass(frozen=True, slots=True)
class Polled:
    """Records with the columns of ``SourceTask.read``, not streaming, and where the source is after them."""

    records: DataFrame
    offsets: Sequence[SourceOffset]


class PolledSourceTask(SourceTask):
    def read(self, spark: SparkSession) -> DataFrame:
        raise TypeError("a polled source is asked by poll")

    def poll(self, spark: SparkSession) -> Polled | None:
        """What is new since the last call, None for nothing. The one before is safe. Called every trigger interval,
        and at once after a batch."""
        raise NotImplementedError


class Poller:
    """The thread that polls, and the ticks by which batches follow."""

    def __init__(
        self,
        task: PolledSourceTask,
        spark: SparkSession,
        gate: BatchGate,
        interval_s: float,
        pending: Polled | None = None,
    ) -> None:
        """``pending`` is what a poller before this one had found when its query was paused."""
        self._task = task
        self._spark = spark
        self._gate = gate
        self._interval_s = interval_s
        self._found: Polled | Exception | None = pending
        self._is_done = threading.Event()
        self._stream = _TickStream(spark)
        self._thread = threading.Thread(target=self._run, name="connect-poll", daemon=True)

    @property
    def ticks(self) -> DataFrame:
        return self._stream.frame

    @property
    def pending(self) -> Polled | None:
        """What was found and is not safe yet. The task believes to be after it, so it must not get lost."""
        return self._found if isinstance(self._found, Polled) else None

    def begin(self) -> None:
        self._thread.start()

    def take(self) -> Polled:
        """In the batch: what was found, or the error that polling ended with."""
        if isinstance(self._found, Exception):
            raise self._found
        if self._found is None:
            raise RuntimeError("a tick came without anything found")
        return self._found

    def done(self) -> None:
        """What was taken is safe."""
        self._found = None
        self._is_done.set()

    def join(self) -> None:
        """The gate is closed, so it ends by itself, unless ``poll`` hangs."""
        if self._thread.is_alive():
            self._thread.join(_JOIN_TIMEOUT_S)

    def _run(self) -> None:
        try:
            while True:
                found = self._found or self._poll()
                if found is None:
                    self._gate.wait(self._interval_s)
                    continue
                self._is_done.clear()
                self._found = found
                self._stream.tick()
                while not self._is_done.wait(0.2):
                    self._gate.wait(0)
        except QueryEnds:
            pass

    def _poll(self) -> Polled | Exception | None:
        try:
            return self._task.poll(self._spark)
        except Exception as error:
            return error


class _TickStream:
    """Spark's stream in memory: one small row for each tick."""

    def __init__(self, spark: SparkSession) -> None:
        from pyspark.sql import DataFrame

        self._jvm = spark.sparkContext._jvm
        none = getattr(getattr(self._jvm.scala, "None$"), "MODULE$")  # type: ignore[union-attr]
        sql = self._jvm.org.apache.spark.sql  # type: ignore[union-attr]
        context = spark._jsparkSession.sqlContext()
        self._stream = sql.execution.streaming.MemoryStream(0, context, none, sql.Encoders.STRING())
        self.frame = DataFrame(self._stream.toDF(), spark)

    def tick(self) -> None:
        rows = self._jvm.java.util.ArrayList()  # type: ignore[union-attr]
        rows.add("tick")
        converters = self._jvm.scala.jdk.javaapi.CollectionConverters  # type: ignore[union-attr]
        self._stream.addData(converters.asScala(rows).toSeq())
