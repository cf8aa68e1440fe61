"""Sources that poll for new data: a file, a table, a clock, where Spark has no streaming source.

The query of such a task reads a stream of ticks, one for each ``poll`` that found data, so a source without new data
runs no batches. While more data is available immediately, the same batch continues with it. The next poll starts when
the data of the last one is safe: its records are in Kafka, and its offsets in the offset topic. Checkpoints are not
used: after a restart the task begins at Connect's offsets.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from barnabas.connect.plugins.api import SourceOffset, SourceTask
from barnabas.connect_spark.queries.batch_gate import QueryEnds
from barnabas.connect_spark.sessions.scala_values import ScalaValues
from barnabas.connect_spark.sessions.session_kind import use_pool

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from barnabas.connect_spark.queries.batch_gate import BatchGate

__all__ = ["Polled", "PolledSourceTask", "Poller"]

_JOIN_TIMEOUT_S = 10
_LOOK_S = 0.2
_FOUND_AT_ONCE_S = 0.5


@dataclass(frozen=True, slots=True)
class Polled:
    """Records with the columns of ``SourceTask.read``, not streaming, and the source's position after them."""

    records: DataFrame | list[DataFrame]
    """Several frames, such as those of tables with different columns, are written one after another, and are safe
    together. None of them: only the position advances."""
    offsets: Sequence[SourceOffset]
    rows: int | list[int] | None = None
    """The number of records, if known; of several frames a list."""
    topics: frozenset[str] | None = None
    """The topics of the records, if known."""

    @property
    def frames(self) -> Sequence[DataFrame]:
        return self.records if isinstance(self.records, list) else [self.records]

    @property
    def counts(self) -> Sequence[int | None]:
        """The number of records of each frame; None if it is unknown."""
        if isinstance(self.rows, list):
            return self.rows
        return [self.rows] if len(self.frames) == 1 else [None for _ in self.frames]


class PolledSourceTask(SourceTask):
    def read(self, spark: SparkSession) -> DataFrame:
        raise TypeError("a polled source is read with poll")

    def poll(self, spark: SparkSession) -> Polled | None:
        """Return the new records since the last call, None without any. Those of the previous call are safe.

        Called every trigger interval, and immediately after a batch.
        """
        raise NotImplementedError


class Poller:
    """The thread that polls, and the ticks that start batches."""

    def __init__(
        self,
        task: PolledSourceTask,
        spark: SparkSession,
        gate: BatchGate,
        interval_s: float,
        pending: Polled | None = None,
        *,
        pool: str = "",
    ) -> None:
        """``pending`` are the records that an earlier poller had found when its query was paused. ``pool`` is the
        scheduler pool for the jobs of ``poll``."""
        self._pool = pool
        self._task = task
        self._spark = spark
        self._gate = gate
        self._interval_s = interval_s
        self._changed = threading.Condition()
        self._found: Polled | Exception | None = pending
        self._is_taken = False
        self._is_awaited = False
        """Whether a batch waits for the next records, which then need no tick."""
        self._has_found_nothing = False
        """Whether the last poll found nothing, since the taken records are safe."""
        self._stream = _TickStream(spark)
        self._thread = threading.Thread(target=self._run, name="connect-poll", daemon=True)

    @property
    def ticks(self) -> DataFrame:
        return self._stream.frame

    @property
    def pending(self) -> Polled | None:
        """Return records that were found and are not safe yet. The task is past them, so they must not be lost."""
        return self._found if isinstance(self._found, Polled) else None

    def begin(self) -> None:
        self._thread.start()

    def take(self) -> Polled | None:
        """Take the found records, None if the previous batch had them. Raise the error of polling."""
        with self._changed:
            found = self._found
            if found is None or self._is_taken:
                return None
            self._is_taken = True
        if isinstance(found, Exception):
            raise found
        return found

    def take_next(self) -> Polled | None:
        """Return records for the same batch, after ``done``; None if none are available, or none yet.

        Many small Spark batches would cost more than the records themselves.
        """
        with self._changed:
            self._is_awaited = True
            try:
                deadline = time.monotonic() + _FOUND_AT_ONCE_S
                while self._found is None and not self._has_found_nothing and not self._gate.is_closed:
                    left_s = deadline - time.monotonic()
                    if left_s <= 0:
                        return None
                    self._changed.wait(min(left_s, _LOOK_S))
            finally:
                self._is_awaited = False
            if self._gate.is_closed:
                return None
        return self.take()

    def done(self) -> None:
        """Note that the taken records are safe."""
        with self._changed:
            self._found = None
            self._is_taken = self._has_found_nothing = False
            self._changed.notify_all()

    def join(self) -> None:
        """Wait for the thread. The gate is closed, so it ends unless ``poll`` hangs."""
        if self._thread.is_alive():
            self._thread.join(_JOIN_TIMEOUT_S)

    def _run(self) -> None:
        try:
            while True:
                found = self._found or self._poll()
                if found is None:
                    self._nothing_found()
                    self._gate.wait(self._interval_s)
                    continue
                self._hand_over(found)
        except QueryEnds:
            pass

    def _nothing_found(self) -> None:
        with self._changed:
            self._has_found_nothing = True
            self._changed.notify_all()

    def _hand_over(self, found: Polled | Exception) -> None:
        """Pass on the records. Return when they are safe."""
        with self._changed:
            self._found = found
            self._changed.notify_all()
            is_awaited = self._is_awaited
        if not is_awaited:
            self._stream.tick()
        while True:
            self._gate.wait(0)
            with self._changed:
                if self._changed.wait_for(lambda: self._found is not found, _LOOK_S):
                    return

    def _poll(self) -> Polled | Exception | None:
        try:
            pool, self._pool = self._pool, ""
            if pool:  # Of this thread, from now on.
                use_pool(self._spark, pool)
            return self._task.poll(self._spark)
        except Exception as error:
            return error


class _TickStream:
    """Spark's stream in memory: one small row for each tick."""

    def __init__(self, spark: SparkSession) -> None:
        from pyspark.sql import DataFrame

        jvm: Any = spark.sparkContext._jvm
        sql, self._scala = jvm.org.apache.spark.sql, ScalaValues(jvm)
        context = spark._jsparkSession.sqlContext()
        self._stream = sql.execution.streaming.MemoryStream(0, context, self._scala.none, sql.Encoders.STRING())
        self.frame = DataFrame(self._stream.toDF(), spark)

    def tick(self) -> None:
        self._stream.addData(self._scala.seq(["tick"]))
